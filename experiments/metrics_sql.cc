#include "experiments/metrics_sql.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "experiments/text.h"

namespace schedtwin {
namespace {

// v(x, i, n): the values, their ranks from 0, and how many there are. A percentile lies between the
// two values whose ranks enclose (n - 1) * percent / 100.
constexpr char kStatisticsOfV[] = R"sql(
SELECT count, mean,
  a50 + (coalesce(b50, a50) - a50) * (((count - 1) * 50 % 100) / 100.0) AS p50,
  a90 + (coalesce(b90, a90) - a90) * (((count - 1) * 90 % 100) / 100.0) AS p90,
  a99 + (coalesce(b99, a99) - a99) * (((count - 1) * 99 % 100) / 100.0) AS p99,
  max
FROM (
  SELECT count(*) AS count, avg(x) AS mean, max(x) AS max,
    max(CASE WHEN i = (n - 1) * 50 / 100 THEN x END) AS a50,
    max(CASE WHEN i = (n - 1) * 50 / 100 + 1 THEN x END) AS b50,
    max(CASE WHEN i = (n - 1) * 90 / 100 THEN x END) AS a90,
    max(CASE WHEN i = (n - 1) * 90 / 100 + 1 THEN x END) AS b90,
    max(CASE WHEN i = (n - 1) * 99 / 100 THEN x END) AS a99,
    max(CASE WHEN i = (n - 1) * 99 / 100 + 1 THEN x END) AS b99
  FROM v)
)sql";

constexpr char kThroughputV[] = R"sql(
WITH RECURSIVE r AS (
  SELECT makespan_ns AS span, first_arrival_ns AS first,
    max(1, min(1000000000, makespan_ns / 10), makespan_ns / 100000) AS width
  FROM published_runs WHERE id = ?1 AND makespan_ns > 0),
windows (k) AS (
  SELECT 0 FROM r UNION ALL SELECT k + 1 FROM windows, r WHERE k + 1 < span / width),
done AS (
  SELECT max(0, (end_ns - first - 1) / width) AS k, count(*) AS c
  FROM published_requests, r WHERE run_id = ?1 AND completed GROUP BY 1),
v AS (
  SELECT coalesce(c, 0) * 1e9 / width AS x, count(*) OVER () AS n,
    row_number() OVER (ORDER BY coalesce(c, 0)) - 1 AS i
  FROM windows LEFT JOIN done USING (k), r)
)sql";

// In simulation there is none to speak of.
constexpr char kLatenessNs[] =
    "CASE WHEN (SELECT world FROM published_runs WHERE id = ?1) <> 'sim' "
    "THEN admitted_ns - arrival_ns END";

constexpr char kCounts[] = R"sql(
SELECT coalesce(sum(q.completed), 0), coalesce(sum(q.reason = 'rejected'), 0),
  coalesce(sum(q.reason = 'timed_out'), 0), coalesce(sum(q.reason = 'cancelled'), 0),
  coalesce(sum(q.reason = 'failed'), 0), coalesce(sum(q.reason = 'cached'), 0),
  coalesce(sum(
    (r.slo_ttft_ns IS NOT NULL OR r.slo_tpot_ns IS NOT NULL OR r.slo_e2e_ns IS NOT NULL)
    AND q.completed
    AND (r.slo_e2e_ns IS NULL OR q.e2e_ns <= r.slo_e2e_ns)
    AND (r.slo_ttft_ns IS NULL OR q.ttft_ns IS NULL OR q.ttft_ns <= r.slo_ttft_ns)
    AND (r.slo_tpot_ns IS NULL OR q.tpot_ns IS NULL
      OR q.last_token_ns - q.first_token_ns <= r.slo_tpot_ns * (q.output_tokens - 1))), 0) AS good,
  coalesce(sum(q.output_tokens), 0), coalesce(sum(q.preemptions), 0),
  coalesce(sum(q.recomputed_tokens), 0), coalesce(sum(q.prompt_tokens), 0),
  coalesce(sum(q.cached_tokens), 0), max(r.first_arrival_ns), max(q.end_ns),
  max(r.slo_ttft_ns IS NOT NULL OR r.slo_tpot_ns IS NOT NULL OR r.slo_e2e_ns IS NOT NULL)
FROM published_runs r LEFT JOIN published_requests q ON q.run_id = r.id WHERE r.id = ?1
)sql";

