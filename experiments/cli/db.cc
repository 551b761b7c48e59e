// schedtwin db: what is in a results file, and whether it holds together.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/store/check.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

// UTC, to the second; "2026-01-31T12:00:00Z".
std::string TimeText(std::int64_t unix_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

Flags DbListFlags() {
  Flags flags("db list [FLAG...]", "Lists the published runs of a results file, oldest first.",
              {"schedtwin db list", "schedtwin db list --db results.db --json"});
  AddDbFlag(&flags);
  AddJsonFlag(&flags);
  return flags;
}

Flags DbShowFlags() {
  Flags flags(
      "db show RUN [FLAG...]",
      "Tells all about one run: its conditions, outcome, parameters, metrics, and the experiment "
      "as\n"
      "text, which `schedtwin sim` and `exec` take to repeat it. RUN is a number, or latest, "
      "latest-1, ...",
      {"schedtwin db show latest", "schedtwin db show 3 --json",
       "schedtwin db show 3 --experiment > again.textproto && schedtwin sim again.textproto"});
  flags.Arguments(1, 1);
  flags.Switch("experiment", "print the experiment alone, as a file for `sim` and `exec`");
  AddDbFlag(&flags);
  AddJsonFlag(&flags);
  return flags;
}

Flags DbCheckFlags() {
  Flags flags(
      "db check [FLAG...]",
      "Checks that a results file holds together: SQLite's own integrity and foreign keys, views,\n"
      "digests, counts and metrics against the stored rows. Exit status 1 when something does not "
      "hold.",
      {"schedtwin db check", "schedtwin db check --db results.db --json"});
  AddDbFlag(&flags);
  AddJsonFlag(&flags);
  return flags;
}

// A row as an object; text, integers, reals and nulls as they are; columns named *_unix_ns are
// times.
Json RowJson(const Statement& row) {
  Json out = Json::object();
  for (int c = 0; c < row.columns(); ++c) {
    std::string name(row.column_name(c));
    if (row.is_null(c)) {
      out[name] = nullptr;
    } else if (name.ends_with("_unix_ns")) {
      out[name.substr(0, name.size() - 8)] = TimeText(row.integer(c));
    } else if (row.is_text(c)) {
      out[name] = row.text(c);
    } else if (row.is_integer(c)) {
      out[name] = row.integer(c);
    } else {
      out[name] = row.real(c);
    }
  }
  return out;
}

// All rows of a query whose only parameter, if it has one, is the run.
absl::StatusOr<Json> RowsJson(Database& database, std::string_view sql, std::int64_t run = -1) {
  absl::StatusOr<Statement> statement = database.Prepare(sql);
  if (!statement.ok()) return statement.status();
  if (run >= 0) statement->Bind(1, run);
  Json rows = Json::array();
  const absl::Status status =
      ForEachRow(*statement, [&](const Statement& row) { rows.push_back(RowJson(row)); });
  if (!status.ok()) return status;
  return rows;
}

constexpr char kListSql[] = R"sql(
SELECT r.id AS run_id, r.published_unix_ns, r.sweep_id, r.world, r.policy, r.model, r.profile, r.devices,
  r.trace, r.trace_transforms, r.seed, r.record, r.result, r.requests, r.completed,
  r.outcome_digest, r.decision_digest, r.makespan_ns / 1e9 AS makespan_s,
  (SELECT value FROM metrics m WHERE m.run_id = r.id AND name = 'throughput_rps' AND statistic = 'mean')
    AS throughput_rps,
  (SELECT value FROM metrics m WHERE m.run_id = r.id AND name = 'e2e_ms' AND statistic = 'p50') AS e2e_p50_ms,
  (SELECT value FROM metrics m WHERE m.run_id = r.id AND name = 'e2e_ms' AND statistic = 'p99') AS e2e_p99_ms
FROM published_runs r ORDER BY r.published_unix_ns, r.id)sql";

