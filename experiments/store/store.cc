#include "experiments/store/store.h"

#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"
#include "experiments/store/schema.h"
#include "experiments/text.h"

namespace schedtwin {
namespace {

std::optional<std::int64_t> Nanos(const std::optional<Duration>& duration) {
  return duration.has_value() ? std::optional<std::int64_t>(duration->ns()) : std::nullopt;
}

constexpr char kInsertRun[] = R"sql(
INSERT INTO runs (state, owner_machine, owner_boot, owner_pid_namespace, owner_pid, owner_start_ticks,
  created_unix_ns, sweep_id, sweep_point, world, policy, model, devices, profile, profile_hash,
  trace, trace_format, trace_hash, trace_transforms, seed, record, slo_ttft_ns, slo_tpot_ns,
  slo_e2e_ns, oracle, version, host, experiment)
VALUES ('open', ?27, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
  ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26))sql";

constexpr char kPublishRun[] = R"sql(
UPDATE runs SET state = 'published', published_unix_ns = ?2, result = ?3, result_detail = ?4,
  outcome_digest = ?5, decision_digest = ?6, requests = ?7, completed = ?8, rejected = ?9,
  timed_out = ?10, cancelled = ?11, failed = ?12, cached = ?13, unfinished = ?14,
  preemptions = ?15, recomputed_tokens = ?16, output_tokens = ?17, events = ?18, steps = ?19,
  refusals = ?20, first_arrival_ns = ?21, last_end_ns = ?22, makespan_ns = ?23, wall_s = ?24,
  process_s = ?25
WHERE id = ?1 AND state = 'open')sql";

void BindRun(Statement& insert, const RunInfo& info, const Owner& owner) {
  insert.Bind(1, std::string_view(owner.boot))
      .Bind(2, std::string_view(owner.pid_namespace))
      .Bind(3, owner.pid)
      .Bind(4, owner.start_ticks)
      .Bind(5, absl::GetCurrentTimeNanos());
  if (info.sweep.has_value()) {
    insert.Bind(6, info.sweep->first).Bind(7, info.sweep->second);
  }
  insert.Bind(8, std::string_view(info.world))
      .Bind(9, std::string_view(info.policy))
      .Bind(10, std::string_view(info.model))
      .Bind(11, info.devices)
      .Bind(12, std::string_view(info.profile))
      .Bind(13, std::string_view(info.profile_hash))
      .Bind(14, std::string_view(info.trace))
      .Bind(15, std::string_view(info.trace_format))
      .Bind(16, std::string_view(info.trace_hash))
      .Bind(17, std::string_view(info.trace_transforms))
      .Bind(18, info.seed)
      .Bind(19, std::string_view(info.record))
      .Bind(20, Nanos(info.slo.ttft))
      .Bind(21, Nanos(info.slo.tpot))
      .Bind(22, Nanos(info.slo.e2e))
      .Bind(23, std::int64_t{info.oracle})
      .Bind(24, std::string_view(info.version))
      .Bind(25, std::string_view(info.host))
      .Bind(26, std::string_view(info.experiment))
      .Bind(27, std::string_view(owner.machine));
}

void BindOutcome(Statement& update, std::int64_t run, const RunOutcome& outcome) {
  const RunMetrics& m = outcome.metrics;
  const bool came = !m.first_arrival.infinite();
  update.Bind(1, run)
      .Bind(2, absl::GetCurrentTimeNanos())
      .Bind(3, std::string_view(outcome.result))
      .Bind(4, std::string_view(outcome.result_detail))
      .Bind(5, std::string_view(outcome.outcome_digest))
      .Bind(6, std::string_view(outcome.decision_digest))
      .Bind(7, outcome.requests)
      .Bind(8, m.completed)
      .Bind(9, m.rejected)
      .Bind(10, m.timed_out)
      .Bind(11, m.cancelled)
      .Bind(12, m.failed)
      .Bind(13, m.cached)
      .Bind(14, outcome.requests - m.ended())
      .Bind(15, m.preemptions)
      .Bind(16, m.recomputed_tokens)
      .Bind(17, m.output_tokens)
      .Bind(18, outcome.events)
      .Bind(19, outcome.steps)
      .Bind(20, outcome.refusals)
      .Bind(21, came ? std::optional<std::int64_t>(m.first_arrival.ns()) : std::nullopt)
      .Bind(22, m.ended() > 0 ? std::optional<std::int64_t>(m.last_end.ns()) : std::nullopt)
      .Bind(23, m.makespan().ns())
      .Bind(24, outcome.wall_s)
      .Bind(25, outcome.process_s);
}

