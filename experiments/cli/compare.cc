// schedtwin compare: how far two runs are apart.
#include "experiments/compare.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/run_report.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

Flags CompareFlags() {
  Flags flags(
      "compare RUN_A RUN_B [FLAG...]",
      "Prints mean, p50, p90 and p99 of TTFT, TPOT, E2E and throughput of two runs, and by how "
      "much\n"
      "B differs from A: (b - a) / a. A run is a number, or latest, latest-1, latest-2, ...\n"
      "Percentiles of throughput are over windows of one second; of a tenth of the makespan where "
      "that is\n"
      "less, of a hundred-thousandth where that is more.",
      {"schedtwin compare latest-1 latest", "schedtwin compare 3 7 --db results.db --json"});
  flags.Arguments(2, 2);
  AddDbFlag(&flags);
  AddJsonFlag(&flags);
  return flags;
}

Json ComparisonJson(const Comparison& comparison) {
  Json metrics = Json::array();
  for (const ComparedFigure& figure : comparison.figures) {
    metrics.push_back({{"name", figure.name},
                       {"statistic", figure.statistic},
                       {"a", NumberJson(figure.a)},
                       {"b", NumberJson(figure.b)},
                       {"rel_diff", NumberJson(figure.rel_diff)}});
  }
  Json conditions = Json::array();
  for (const ComparedCondition& condition : comparison.differing) {
    conditions.push_back({{"name", condition.name}, {"a", condition.a}, {"b", condition.b}});
  }
  return {{"run_a", comparison.run_a},
          {"run_b", comparison.run_b},
          {"metrics", std::move(metrics)},
          {"differing", std::move(conditions)},
          {"no_effect", comparison.no_effect}};
}

std::string ComparisonText(const Comparison& comparison) {
  using enum Table::Align;
  const std::string a = Cat("run ", comparison.run_a);
  const std::string b = Cat("run ", comparison.run_b);
  Table figures({{"", kLeft}, {"", kLeft}, {a, kRight}, {b, kRight}, {"difference", kRight}});
  std::string_view last;
  for (const ComparedFigure& figure : comparison.figures) {
    if (!figure.a.has_value() && !figure.b.has_value()) continue;  // TTFT of a one-shot model
    figures.Add({figure.name == last ? "" : std::string(figure.name), std::string(figure.statistic),
                 Cell(figure.a), Cell(figure.b), PercentCell(figure.rel_diff)});
    last = figure.name;
  }
  std::string out = figures.Text();
  if (comparison.no_effect) {
    out += "\nno effect: the same happened to every request in both\n";
  }
  if (comparison.differing.empty()) return out + "\nthe two ran under the same conditions\n";
  Table conditions({{"differing", kLeft}, {a, kLeft}, {b, kLeft}});
  for (const ComparedCondition& condition : comparison.differing) {
    conditions.Add({condition.name, condition.a.empty() ? "-" : condition.a,
                    condition.b.empty() ? "-" : condition.b});
  }
  return out + "\n" + conditions.Text();
}

absl::Status RunCompare(const Flags& flags) {
  const auto store = Store::OpenForReading(flags.value_or("db", kDefaultDb));
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::int64_t> a = (*store)->Resolve(flags.arguments()[0]);
  if (!a.ok()) return a.status();
  const absl::StatusOr<std::int64_t> b = (*store)->Resolve(flags.arguments()[1]);
  if (!b.ok()) return b.status();
  const absl::StatusOr<Comparison> comparison = CompareRuns(**store, *a, *b);
  if (!comparison.ok()) return comparison.status();
  if (flags.given("json")) {
    PrintJson(ComparisonJson(*comparison));
  } else {
    Print(ComparisonText(*comparison));
  }
  return absl::OkStatus();
}

}  // namespace

const Command kCompare = {"compare", "how far two runs are apart", CompareFlags, RunCompare};

}  // namespace schedtwin::cli