absl::StatusOr<std::optional<Distribution>> ReadDistribution(Database& database,
                                                             std::string_view sql, std::int64_t run,
                                                             double scale) {
  absl::StatusOr<Statement> statement = database.Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Bind(1, run).Step();
  if (!row.ok()) return row.status();
  if (!*row || statement->integer(0) == 0) return std::optional<Distribution>();
  Distribution out;
  out.count = statement->integer(0);
  out.mean = statement->real(1) * scale;
  out.p50 = statement->real(2) * scale;
  out.p90 = statement->real(3) * scale;
  out.p99 = statement->real(4) * scale;
  out.max = statement->real(5) * scale;
  return std::optional<Distribution>(out);
}

absl::StatusOr<RunMetrics> ReadCounts(Database& database, std::int64_t run) {
  absl::StatusOr<Statement> statement = database.Prepare(CountsSql());
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Bind(1, run).Step();
  if (!row.ok()) return row.status();
  RunMetrics out;
  std::int64_t* const counts[] = {&out.completed,     &out.rejected,
                                  &out.timed_out,     &out.cancelled,
                                  &out.failed,        &out.cached,
                                  &out.good,          &out.output_tokens,
                                  &out.preemptions,   &out.recomputed_tokens,
                                  &out.prompt_tokens, &out.cached_tokens};
  int column = 0;
  for (std::int64_t* count : counts) *count = statement->integer(column++);
  if (!statement->is_null(column)) out.first_arrival = Time::Nanos(statement->integer(column));
  if (!statement->is_null(column + 1)) out.last_end = Time::Nanos(statement->integer(column + 1));
  out.has_slo = statement->integer(column + 2) != 0;
  return out;
}

absl::Status ReadOperations(Database& database, std::int64_t run, RunMetrics* out) {
  absl::StatusOr<Statement> statement = database.Prepare(OperationsSql());
  if (!statement.ok()) return statement.status();
  statement->Bind(1, run);
  return ForEachRow(*statement, [&](const Statement& row) {
    const auto* const name =
        std::find(std::begin(kOperationNames), std::end(kOperationNames), row.text(0));
    if (name == std::end(kOperationNames)) return;  // the table names no other
    out->operations[name - kOperationNames] = {row.integer(1), row.integer(2), row.integer(3)};
  });
}

// Statistics of a column over the rows of a view that hold one.
std::string StatisticsSql(std::string_view column, std::string_view rows) {
  return Cat("WITH v AS (SELECT ", column,
             " AS x, count(*) OVER () AS n, row_number() OVER (ORDER BY ", column,
             ") - 1 AS i FROM ", rows, " AND ", column, " IS NOT NULL)", kStatisticsOfV);
}

}  // namespace

std::string LatencySql(std::string_view column) {
  return StatisticsSql(column, "published_requests WHERE run_id = ?1 AND completed");
}

std::string DecisionSql() {
  return StatisticsSql("decision_ns", "published_steps WHERE run_id = ?1");
}

std::string OperationsSql() {
  return "SELECT kind, sum(ok), sum(NOT ok), sum(ok * bytes) FROM published_operations "
         "WHERE run_id = ?1 GROUP BY kind";
}

std::string ThroughputSql() { return Cat(kThroughputV, kStatisticsOfV); }
std::string CountsSql() { return kCounts; }

absl::StatusOr<RunMetrics> MetricsFromRows(Database& database, std::int64_t run) {
  constexpr double kMsPerNs = 1e-6;
  absl::StatusOr<RunMetrics> out = ReadCounts(database, run);
  if (!out.ok()) return out;
  const absl::Status operations = ReadOperations(database, run, &*out);
  if (!operations.ok()) return operations;
  const struct {
    std::string sql;
    double scale;
    std::optional<Distribution>* to;
  } distributions[] = {
      {LatencySql("ttft_ns"), kMsPerNs, &out->ttft_ms},
      {LatencySql("tpot_ns"), kMsPerNs, &out->tpot_ms},
      {LatencySql("e2e_ns"), kMsPerNs, &out->e2e_ms},
      {LatencySql(kLatenessNs), kMsPerNs, &out->lateness_ms},
      {DecisionSql(), 1e-3, &out->decision_us},
      {ThroughputSql(), 1.0, &out->throughput_rps},
  };
  for (const auto& [sql, scale, to] : distributions) {
    absl::StatusOr<std::optional<Distribution>> value = ReadDistribution(database, sql, run, scale);
    if (!value.ok()) return value.status();
    *to = *value;
  }
  if (out->throughput_rps.has_value()) {
    out->throughput_rps->mean = *out->PerSecond(out->completed);
  }
  return out;
}

}  // namespace schedtwin
