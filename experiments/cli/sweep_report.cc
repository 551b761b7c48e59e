#include "experiments/cli/sweep_report.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "experiments/cli/output.h"
#include "experiments/cli/run_report.h"
#include "experiments/frontier.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;
using Figure = std::function<std::optional<double>(const RunMetrics&)>;

constexpr std::array<std::string_view, 3> kLatencies = {"ttft_ms", "tpot_ms", "e2e_ms"};

std::optional<double> LatencyFigure(const RunMetrics& metrics, std::string_view name,
                                    std::string_view statistic) {
  const std::optional<Distribution>& d = name == "ttft_ms"   ? metrics.ttft_ms
                                         : name == "tpot_ms" ? metrics.tpot_ms
                                                             : metrics.e2e_ms;
  if (!d.has_value()) return std::nullopt;
  return Statistic(*d, statistic);
}

std::optional<double> RequestsPerSecond(const RunMetrics& metrics) {
  if (!metrics.throughput_rps.has_value()) return std::nullopt;
  return metrics.throughput_rps->mean;
}

// One combination of the axes other than seeds, with its runs.
struct SettingRuns {
  std::vector<std::string> values;
  std::vector<const SweepRow*> rows;

  std::optional<double> Mean(const Figure& figure) const {
    double sum = 0;
    int count = 0;
    for (const SweepRow* row : rows) {
      const std::optional<double> value = figure(row->outcome.metrics);
      if (!value.has_value()) continue;
      sum += *value;
      ++count;
    }
    return count == 0 ? std::nullopt : std::optional<double>(sum / count);
  }
};

// The settings in the order of their first points, and the frontier over them.
struct Analysis {
  std::vector<std::size_t> axes;  ///< those that are not seeds
  std::vector<SettingRuns> settings;
  bool tokens = false;                ///< throughput is in output tokens, not requests
  std::vector<std::size_t> frontier;  ///< indices of settings

  std::string_view throughput() const { return tokens ? "output_tokens_per_s" : "throughput_rps"; }
  std::string_view Mark(std::size_t setting) const {
    if (std::find(frontier.begin(), frontier.end(), setting) == frontier.end()) return "";
    if (frontier.size() == 1) return "low latency, high throughput";
    if (setting == frontier.front()) return "low latency";
    return setting == frontier.back() ? "high throughput" : "frontier";
  }
};

Analysis Analyse(const SweepResult& result) {
  Analysis out;
  for (std::size_t a = 0; a < result.axes.size(); ++a) {
    if (result.axes[a].path != "seed") out.axes.push_back(a);
  }
  std::map<std::vector<std::string>, std::size_t> places;
  for (const SweepRow& row : result.rows) {
    std::vector<std::string> key;
    for (const std::size_t a : out.axes) key.push_back(row.values[a]);
    const auto [place, added] = places.emplace(key, out.settings.size());
    if (added) out.settings.push_back({key, {}});
    out.settings[place->second].rows.push_back(&row);
    out.tokens = out.tokens || row.outcome.metrics.output_tokens > 0;
  }
  const std::vector<std::string_view> figure = Split(result.latency, '.');
  std::vector<TradePoint> points;
  for (const SettingRuns& setting : out.settings) {
    points.push_back(
        {setting.Mean([&](const RunMetrics& m) { return LatencyFigure(m, figure[0], figure[1]); }),
         setting.Mean([&](const RunMetrics& m) {
           return out.tokens ? m.output_tokens_per_s() : RequestsPerSecond(m);
         })});
  }
  out.frontier = Frontier(points);
  return out;
}

struct Column {
  const char* title;
  Figure figure;
};

std::vector<Column> Columns(bool slo) {
  const auto latency = [](const char* name, const char* statistic) {
    return [=](const RunMetrics& m) { return LatencyFigure(m, name, statistic); };
  };
  std::vector<Column> columns = {
      {"ttft p50", latency("ttft_ms", "p50")},
      {"ttft p99", latency("ttft_ms", "p99")},
      {"tpot p50", latency("tpot_ms", "p50")},
      {"tpot p99", latency("tpot_ms", "p99")},
      {"e2e p50", latency("e2e_ms", "p50")},
      {"e2e p99", latency("e2e_ms", "p99")},
      {"req/s", RequestsPerSecond},
      {"tok/s",
       [](const RunMetrics& m) {
         return m.output_tokens > 0 ? m.output_tokens_per_s() : std::nullopt;
       }},
  };
  if (slo) columns.push_back({"goodput", [](const RunMetrics& m) { return m.goodput_rps(); }});
  return columns;
}