absl::Status CheckName(const std::string& path) {
  // SQLite would keep the results in memory, and lose them.
  if (path.empty() || path == ":memory:") {
    return absl::InvalidArgumentError(
        Cat("'", path, "' is no file for results; name one with --db FILE"));
  }
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        Cat(path, " is no regular file; name a results file with --db FILE"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Database> OpenToRead(const std::string& path, OpenMode mode) {
  absl::StatusOr<Database> database = Database::Open(path, mode);
  if (!database.ok()) return database;
  const absl::Status status = CheckVersion(*database);
  if (!status.ok()) return status;
  return database;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::OpenForWriting(const std::string& path,
                                                             const Owner& owner) {
  absl::Status status = CheckName(path);
  if (!status.ok()) return status;
  absl::StatusOr<Database> database = Database::Open(path, OpenMode::kWrite);
  if (!database.ok()) return database.status();
  if (database->read_only()) {
    return absl::PermissionDeniedError(
        Cat("results file ", path, " may only be read; choose another with --db FILE"));
  }
  status = Migrate(*database);
  if (!status.ok()) return status;
  // In WAL mode NORMAL loses at most the last runs at a power cut, and never leaves the file
  // damaged.
  status = database->Execute("PRAGMA synchronous = NORMAL");
  if (!status.ok()) return status;
  auto store = std::unique_ptr<Store>(new Store(*std::move(database), owner));
  status = store->RemoveDeadRuns();
  if (!status.ok()) return status;
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenForReading(const std::string& path) {
  const absl::Status status = CheckName(path);
  if (!status.ok()) return status;
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    return absl::NotFoundError(
        Cat("no results file ", path, "; run `schedtwin sim` first, or name the file with --db"));
  }
  absl::StatusOr<Database> database = OpenToRead(path, OpenMode::kRead);
  if (absl::IsPermissionDenied(database.status())) {
    // A reader of a WAL file makes files beside it, which it may not do here. With no WAL there is
    // nothing but the file itself to read, and no writer at work.
    const auto wal_bytes = std::filesystem::file_size(path + "-wal", error);
    if (error || wal_bytes == 0) database = OpenToRead(path, OpenMode::kImmutable);
  }
  if (!database.ok()) return database.status();
  return std::unique_ptr<Store>(new Store(*std::move(database), Owner()));
}

absl::StatusOr<std::vector<std::pair<std::int64_t, Owner>>> Store::OpenRuns() {
  absl::StatusOr<Statement> open = database_.Prepare(
      "SELECT id, owner_machine, owner_boot, owner_pid_namespace, owner_pid, owner_start_ticks "
      "FROM runs WHERE state = 'open'");
  if (!open.ok()) return open.status();
  std::vector<std::pair<std::int64_t, Owner>> runs;
  const absl::Status status = ForEachRow(*open, [&](const Statement& row) {
    runs.emplace_back(row.integer(0),
                      Owner{std::string(row.text(1)), std::string(row.text(2)),
                            std::string(row.text(3)), row.integer(4), row.integer(5)});
  });
  if (!status.ok()) return status;
  return runs;
}

absl::Status Store::RemoveDeadRuns() {
  absl::StatusOr<Transaction> transaction = Transaction::Begin(database_);
  if (!transaction.ok()) return transaction.status();
  const auto open = OpenRuns();
  if (!open.ok()) return open.status();
  for (const auto& [run, owner] : *open) {
    if (!IsDead(owner, owner_)) continue;
    const absl::Status status = RemoveOpenRun(run);
    if (!status.ok()) return status;
  }
  return transaction->Commit();
}

absl::StatusOr<std::int64_t> Store::BeginRun(const RunInfo& info) {
  absl::StatusOr<Transaction> transaction = Transaction::Begin(database_);
  if (!transaction.ok()) return transaction.status();
  absl::StatusOr<Statement> insert = database_.Prepare(kInsertRun);
  if (!insert.ok()) return insert.status();
  BindRun(*insert, info, owner_);
  absl::Status status = insert->Run();
  if (!status.ok()) return status;
  const std::int64_t run = database_.last_insert_id();
  absl::StatusOr<Statement> parameter =
      database_.Prepare("INSERT INTO parameters VALUES (?1, ?2, ?3, ?4)");
  if (!parameter.ok()) return parameter.status();
  for (const ParameterValue& value : info.parameters) {
    parameter->Bind(1, run)
        .Bind(2, std::string_view(value.name))
        .Bind(3, std::string_view(value.value))
        .Bind(4, std::int64_t{value.is_default});
    status = parameter->Run();
    if (!status.ok()) return status;
  }
  if (info.library.has_value()) {
    absl::StatusOr<Statement> library =
        database_.Prepare("INSERT INTO policy_libraries VALUES (?1, ?2, ?3)");
    if (!library.ok()) return library.status();
    library->Bind(1, run)
        .Bind(2, std::string_view(info.library->file))
        .Bind(3, std::string_view(info.library->hash));
    status = library->Run();
    if (!status.ok()) return status;
  }
  status = transaction->Commit();
  if (!status.ok()) return status;
  return run;
}

absl::Status Store::InsertExecution(std::int64_t run, const ExecutionFacts& facts) {
  absl::StatusOr<Statement> insert =
      database_.Prepare("INSERT INTO executions VALUES (?1, ?2, ?3, ?4, ?5)");
  if (!insert.ok()) return insert.status();
  insert->Bind(1, run)
      .Bind(2, std::string_view(facts.wait))
      .Bind(3, std::string_view(facts.backend))
      .Bind(4, facts.policy_thread_s);
  if (!facts.invalid.empty()) insert->Bind(5, std::string_view(facts.invalid));
  return insert->Run();
}

absl::Status Store::InsertMetrics(std::int64_t run, std::span<const MetricRow> rows) {
  absl::StatusOr<Statement> insert =
      database_.Prepare("INSERT INTO metrics VALUES (?1, ?2, ?3, ?4)");
  if (!insert.ok()) return insert.status();
  for (const MetricRow& row : rows) {
    insert->Bind(1, run).Bind(2, row.name).Bind(3, row.statistic).Bind(4, row.value);
    const absl::Status status = insert->Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Store::Publish(std::int64_t run, const RunOutcome& outcome) {
  absl::StatusOr<Transaction> transaction = Transaction::Begin(database_);
  if (!transaction.ok()) return transaction.status();
  absl::StatusOr<Statement> update = database_.Prepare(kPublishRun);
  if (!update.ok()) return update.status();
  BindOutcome(*update, run, outcome);
  absl::Status status = update->Run();
  if (!status.ok()) return status;
  if (database_.changes() != 1) {
    return absl::InternalError(Cat("run ", run, " is no longer open in ", database_.path()));
  }
  std::vector<MetricRow> rows = Flatten(outcome.metrics);
  for (const auto& [reason, count] : outcome.refused) {
    rows.push_back({"refusals", reason, static_cast<double>(count)});
  }
  status = InsertMetrics(run, rows);
  if (status.ok() && outcome.execution.has_value()) {
    status = InsertExecution(run, *outcome.execution);
  }
  if (!status.ok()) return status;
  return transaction->Commit();
}

absl::Status Store::RemoveOpenRun(std::int64_t run) {
  absl::StatusOr<Statement> remove =
      database_.Prepare("DELETE FROM runs WHERE id = ?1 AND state = 'open'");
  if (!remove.ok()) return remove.status();
  return remove->Bind(1, run).Run();
}

absl::StatusOr<std::int64_t> Store::AddSweep(std::int64_t points, std::string_view axes,
                                             std::string_view experiment) {
  absl::StatusOr<Statement> insert = database_.Prepare(
      "INSERT INTO sweeps (created_unix_ns, points, axes, experiment) VALUES (?1, ?2, ?3, ?4)");
  if (!insert.ok()) return insert.status();
  insert->Bind(1, absl::GetCurrentTimeNanos()).Bind(2, points).Bind(3, axes).Bind(4, experiment);
  const absl::Status status = insert->Run();
  if (!status.ok()) return status;
  return database_.last_insert_id();
}

absl::StatusOr<std::int64_t> Store::Resolve(std::string_view run) {
  const bool latest = run.starts_with("latest");
  std::optional<std::int64_t> number;
  if (run == "latest") {
    number = 0;
  } else {
    number = ParseInteger(run.starts_with("latest-") ? run.substr(7) : run);
  }
  if (!number.has_value() || *number < 0) {
    return absl::InvalidArgumentError(
        Cat("'", run, "' names no run; give a number, or latest, latest-1, ..."));
  }
  absl::StatusOr<Statement> find = database_.Prepare(
      latest ? "SELECT id FROM published_runs ORDER BY published_unix_ns DESC, id DESC "
               "LIMIT 1 OFFSET ?1"
             : "SELECT id FROM published_runs WHERE id = ?1");
  if (!find.ok()) return find.status();
  find->Bind(1, *number);
  const absl::StatusOr<bool> row = find->Step();
  if (!row.ok()) return row.status();
  if (*row) return find->integer(0);
  const absl::StatusOr<std::int64_t> count =
      database_.Integer("SELECT count(*) FROM published_runs");
  if (!count.ok()) return count.status();
  return absl::NotFoundError(Cat("no run ", run, " in ", database_.path(), ", which holds ", *count,
                                 " published runs; `schedtwin db list --db ", database_.path(),
                                 "` lists them"));
}

}  // namespace schedtwin
