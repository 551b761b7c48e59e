#include "experiments/store/sqlite.h"

#include <sqlite3.h>

#include "experiments/text.h"

namespace schedtwin {
namespace {

// Long enough for another process to end its batch, short enough that nobody takes it for a hang.
constexpr std::chrono::seconds kBusyTimeout(20);

absl::Status ToStatus(int code, std::string_view path, const char* message, bool reading) {
  const std::string what = Cat(path.empty() ? "results file" : path, ": ", message);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return absl::InvalidArgumentError(
          Cat(path,
              " is not a schedtwin results file (not a SQLite database); name another with --db"));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      if (reading) {
        return absl::PermissionDeniedError(
            Cat("cannot read results file ", what, "; name one that you may read with --db FILE"));
      }
      return absl::PermissionDeniedError(
          Cat("cannot write results file ", what,
              "; choose a file in a folder that exists and that you may write, with --db FILE"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(
          Cat("results file ", path, " is held by another process for more than ",
              kBusyTimeout.count(), " s; wait for it to end, or use another file with --db"));
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(Cat("no space left to write ", what));
    case SQLITE_CORRUPT:
      return absl::DataLossError(Cat("results file is damaged: ", what));
    default:
      return absl::InternalError(Cat("results file ", what));
  }
}

absl::Status LastErrorOf(sqlite3* handle, std::string_view path, bool reading) {
  return ToStatus(sqlite3_extended_errcode(handle), path, sqlite3_errmsg(handle), reading);
}

absl::Status LastErrorOf(sqlite3_stmt* statement, bool reading) {
  sqlite3* handle = sqlite3_db_handle(statement);
  const char* path = sqlite3_db_filename(handle, "main");
  return LastErrorOf(handle, path == nullptr ? "" : path, reading);
}

// What SQLite takes for the file of this name, whatever its name: "file:..." is a URI to it.
std::string PlainName(const std::string& path) {
  return path.starts_with("file:") ? "./" + path : path;
}

std::string ImmutableUri(const std::string& path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string uri = path.starts_with('/') ? "file://" : "file:./";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    if (plain) {
      uri += c;
    } else {
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement& Statement::Bind(int parameter, std::int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::Bind(int parameter, double value) {
  bind_error_ |= sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::Bind(int parameter, std::string_view text) {
  // A null pointer would bind NULL where an empty text is meant.
  const char* data = text.data() == nullptr ? "" : text.data();
  bind_error_ |= sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_STATIC,
                                     SQLITE_UTF8);
  return *this;
}

Statement& Statement::BindNull(int parameter) {
  bind_error_ |= sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return LastErrorOf(statement_.get(), reading_);
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default: {
      const absl::Status status = LastErrorOf(statement_.get(), reading_);
      sqlite3_reset(statement_.get());
      return status;
    }
  }
}

absl::Status Statement::Run() {
  const absl::Status status = ForEachRow(*this, [](const Statement&) {});
  Reset();
  return status;
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  bind_error_ = 0;
}

int Statement::columns() const { return sqlite3_column_count(statement_.get()); }

std::string_view Statement::column_name(int column) const {
  const char* name = sqlite3_column_name(statement_.get(), column);
  return name == nullptr ? std::string_view() : name;
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

bool Statement::is_integer(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_INTEGER;
}

bool Statement::is_text(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_TEXT;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string_view Statement::text(int column) const {
  const auto* data =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));  // NOLINT
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

absl::StatusOr<Database> Database::Open(const std::string& path, OpenMode mode) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  std::string name = PlainName(path);
  switch (mode) {
    case OpenMode::kRead:
      // Read-write where possible: a reader of a WAL file may have to make its shared-memory file.
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case OpenMode::kWrite:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
    case OpenMode::kImmutable:
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      name = ImmutableUri(path);
      break;
  }
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  Database database;
  database.handle_.reset(handle);
  database.path_ = path;
  database.reading_ = mode != OpenMode::kWrite;
  if (code != SQLITE_OK) {
    return ToStatus(code, path, handle == nullptr ? "out of memory" : sqlite3_errmsg(handle),
                    database.reading_);
  }
  database.set_busy_timeout(kBusyTimeout);
  const absl::Status status = database.Execute("PRAGMA foreign_keys = ON");
  if (!status.ok()) return status;
  return database;
}

void Database::set_busy_timeout(std::chrono::milliseconds timeout) {
  busy_timeout_ = timeout;
  sqlite3_busy_timeout(handle_.get(), static_cast<int>(timeout.count()));
}

absl::Status Database::LastError() const { return LastErrorOf(handle_.get(), path_, reading_); }

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return LastError();
  Statement out;
  out.reading_ = reading_;
  out.statement_.reset(statement);
  return out;
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : LastError();
}

absl::StatusOr<std::int64_t> Database::Integer(std::string_view sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::InternalError(Cat("no row from: ", sql));
  return statement->integer(0);
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
std::int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }
bool Database::read_only() const { return sqlite3_db_readonly(handle_.get(), "main") == 1; }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }

absl::StatusOr<Transaction> Transaction::Begin(Database& database) {
  const absl::Status status = database.Execute("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  return Transaction(&database);
}

Transaction::~Transaction() {
  // Some errors (a full disk) have rolled back already; then there is nothing left to do.
  if (database_ != nullptr && database_->in_transaction()) {
    database_->Execute("ROLLBACK").IgnoreError();
  }
}

absl::Status Transaction::Commit() {
  const absl::Status status = database_->Execute("COMMIT");
  if (status.ok()) database_ = nullptr;
  return status;
}

}  // namespace schedtwin
