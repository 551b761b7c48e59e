#include "experiments/compare.h"

#include <map>
#include <utility>

#include "experiments/text.h"

namespace schedtwin {
namespace {

constexpr std::string_view kNames[] = {"ttft_ms", "tpot_ms", "e2e_ms", "throughput_rps"};
constexpr std::string_view kStatistics[] = {"mean", "p50", "p90", "p99"};

// One row per condition that differs. Parameters that only one of the two policies has say "-".
constexpr char kConditions[] = R"sql(
WITH c AS (
  SELECT id, 0 AS place, 'world' AS name, world AS value FROM published_runs UNION ALL
  SELECT id, 1, 'policy', policy FROM published_runs UNION ALL
  SELECT run_id, 2, 'policy.' || name, value FROM published_parameters UNION ALL
  SELECT run_id, 2, 'policy_library_hash', hash FROM published_policy_libraries UNION ALL
  SELECT id, 3, 'model', model FROM published_runs UNION ALL
  SELECT id, 4, 'profile', profile FROM published_runs UNION ALL
  SELECT id, 5, 'profile_hash', profile_hash FROM published_runs UNION ALL
  SELECT id, 6, 'devices', devices FROM published_runs UNION ALL
  SELECT id, 7, 'trace', trace FROM published_runs UNION ALL
  SELECT id, 8, 'trace_hash', trace_hash FROM published_runs UNION ALL
  SELECT id, 9, 'trace_transforms', trace_transforms FROM published_runs UNION ALL
  SELECT id, 10, 'seed', seed FROM published_runs UNION ALL
  SELECT id, 11, 'requests', requests FROM published_runs UNION ALL
  SELECT id, 12, 'oracle', oracle FROM published_runs UNION ALL
  SELECT id, 13, 'result', result FROM published_runs UNION ALL
  SELECT id, 14, 'version', version FROM published_runs)
SELECT name, coalesce(max(CASE WHEN id = ?1 THEN value END), '-') AS a,
  coalesce(max(CASE WHEN id = ?2 THEN value END), '-') AS b
FROM c WHERE id IN (?1, ?2) GROUP BY place, name HAVING a <> b ORDER BY place, name
)sql";

using Figures = std::map<std::pair<std::string, std::string>, double, std::less<>>;

absl::StatusOr<Figures> ReadFigures(Database& database, std::int64_t run) {
  absl::StatusOr<Statement> read =
      database.Prepare("SELECT name, statistic, value FROM published_metrics WHERE run_id = ?1");
  if (!read.ok()) return read.status();
  read->Bind(1, run);
  Figures figures;
  const absl::Status status = ForEachRow(*read, [&](const Statement& row) {
    figures[{std::string(row.text(0)), std::string(row.text(1))}] = row.real(2);
  });
  if (!status.ok()) return status;
  return figures;
}

std::optional<double> Find(const Figures& figures, std::string_view name,
                           std::string_view statistic) {
  const auto found = figures.find(std::pair(std::string(name), std::string(statistic)));
  return found == figures.end() ? std::nullopt : std::optional<double>(found->second);
}

}  // namespace

std::optional<double> RelativeDifference(std::optional<double> a, std::optional<double> b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  if (*a == *b) return 0;
  if (*a == 0) return std::nullopt;
  return (*b - *a) / *a;
}

absl::StatusOr<Comparison> CompareRuns(Store& store, std::int64_t run_a, std::int64_t run_b) {
  Database& database = store.database();
  const absl::StatusOr<Figures> a = ReadFigures(database, run_a);
  if (!a.ok()) return a.status();
  const absl::StatusOr<Figures> b = ReadFigures(database, run_b);
  if (!b.ok()) return b.status();
  Comparison out;
  out.run_a = run_a;
  out.run_b = run_b;
  for (const std::string_view name : kNames) {
    for (const std::string_view statistic : kStatistics) {
      ComparedFigure figure = {
          name, statistic, Find(*a, name, statistic), Find(*b, name, statistic), {}};
      figure.rel_diff = RelativeDifference(figure.a, figure.b);
      out.figures.push_back(figure);
    }
  }
  absl::StatusOr<Statement> equal = database.Prepare(
      "SELECT count(DISTINCT outcome_digest) = 1 FROM published_runs WHERE id IN (?1, ?2)");
  if (!equal.ok()) return equal.status();
  const absl::StatusOr<bool> found = equal->Bind(1, run_a).Bind(2, run_b).Step();
  if (!found.ok()) return found.status();
  out.no_effect = *found && equal->integer(0) != 0;
  absl::StatusOr<Statement> conditions = database.Prepare(kConditions);
  if (!conditions.ok()) return conditions.status();
  conditions->Bind(1, run_a).Bind(2, run_b);
  const absl::Status status = ForEachRow(*conditions, [&](const Statement& row) {
    out.differing.push_back(
        {std::string(row.text(0)), std::string(row.text(1)), std::string(row.text(2))});
  });
  if (!status.ok()) return status;
  return out;
}

}  // namespace schedtwin
