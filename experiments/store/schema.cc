#include "experiments/store/schema.h"

#include <array>
#include <chrono>
#include <thread>

#include "experiments/text.h"

namespace schedtwin {
namespace {

// Times are nanoseconds since the start of the run, NULL where there was none. 64-bit words that
// are unsigned in the program (log words, plan handles) are stored as the signed integer of the
// same bits.
constexpr char kVersion1Tables[] = R"sql(
CREATE TABLE sweeps (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created_unix_ns INTEGER NOT NULL,
  points INTEGER NOT NULL,             -- planned; published ones are counted in runs
  axes TEXT NOT NULL,                  -- one "path: value, value" a line
  experiment TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, so that nobody writes into another's run
  state TEXT NOT NULL CHECK (state IN ('open', 'published')),
  owner_machine TEXT NOT NULL,
  owner_boot TEXT NOT NULL,
  owner_pid_namespace TEXT NOT NULL,
  owner_pid INTEGER NOT NULL,
  owner_start_ticks INTEGER NOT NULL,
  created_unix_ns INTEGER NOT NULL,
  published_unix_ns INTEGER,
  sweep_id INTEGER REFERENCES sweeps (id),
  sweep_point INTEGER,
  world TEXT NOT NULL,
  policy TEXT NOT NULL,
  model TEXT NOT NULL,
  devices INTEGER NOT NULL,
  profile TEXT NOT NULL,
  profile_hash TEXT NOT NULL,
  trace TEXT NOT NULL,
  trace_format TEXT NOT NULL,
  trace_hash TEXT NOT NULL,
  trace_transforms TEXT NOT NULL,
  seed INTEGER NOT NULL,
  record TEXT NOT NULL CHECK (record IN ('summary', 'requests', 'steps', 'full')),
  slo_ttft_ns INTEGER,
  slo_tpot_ns INTEGER,
  slo_e2e_ns INTEGER,
  oracle INTEGER NOT NULL CHECK (oracle IN (0, 1)),
  version TEXT NOT NULL,
  host TEXT NOT NULL,
  experiment TEXT NOT NULL,
  result TEXT,                         -- finished, stalled, livelocked
  result_detail TEXT,
  outcome_digest TEXT,
  decision_digest TEXT,
  requests INTEGER,
  completed INTEGER,                   -- cached ones included
  rejected INTEGER,
  timed_out INTEGER,
  cancelled INTEGER,
  failed INTEGER,
  cached INTEGER,
  unfinished INTEGER,                  -- alive when a run stalled or livelocked
  preemptions INTEGER,
  recomputed_tokens INTEGER,
  output_tokens INTEGER,
  events INTEGER,
  steps INTEGER,
  refusals INTEGER,
  first_arrival_ns INTEGER,            -- NULL when no request came
  last_end_ns INTEGER,                 -- NULL when none ended
  makespan_ns INTEGER,
  wall_s REAL,
  process_s REAL,
  CHECK ((sweep_id IS NULL) = (sweep_point IS NULL)),
  CHECK (state = 'open' OR (
    published_unix_ns IS NOT NULL AND result IS NOT NULL AND outcome_digest IS NOT NULL AND
    decision_digest IS NOT NULL AND requests IS NOT NULL AND completed IS NOT NULL AND
    rejected IS NOT NULL AND timed_out IS NOT NULL AND cancelled IS NOT NULL AND
    failed IS NOT NULL AND cached IS NOT NULL AND unfinished IS NOT NULL AND
    preemptions IS NOT NULL AND recomputed_tokens IS NOT NULL AND output_tokens IS NOT NULL AND
    events IS NOT NULL AND steps IS NOT NULL AND refusals IS NOT NULL AND
    makespan_ns IS NOT NULL AND wall_s IS NOT NULL AND process_s IS NOT NULL))
) STRICT;
CREATE INDEX runs_open ON runs (id) WHERE state = 'open';
CREATE INDEX runs_sweep ON runs (sweep_id, sweep_point) WHERE sweep_id IS NOT NULL;

CREATE TABLE parameters (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  is_default INTEGER NOT NULL CHECK (is_default IN (0, 1)),
  PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE end_reasons (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO end_reasons VALUES (0, 'completed'), (1, 'rejected'), (2, 'timed_out'),
  (3, 'cancelled'), (4, 'failed'), (5, 'cached');

CREATE TABLE requests (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  request_id INTEGER NOT NULL,
  reason INTEGER NOT NULL REFERENCES end_reasons (code),
  device INTEGER,
  prompt_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,      -- made
  units INTEGER NOT NULL,
  tenant INTEGER NOT NULL,
  class INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  recomputed_tokens INTEGER NOT NULL,
  arrival_ns INTEGER NOT NULL,         -- scheduled
  admitted_ns INTEGER,
  first_start_ns INTEGER,
  first_token_ns INTEGER,
  last_token_ns INTEGER,
  end_ns INTEGER NOT NULL,
  PRIMARY KEY (run_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,           -- from 0, in the order in which steps ended
  device INTEGER NOT NULL,
  plan INTEGER NOT NULL,
  step INTEGER NOT NULL,               -- index in its plan
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  decode_tokens INTEGER NOT NULL,
  prefill_tokens INTEGER NOT NULL,
  prefill_requests INTEGER NOT NULL,
  units INTEGER NOT NULL,
  decode_context_tokens INTEGER NOT NULL,
  free_blocks INTEGER NOT NULL,
  predicted_ns INTEGER,
  compute_ns INTEGER,
  PRIMARY KEY (run_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE log (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  code INTEGER NOT NULL,
  a INTEGER NOT NULL,
  b INTEGER NOT NULL,
  c INTEGER NOT NULL,
  PRIMARY KEY (run_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  statistic TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (run_id, name, statistic)
) STRICT, WITHOUT ROWID;
)sql"
                                   R"sql(
CREATE VIEW published_runs AS
  SELECT id, created_unix_ns, published_unix_ns, sweep_id, sweep_point, world, policy, model, devices,
    profile, profile_hash, trace, trace_format, trace_hash, trace_transforms, seed, record,
    slo_ttft_ns, slo_tpot_ns, slo_e2e_ns, oracle, version, host, experiment, result, result_detail,
    outcome_digest, decision_digest, requests, completed, rejected, timed_out, cancelled, failed,
    cached, unfinished, preemptions, recomputed_tokens, output_tokens, events, steps, refusals,
    first_arrival_ns, last_end_ns, makespan_ns, wall_s, process_s
  FROM runs WHERE state = 'published';

CREATE VIEW published_sweeps AS
  SELECT s.id, s.created_unix_ns, s.points, count(*) AS published, s.axes, s.experiment
  FROM sweeps s JOIN published_runs r ON r.sweep_id = s.id GROUP BY s.id;

CREATE VIEW published_parameters AS
  SELECT p.* FROM parameters p JOIN published_runs r ON r.id = p.run_id;

-- Latencies are from the scheduled arrival. A request answered by one launch makes no tokens, so it has
-- neither TTFT nor TPOT; one that made a single token has no TPOT.
CREATE VIEW published_requests AS
  SELECT q.run_id, q.request_id, e.name AS reason, q.reason IN (0, 5) AS completed, q.device,
    q.prompt_tokens, q.output_tokens, q.units, q.tenant, q.class, q.priority, q.preemptions,
    q.recomputed_tokens, q.arrival_ns, q.admitted_ns, q.first_start_ns, q.first_token_ns,
    q.last_token_ns, q.end_ns,
    CASE WHEN q.output_tokens >= 1 THEN q.first_token_ns - q.arrival_ns END AS ttft_ns,
    CASE WHEN q.output_tokens >= 2
      THEN CAST(q.last_token_ns - q.first_token_ns AS REAL) / (q.output_tokens - 1) END AS tpot_ns,
    q.end_ns - q.arrival_ns AS e2e_ns
  FROM requests q JOIN published_runs r ON r.id = q.run_id JOIN end_reasons e ON e.code = q.reason;

CREATE VIEW published_steps AS
  SELECT s.* FROM steps s JOIN published_runs r ON r.id = s.run_id;

CREATE VIEW published_log AS
  SELECT l.* FROM log l JOIN published_runs r ON r.id = l.run_id;

CREATE VIEW published_notes AS
  SELECT n.* FROM notes n JOIN published_runs r ON r.id = n.run_id;

CREATE VIEW published_metrics AS
  SELECT m.* FROM metrics m JOIN published_runs r ON r.id = m.run_id;
)sql";

// Real runs.
constexpr char kVersion2Tables[] = R"sql(
CREATE TABLE executions (
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  wait TEXT NOT NULL CHECK (wait IN ('sleep', 'spin')),
  backend TEXT NOT NULL,
  policy_thread_s REAL NOT NULL,
  invalid TEXT                         -- why its figures prove nothing; NULL: they are sound
) STRICT;

CREATE VIEW published_executions AS
  SELECT e.* FROM executions e JOIN published_runs r ON r.id = e.run_id;
)sql";

// Policies that came from a shared library.
constexpr char kVersion3Tables[] = R"sql(
CREATE TABLE policy_libraries (
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  file TEXT NOT NULL,                  -- as it was named
  hash TEXT NOT NULL
) STRICT;

CREATE VIEW published_policy_libraries AS
  SELECT l.* FROM policy_libraries l JOIN published_runs r ON r.id = l.run_id;
)sql";

// What takes time and is no step; the prefix cache; what decisions take. Older runs had none of
// these.
constexpr char kVersion4Tables[] = R"sql(
ALTER TABLE requests ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN decision_ns INTEGER;

CREATE TABLE operation_kinds (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO operation_kinds VALUES (0, 'swap_out'), (1, 'swap_in'), (2, 'transfer'), (3, 'stage'),
  (4, 'load'), (5, 'unload');

CREATE TABLE operations (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,           -- from 0, in the order in which operations ended
  kind INTEGER NOT NULL REFERENCES operation_kinds (code),
  operation INTEGER NOT NULL,
  request_id INTEGER,
  model INTEGER,
  from_device INTEGER,
  to_device INTEGER,
  bytes INTEGER NOT NULL,
  ok INTEGER NOT NULL CHECK (ok IN (0, 1)),
  asked_ns INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  PRIMARY KEY (run_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE VIEW published_operations AS
  SELECT o.run_id, o.sequence, k.name AS kind, o.operation, o.request_id, o.model, o.from_device,
    o.to_device, o.bytes, o.ok, o.asked_ns, o.start_ns, o.end_ns
  FROM operations o JOIN published_runs r ON r.id = o.run_id JOIN operation_kinds k
    ON k.code = o.kind;

DROP VIEW published_requests;
CREATE VIEW published_requests AS
  SELECT q.run_id, q.request_id, e.name AS reason, q.reason IN (0, 5) AS completed, q.device,
    q.prompt_tokens, q.output_tokens, q.units, q.tenant, q.class, q.priority, q.preemptions,
    q.recomputed_tokens, q.cached_tokens, q.arrival_ns, q.admitted_ns, q.first_start_ns,
    q.first_token_ns, q.last_token_ns, q.end_ns,
    CASE WHEN q.output_tokens >= 1 THEN q.first_token_ns - q.arrival_ns END AS ttft_ns,
    CASE WHEN q.output_tokens >= 2
      THEN CAST(q.last_token_ns - q.first_token_ns AS REAL) / (q.output_tokens - 1) END AS tpot_ns,
    q.end_ns - q.arrival_ns AS e2e_ns
  FROM requests q JOIN published_runs r ON r.id = q.run_id JOIN end_reasons e ON e.code = q.reason;
)sql";

constexpr std::array<Migration, 4> kMigrations = {
    {{1, kVersion1Tables}, {2, kVersion2Tables}, {3, kVersion3Tables}, {4, kVersion4Tables}}};

struct Header {
  std::int64_t application_id = 0;
  std::int64_t version = 0;
  bool empty = false;
};

absl::StatusOr<Header> ReadHeader(Database& database) {
  Header header;
  const absl::StatusOr<std::int64_t> id = database.Integer("PRAGMA application_id");
  if (!id.ok()) return id.status();
  const absl::StatusOr<std::int64_t> version = database.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  header.application_id = *id;
  header.version = *version;
  if (*id != kApplicationId) {
    const absl::StatusOr<std::int64_t> count =
        database.Integer("SELECT count(*) FROM sqlite_schema");
    if (!count.ok()) return count.status();
    header.empty = *count == 0;
  }
  return header;
}

absl::Status CheckHeader(const Database& database, const Header& header, std::int64_t version) {
  if (header.application_id != kApplicationId) {
    return absl::InvalidArgumentError(
        Cat(database.path(),
            " is another program's database, not a schedtwin results file; "
            "name another with --db"));
  }
  if (header.version > version) {
    return absl::InvalidArgumentError(
        Cat(database.path(), " was written by a newer schedtwin (schema ", header.version,
            ", this one knows ", version, "); use that one, or name another file with --db"));
  }
  return absl::OkStatus();
}

// Turning WAL on needs the file for a moment without anyone else, and SQLite does not always wait
// for that, so we do, as long as for anything else. Where the file system cannot do WAL (no shared
// memory), SQLite stays with its rollback journal, which is as safe and only slower.
absl::Status TurnOnWal(Database& database) {
  const std::chrono::milliseconds patience = database.busy_timeout();
  const auto start = std::chrono::steady_clock::now();
  database.set_busy_timeout(std::chrono::milliseconds(0));
  absl::Status status = database.Execute("PRAGMA journal_mode = WAL");
  while (absl::IsUnavailable(status) && std::chrono::steady_clock::now() - start < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = database.Execute("PRAGMA journal_mode = WAL");
  }
  database.set_busy_timeout(patience);
  return status;
}

}  // namespace

std::span<const Migration> Migrations() { return kMigrations; }
std::int64_t CurrentVersion() { return kMigrations.back().version; }

absl::Status Migrate(Database& database, std::span<const Migration> migrations) {
  const std::int64_t target = migrations.back().version;
  absl::StatusOr<Header> header = ReadHeader(database);
  if (!header.ok()) return header.status();
  if (!header->empty) {
    const absl::Status status = CheckHeader(database, *header, target);
    if (!status.ok()) return status;
    if (header->version == target) return absl::OkStatus();
  }
  const absl::Status wal = TurnOnWal(database);
  if (!wal.ok()) return wal;
  absl::StatusOr<Transaction> transaction = Transaction::Begin(database);
  if (!transaction.ok()) return transaction.status();
  header = ReadHeader(database);  // another process may have been first
  if (!header.ok()) return header.status();
  if (!header->empty) {
    const absl::Status status = CheckHeader(database, *header, target);
    if (!status.ok()) return status;
  }
  for (const Migration& migration : migrations) {
    if (migration.version <= header->version) continue;
    absl::Status status = database.Execute(migration.sql);
    if (!status.ok()) return status;
    status = database.Execute(Cat("PRAGMA user_version = ", migration.version).c_str());
    if (!status.ok()) return status;
  }
  const absl::Status status =
      database.Execute(Cat("PRAGMA application_id = ", kApplicationId).c_str());
  if (!status.ok()) return status;
  return transaction->Commit();
}

absl::Status CheckVersion(Database& database) {
  const absl::StatusOr<Header> header = ReadHeader(database);
  if (!header.ok()) return header.status();
  if (header->empty) {
    return absl::NotFoundError(Cat(database.path(), " holds no runs yet; run `schedtwin sim --db ",
                                   database.path(), "` first, or name another file with --db"));
  }
  const absl::Status status = CheckHeader(database, *header, CurrentVersion());
  if (!status.ok()) return status;
  if (header->version < CurrentVersion()) {
    return absl::FailedPreconditionError(
        Cat(database.path(), " has schema ", header->version, ", this program reads ",
            CurrentVersion(), "; any command that writes to it (such as `schedtwin sim --db ",
            database.path(), "`) brings it up to date"));
  }
  return absl::OkStatus();
}

}  // namespace schedtwin