std::optional<double> NumberOf(const Json& value) {
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

std::string ListText(const Json& runs) {
  using enum Table::Align;
  Table table({{"run", kRight},
               {"published", kLeft},
               {"world", kLeft},
               {"policy", kLeft},
               {"profile", kLeft},
               {"trace", kLeft},
               {"seed", kRight},
               {"requests", kRight},
               {"req/s", kRight},
               {"e2e p50 ms", kRight},
               {"p99", kRight},
               {"sweep", kRight},
               {"result", kLeft}});
  for (const Json& run : runs) {
    std::string trace = run["trace"].get<std::string>();
    const std::string transforms = run["trace_transforms"].get<std::string>();
    if (!transforms.empty()) trace += Cat(" (", transforms, ")");
    const auto devices = run["devices"].get<std::int64_t>();
    table.Add({Cat(run["run_id"].get<std::int64_t>()), run["published"].get<std::string>(),
               run["world"].get<std::string>(), run["policy"].get<std::string>(),
               Cat(devices == 1 ? "" : Cat(devices, " x "), run["profile"].get<std::string>()),
               trace, Cat(run["seed"].get<std::int64_t>()),
               Cat(run["requests"].get<std::int64_t>()), Cell(NumberOf(run["throughput_rps"])),
               Cell(NumberOf(run["e2e_p50_ms"])), Cell(NumberOf(run["e2e_p99_ms"])),
               run["sweep_id"].is_null() ? "" : Cat(run["sweep_id"].get<std::int64_t>()),
               run["result"].get<std::string>()});
  }
  return table.Text();
}

absl::Status RunDbList(const Flags& flags) {
  const std::string db = flags.value_or("db", kDefaultDb);
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForReading(db);
  if (!store.ok()) return store.status();
  absl::StatusOr<Json> runs = RowsJson((*store)->database(), kListSql);
  if (!runs.ok()) return runs.status();
  if (flags.given("json")) {
    PrintJson({{"runs", *std::move(runs)}});
  } else if (runs->empty()) {
    Print(Cat(db, " holds no published run\n"));
  } else {
    Print(ListText(*runs));
  }
  return absl::OkStatus();
}

std::string ValueText(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return Cat(value.get<double>());
  return value.dump();
}

std::string ShowText(const Json& run) {
  using enum Table::Align;
  Table fields({{"run", kLeft}, {ValueText(run["run_id"]), kLeft}});
  for (const auto& [name, value] : run.items()) {
    if (name == "run_id" || name == "experiment" || value.is_structured()) continue;
    fields.Add({name, ValueText(value)});
  }
  if (const Json& library = run["policy_library"]; library.is_object()) {
    fields.Add({"policy_library", ValueText(library["file"])});
    fields.Add({"policy_library_hash", ValueText(library["hash"])});
  }
  if (run["execution"].is_object()) {
    for (const auto& [name, value] : run["execution"].items()) fields.Add({name, ValueText(value)});
  }
  std::string out = fields.Text();
  Table parameters({{"parameter", kLeft}, {"value", kRight}, {"", kLeft}});
  for (const Json& row : run["parameters"]) {
    parameters.Add({ValueText(row["name"]), ValueText(row["value"]),
                    row["is_default"] == 1 ? "default" : "set"});
  }
  if (!run["parameters"].empty()) out += "\n" + parameters.Text();
  Table metrics({{"metric", kLeft}, {"statistic", kLeft}, {"value", kRight}});
  for (const Json& row : run["metrics"]) {
    metrics.Add(
        {ValueText(row["name"]), ValueText(row["statistic"]), Cell(NumberOf(row["value"]))});
  }
  out += "\n" + metrics.Text();
  return out + "\nexperiment:\n" + ValueText(run["experiment"]);
}

absl::Status RunDbShow(const Flags& flags) {
  const absl::StatusOr<std::unique_ptr<Store>> store =
      Store::OpenForReading(flags.value_or("db", kDefaultDb));
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::int64_t> id = (*store)->Resolve(flags.arguments()[0]);
  if (!id.ok()) return id.status();
  Database& database = (*store)->database();
  absl::StatusOr<Json> run =
      RowsJson(database, "SELECT id AS run_id, * FROM published_runs WHERE id = ?1", *id);
  if (!run.ok()) return run.status();
  Json out = std::move(run->at(0));
  out.erase("id");
  if (flags.given("experiment")) {
    const std::string text = out["experiment"].get<std::string>();
    if (flags.given("json")) {
      PrintJson({{"experiment", text}});
    } else {
      Print(text);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Json> execution = RowsJson(
      database,
      "SELECT wait, backend, policy_thread_s, invalid FROM published_executions WHERE run_id = ?1",
      *id);
  if (!execution.ok()) return execution.status();
  out["execution"] = execution->empty() ? Json(nullptr) : Json(execution->at(0));
  absl::StatusOr<Json> library = RowsJson(
      database, "SELECT file, hash FROM published_policy_libraries WHERE run_id = ?1", *id);
  if (!library.ok()) return library.status();
  out["policy_library"] = library->empty() ? Json(nullptr) : Json(library->at(0));
  const std::pair<const char*, const char*> lists[] = {
      {"parameters", "SELECT name, value, is_default FROM published_parameters WHERE run_id = ?1"},
      {"metrics", "SELECT name, statistic, value FROM published_metrics WHERE run_id = ?1"}};
  for (const auto& [name, sql] : lists) {
    absl::StatusOr<Json> rows = RowsJson(database, sql, *id);
    if (!rows.ok()) return rows.status();
    out[name] = *std::move(rows);
  }
  if (flags.given("json")) {
    PrintJson(out);
  } else {
    Print(ShowText(out));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckReport> CheckFile(const std::string& db) {
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForReading(db);
  if (!store.ok()) return store.status();
  return CheckStore(**store);
}

absl::Status RunDbCheck(const Flags& flags) {
  const std::string db = flags.value_or("db", kDefaultDb);
  const absl::StatusOr<CheckReport> report = CheckFile(db);
  // Too damaged to be checked is an answer, too.
  if (absl::IsDataLoss(report.status()) && flags.given("json")) {
    const std::string problem(report.status().message());
    PrintJson({{"db", db}, {"ok", false}, {"problems", Json::array({problem})}});
  }
  if (!report.ok()) return report.status();
  if (flags.given("json")) {
    PrintJson({{"db", db},
               {"ok", report->problems.empty()},
               {"published_runs", report->published_runs},
               {"open_runs", report->open_runs},
               {"abandoned_runs", report->abandoned_runs},
               {"problems", report->problems}});
  } else {
    for (const std::string& problem : report->problems) Print(problem + "\n");
    std::string line = Cat(db, ": ", report->published_runs, " published runs");
    if (report->open_runs > 0) line += Cat(", ", report->open_runs, " in progress");
    if (report->abandoned_runs > 0) {
      line += Cat(", ", report->abandoned_runs,
                  " abandoned (not visible; removed by the next command that writes)");
    }
    Print(line + (report->problems.empty() ? "; everything holds\n" : "\n"));
  }
  if (report->problems.empty()) return absl::OkStatus();
  return absl::DataLossError(Cat(db, ": ", report->problems.size(), " checks do not hold"));
}

}  // namespace

const Command kDbList = {"db list", "the runs of a results file", DbListFlags, RunDbList};
const Command kDbShow = {"db show", "all about one run", DbShowFlags, RunDbShow};
const Command kDbCheck = {"db check", "whether a results file holds together", DbCheckFlags,
                          RunDbCheck};

}  // namespace schedtwin::cli
