// schedtwin replay: a recorded run, fed to its policy again.
#include "experiments/replay.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/log_text.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

Flags ReplayFlags() {
  Flags flags(
      "replay RUN [FLAG...]",
      "Feeds a recorded run (--record full) to the same policy again and holds every event, "
      "decision\n"
      "and answer against the log. Tells the first decision that differs, with what came before "
      "it; the\n"
      "replay ends there. RUN is a number, or latest, latest-1, ... Exit status 1 when something "
      "differs.",
      {"schedtwin sim --limit 1000 --record full", "schedtwin replay latest",
       "schedtwin replay 3 --db results.db --json"});
  flags.Arguments(1, 1);
  AddDbFlag(&flags);
  AddJsonFlag(&flags);
  return flags;
}

Json LineJson(const LogRecord& line) {
  return {{"time_ns", line.time.ns()},
          {"kind", LineKindName(line)},
          {"code", line.code},
          {"a", line.a},
          {"b", line.b},
          {"c", line.c},
          {"text", LineText(line)}};
}

Json LinesJson(const std::vector<LogRecord>& lines) {
  Json out = Json::array();
  for (const LogRecord& line : lines) out.push_back(LineJson(line));
  return out;
}

// The line that differs, and null where that side has none.
Json FirstJson(const std::vector<LogRecord>& lines) {
  return lines.empty() ? Json(nullptr) : LineJson(lines.front());
}

Json DivergenceJson(const ReplayReport& report) {
  if (!report.divergence.has_value()) return nullptr;
  const Divergence& divergence = *report.divergence;
  return {{"line", report.lines},
          {"recorded", FirstJson(divergence.recorded)},
          {"replayed", FirstJson(divergence.replayed)},
          {"event", divergence.event.has_value() ? LineJson(*divergence.event) : Json(nullptr)},
          {"before", LinesJson(divergence.before)}};
}

Json ReplayJson(const RecordedRun& run, const ReplayResult& result) {
  const ReplayReport& report = result.report;
  return {{"run_id", run.id},
          {"lines", report.lines},
          {"decisions", report.decisions},
          {"diverging", report.divergence.has_value() ? 1 : 0},
          {"first_divergence", DivergenceJson(report)},
          {"digests_equal", result.digests_equal}};
}

void AddLines(std::string_view side, const std::vector<LogRecord>& lines, Table* table) {
  for (const LogRecord& line : lines) {
    table->Add(
        {std::string(side), LineTimeText(line), std::string(LineKindName(line)), LineText(line)});
  }
}

std::string DivergenceText(const ReplayReport& report) {
  using enum Table::Align;
  const Divergence& divergence = *report.divergence;
  Table table({{"", kLeft}, {"time", kRight}, {"", kLeft}, {"", kLeft}});
  AddLines("both", divergence.before, &table);
  AddLines("recorded", divergence.recorded, &table);
  AddLines("replayed", divergence.replayed, &table);
  std::string out = Cat("  they part at line ", report.lines, ":\n", table.Text(4));
  if (divergence.event.has_value()) {
    out += Cat("  the event before it, at ", LineTimeText(*divergence.event), ": ",
               LineText(*divergence.event), "\n");
  }
  if (divergence.recorded.empty()) out += "  the recorded log ends here; the policy goes on\n";
  if (divergence.replayed.empty() && !divergence.recorded.empty()) {
    out += "  the policy does nothing more here\n";
  }
  return out;
}

std::string ReplayText(const RecordedRun& run, const ReplayResult& result) {
  const ReplayReport& report = result.report;
  const bool diverging = report.divergence.has_value();
  std::string out =
      Cat("run ", run.id, ": ", report.lines, " lines of the log are the same, ", report.decisions,
          " decisions among them; ", diverging ? 1 : 0, " diverging\n");
  if (diverging) out += DivergenceText(report);
  return out;
}

// Where the two part, in half a sentence.
std::string WhereText(const RecordedRun& run, const ReplayReport& report) {
  if (report.divergence->recorded.empty()) {
    return Cat("its log ends at line ", report.lines, ", the replay goes on");
  }
  return Cat("line ", report.lines, " of ", run.lines, " differs");
}

absl::Status Verdict(const RecordedRun& run, const ReplayResult& result) {
  if (result.report.divergence.has_value()) {
    return absl::AbortedError(
        Cat("run ", run.id, " and its replay are not the same: ", WhereText(run, result.report)));
  }
  if (result.digests_equal) return absl::OkStatus();
  return absl::DataLossError(
      Cat("run ", run.id,
          ": every line is the same, but the digests stored with the run are not; its log, or its "
          "row in the results file, has been changed"));
}

absl::Status RunReplay(const Flags& flags) {
  const std::string db = flags.value_or("db", kDefaultDb);
  const auto store = Store::OpenForReading(db);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::int64_t> id = (*store)->Resolve(flags.arguments()[0]);
  if (!id.ok()) return id.status();
  const absl::StatusOr<RecordedRun> run = ReadRecordedRun(store->get(), *id);
  if (!run.ok()) return run.status();
  const absl::StatusOr<RunSpec> spec = SpecOf(*run, db);
  if (!spec.ok()) return spec.status();
  if (run->version != Version()) {
    PrintNote(Cat("run ", run->id, " was made by schedtwin ", run->version, ", this is ", Version(),
                  ": what differs may be the program's doing"));
  }
  const Interrupt interrupt;
  absl::StatusOr<ReplayResult> result;
  {
    Progress progress("replay", "lines", run->lines);
    result = ReplayRun(*run, *spec, store->get(),
                       {.stop = interrupt.flag(), .lines_seen = progress.counter()});
  }
  if (!result.ok()) return result.status();
  const ReplayReport& report = result->report;
  if (report.summary.result == RunResult::kInterrupted && !report.divergence.has_value()) {
    return absl::CancelledError("interrupted; the replay had not ended");
  }
  if (flags.given("json")) {
    PrintJson(ReplayJson(*run, *result));
  } else {
    Print(ReplayText(*run, *result));
  }
  return Verdict(*run, *result);
}

}  // namespace

const Command kReplay = {"replay", "feed a recorded run to its policy again", ReplayFlags,
                         RunReplay};

}  // namespace schedtwin::cli
