// Database, Statement, Transaction: SQLite with RAII and absl::Status, and nothing more: no mapping
// of objects, no pool. The store and the SQL metric library call it; sqlite3.h stays out of this
// header. Each object belongs to one thread at a time; two threads, or two processes, each open
// their own Database on the same file, and waiting for each other's locks is SQLite's busy timeout,
// set here. A Statement must die before its Database.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_SQLITE_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_SQLITE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace schedtwin {

class Database;

/// A prepared statement. Errors of binding are kept and reported by Step, so that binds can be
/// chained. Parameters and columns are numbered as in SQLite: parameters from 1, columns from 0.
class Statement {
 public:
  Statement() = default;

  Statement& Bind(int parameter, std::int64_t value);
  Statement& Bind(int parameter, double value);
  /// The text must outlive the next Reset.
  Statement& Bind(int parameter, std::string_view text);
  Statement& BindNull(int parameter);
  template <class T>
  Statement& Bind(int parameter, const std::optional<T>& value) {
    return value.has_value() ? Bind(parameter, *value) : BindNull(parameter);
  }

  /// True: a row is there. False: done.
  absl::StatusOr<bool> Step();
  /// Steps to the end, then resets: for statements that yield no rows.
  absl::Status Run();
  /// Ready to be bound and stepped again; bindings stay as they are.
  void Reset();

  int columns() const;
  std::string_view column_name(int column) const;
  bool is_null(int column) const;
  bool is_integer(int column) const;
  bool is_text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  /// Valid until the next Step or Reset.
  std::string_view text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = 0;
  bool reading_ = false;  ///< of a database opened for reading, for the words of errors
};

/// Calls `take` with the statement for every row that is left.
template <class Take>
absl::Status ForEachRow(Statement& statement, const Take& take) {
  for (;;) {
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    take(statement);
  }
}

enum class OpenMode : std::uint8_t {
  kRead,       ///< an existing file; nothing in it is changed
  kImmutable,  ///< the same of a file that nobody can be writing: takes no locks, makes no files
  kWrite,      ///< an existing file, or a new one
};

class Database {
 public:
  /// Opens the file and sets busy timeout and foreign keys. Nothing of the file is read yet, so
  /// that "not a database" shows at the first statement.
  static absl::StatusOr<Database> Open(const std::string& path, OpenMode mode);

  /// How long a statement waits for others' locks; 20 s unless told otherwise.
  void set_busy_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds busy_timeout() const { return busy_timeout_; }

  absl::StatusOr<Statement> Prepare(std::string_view sql);
  /// Runs one or more statements that yield no rows.
  absl::Status Execute(const char* sql);
  /// The first column of the first row. REQUIRES: `sql` yields a row.
  absl::StatusOr<std::int64_t> Integer(std::string_view sql);

  std::int64_t last_insert_id() const;
  std::int64_t changes() const;
  /// True when the file could only be opened for reading.
  bool read_only() const;
  bool in_transaction() const;
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  absl::Status LastError() const;

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  bool reading_ = false;
  std::chrono::milliseconds busy_timeout_ = {};
};

/// BEGIN IMMEDIATE ... COMMIT; rolls back when it dies uncommitted. The database must outlive it.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  absl::Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_SQLITE_H_
