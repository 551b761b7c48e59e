#include "experiments/store/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "experiments/metrics_sql.h"
#include "experiments/store/owner.h"
#include "experiments/text.h"

namespace schedtwin {
namespace {

// Each yields one row per violation, with the text of the problem in its only column.
constexpr const char* kRules[] = {
    "SELECT 'run ' || id || ': ' || name || ' is not 16 hexadecimal digits: ' || digest FROM ("
    "  SELECT id, 'outcome_digest' AS name, outcome_digest AS digest FROM published_runs UNION ALL"
    "  SELECT id, 'decision_digest', decision_digest FROM published_runs)"
    " WHERE length(digest) <> 16 OR digest GLOB '*[^0-9a-f]*'",

    "SELECT 'run ' || id || ': ' || requests || ' requests arrived, but their ends add up to ' ||"
    "  (completed + rejected + timed_out + cancelled + failed + unfinished) FROM published_runs"
    " WHERE requests <> completed + rejected + timed_out + cancelled + failed + unfinished"
    "  OR cached > completed",

    "SELECT 'run ' || r.id || ': ' || (r.requests - r.unfinished) || ' requests ended, ' ||"
    "  count(q.run_id) || ' are stored'"
    " FROM published_runs r LEFT JOIN requests q ON q.run_id = r.id"
    " WHERE r.record <> 'summary' GROUP BY r.id HAVING count(q.run_id) <> r.requests - "
    "r.unfinished",

    "SELECT 'run ' || r.id || ': ' || r.steps || ' steps ran, ' || count(s.run_id) || ' are stored'"
    " FROM published_runs r LEFT JOIN steps s ON s.run_id = r.id"
    " WHERE r.record IN ('steps', 'full') GROUP BY r.id HAVING count(s.run_id) <> r.steps",

    "SELECT 'run ' || run_id || ': request ' || request_id || ' has times out of order' FROM "
    "requests"
    " WHERE end_ns < arrival_ns OR admitted_ns < arrival_ns OR first_start_ns < arrival_ns"
    "  OR first_token_ns < first_start_ns OR last_token_ns < first_token_ns OR end_ns < "
    "last_token_ns",

    "SELECT 'run ' || run_id || ': step ' || sequence || ' ends before it starts' FROM steps"
    " WHERE end_ns < start_ns",

    "SELECT 'run ' || run_id || ': operation ' || sequence || ' ends before it starts' FROM "
    "operations WHERE end_ns < start_ns",

    // Of a run that did not finish, the first to arrive may have no row.
    "SELECT 'run ' || r.id || ': first_arrival_ns or last_end_ns is not that of its requests'"
    " FROM published_runs r JOIN requests q ON q.run_id = r.id"
    " GROUP BY r.id HAVING r.last_end_ns IS NOT max(q.end_ns) OR r.first_arrival_ns IS NULL"
    "  OR r.first_arrival_ns > min(q.arrival_ns)"
    "  OR (r.unfinished = 0 AND r.first_arrival_ns <> min(q.arrival_ns))",

    "SELECT 'run ' || id || ': makespan is not from the first arrival to the last end'"
    " FROM published_runs WHERE makespan_ns <> coalesce(last_end_ns - first_arrival_ns, 0)",
};

// SQLite stops at 100 problems of its own; so do we, per rule.
constexpr std::size_t kMostProblems = 100;

absl::Status Gather(Database& database, std::string_view sql, std::vector<std::string>* problems) {
  absl::StatusOr<Statement> statement = database.Prepare(sql);
  if (!statement.ok()) return statement.status();
  for (std::size_t i = 0; i < kMostProblems; ++i) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    problems->emplace_back(statement->text(0));
  }
  return absl::OkStatus();
}

absl::Status CheckSqlite(Database& database, std::vector<std::string>* problems) {
  std::vector<std::string> integrity;
  absl::Status status = Gather(database, "PRAGMA integrity_check", &integrity);
  if (!status.ok()) return status;
  for (std::string& line : integrity) {
    if (line != "ok") problems->push_back(Cat("integrity: ", line));
  }
  return Gather(
      database,
      "SELECT 'foreign key: a row of ' || \"table\" || ' refers to a missing row of ' || parent"
      " FROM pragma_foreign_key_check",
      problems);
}

absl::Status CheckViews(Database& database, std::vector<std::string>* problems) {
  std::vector<std::string> views;
  const absl::Status status =
      Gather(database, "SELECT name FROM sqlite_schema WHERE type = 'view'", &views);
  if (!status.ok()) return status;
  for (const std::string& view : views) {
    const absl::StatusOr<std::int64_t> count =
        database.Integer(Cat("SELECT count(*) FROM (SELECT * FROM ", view, " LIMIT 1)"));
    if (!count.ok())
      problems->push_back(Cat("view ", view, ": ", std::string(count.status().message())));
  }
  return absl::OkStatus();
}

bool Agree(double a, double b) {
  return std::fabs(a - b) <= 1e-9 * std::max({1.0, std::fabs(a), std::fabs(b)});
}

// Stored metrics of one run against those computed from its rows.
absl::Status CheckMetrics(Database& database, std::int64_t run,
                          std::vector<std::string>* problems) {
  const absl::StatusOr<RunMetrics> computed = MetricsFromRows(database, run);
  if (!computed.ok()) return computed.status();
  std::map<std::pair<std::string, std::string>, double> expected;
  for (const MetricRow& row : Flatten(*computed)) {
    expected[{std::string(row.name), std::string(row.statistic)}] = row.value;
  }
  absl::StatusOr<Statement> stored =
      database.Prepare("SELECT name, statistic, value FROM metrics WHERE run_id = ?1");
  if (!stored.ok()) return stored.status();
  stored->Bind(1, run);
  const absl::Status status = ForEachRow(*stored, [&](const Statement& row) {
    const auto found = expected.find({std::string(row.text(0)), std::string(row.text(1))});
    if (found == expected.end()) return;  // a figure that rows cannot give
    if (!Agree(found->second, row.real(2))) {
      problems->push_back(Cat("run ", run, ": ", row.text(0), " ", row.text(1), " is stored as ",
                              row.real(2), ", but its requests give ", found->second));
    }
    expected.erase(found);
  });
  if (!status.ok()) return status;
  for (const auto& [name, value] : expected) {
    problems->push_back(Cat("run ", run, ": ", name.first, " ", name.second, " is not stored"));
  }
  return absl::OkStatus();
}

absl::Status CheckAllMetrics(Database& database, std::vector<std::string>* problems) {
  std::vector<std::int64_t> runs;
  absl::StatusOr<Statement> statement =
      database.Prepare("SELECT id FROM published_runs WHERE record <> 'summary'");
  if (!statement.ok()) return statement.status();
  absl::Status status =
      ForEachRow(*statement, [&](const Statement& row) { runs.push_back(row.integer(0)); });
  if (!status.ok()) return status;
  for (const std::int64_t run : runs) {
    status = CheckMetrics(database, run, problems);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CountRuns(Store& store, CheckReport* report) {
  const absl::StatusOr<std::int64_t> published =
      store.database().Integer("SELECT count(*) FROM published_runs");
  if (!published.ok()) return published.status();
  report->published_runs = *published;
  const auto open = store.OpenRuns();
  if (!open.ok()) return open.status();
  const Owner self = CurrentOwner();
  for (const auto& [run, owner] : *open) {
    ++(IsDead(owner, self) ? report->abandoned_runs : report->open_runs);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckReport> CheckStore(Store& store) {
  Database& database = store.database();
  CheckReport report;
  absl::Status status = CheckSqlite(database, &report.problems);
  if (!status.ok()) return status;
  status = CheckViews(database, &report.problems);
  if (!status.ok()) return status;
  for (const char* rule : kRules) {
    status = Gather(database, rule, &report.problems);
    if (!status.ok()) return status;
  }
  status = CheckAllMetrics(database, &report.problems);
  if (!status.ok()) return status;
  status = CountRuns(store, &report);
  if (!status.ok()) return status;
  return report;
}

}  // namespace schedtwin