std::string SettingsTable(const SweepResult& result, const Analysis& analysis,
                          const std::vector<std::size_t>& order) {
  using enum Table::Align;
  const bool slo = !result.rows.empty() && result.rows.front().info.slo.any();
  const bool seeds = analysis.axes.size() != result.axes.size();
  std::vector<Column> columns = Columns(slo);
  // Columns that no setting has a figure for (TTFT of a one-shot model) are left out.
  std::erase_if(columns, [&](const Column& column) {
    return std::none_of(analysis.settings.begin(), analysis.settings.end(),
                        [&](const SettingRuns& s) { return s.Mean(column.figure).has_value(); });
  });
  std::vector<std::pair<std::string, Table::Align>> titles;
  for (const std::size_t a : analysis.axes) titles.emplace_back(result.axes[a].path, kRight);
  titles.emplace_back(seeds ? "runs" : "run", kRight);
  for (const Column& column : columns) titles.emplace_back(column.title, kRight);
  titles.emplace_back("", kLeft);
  Table table(titles);
  for (const std::size_t i : order) {
    const SettingRuns& setting = analysis.settings[i];
    std::vector<std::string> cells = setting.values;
    cells.push_back(seeds ? Cat(setting.rows.size()) : Cat(setting.rows.front()->run));
    for (const Column& column : columns) cells.push_back(Cell(setting.Mean(column.figure)));
    cells.emplace_back(analysis.Mark(i));
    table.Add(std::move(cells));
  }
  return table.Text(2);
}

}  // namespace

absl::Status CheckLatencyFigure(std::string_view text, std::string_view where) {
  const std::vector<std::string_view> parts = Split(text, '.');
  const auto statistics = StatisticNames();
  if (parts.size() == 2 &&
      std::find(kLatencies.begin(), kLatencies.end(), parts[0]) != kLatencies.end() &&
      std::find(statistics.begin(), statistics.end(), parts[1]) != statistics.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat(where, ": '", text, "' is no latency; write NAME.STATISTIC with a name of ",
          Join(kLatencies, ", "), " and a statistic of ", Join(statistics, ", ")));
}

Json SweepJson(const SweepResult& result) {
  const Analysis analysis = Analyse(result);
  Json axes = Json::array();
  for (const Axis& axis : result.axes)
    axes.push_back({{"path", axis.path}, {"values", axis.values}});
  std::map<std::int64_t, std::size_t> setting_of;
  for (std::size_t i = 0; i < analysis.settings.size(); ++i) {
    for (const SweepRow* row : analysis.settings[i].rows) setting_of[row->run] = i;
  }
  Json points = Json::array();
  for (const SweepRow& row : result.rows) {
    Json point = Json::object();
    for (std::size_t a = 0; a < result.axes.size(); ++a) {
      point["setting"][result.axes[a].path] = row.values[a];
    }
    const std::size_t setting = setting_of[row.run];
    point["on_frontier"] = !analysis.Mark(setting).empty();
    point["low_latency"] = !analysis.frontier.empty() && setting == analysis.frontier.front();
    point["high_throughput"] = !analysis.frontier.empty() && setting == analysis.frontier.back();
    point.update(RunJson(row.run, row.info, row.outcome));
    points.push_back(std::move(point));
  }
  Json frontier = Json::array();
  for (const std::size_t i : analysis.frontier) {
    Json runs = Json::array();
    for (const SweepRow* row : analysis.settings[i].rows) runs.push_back(row->run);
    frontier.push_back(std::move(runs));
  }
  return {{"sweep_id", result.sweep},
          {"jobs", result.jobs},
          {"wall_s", result.wall_s},
          {"process_s", result.process_s},
          {"axes", std::move(axes)},
          {"latency", result.latency},
          {"throughput", analysis.throughput()},
          {"frontier", std::move(frontier)},
          {"points", std::move(points)}};
}

std::string SweepText(const SweepResult& result) {
  const Analysis analysis = Analyse(result);
  std::vector<std::size_t> all(analysis.settings.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::string out = Cat("sweep ", result.sweep, ": ", result.rows.size(), " runs in ",
                        Compact(result.wall_s), " s; latencies in ms\n");
  out += SettingsTable(result, analysis, all);
  if (analysis.frontier.empty()) {
    return out + Cat("\nno frontier: no run has ", Split(result.latency, '.')[0], "\n");
  }
  out += Cat("\nfrontier of ", result.latency, " against ", analysis.throughput(), ":\n");
  out += SettingsTable(result, analysis, analysis.frontier);
  return out;
}

}  // namespace schedtwin::cli
