#include "experiments/metrics.h"

#include <algorithm>
#include <array>
#include <utility>

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 5> kStatistics = {"mean", "p50", "p90", "p99", "max"};

// The value at `percent` of the way through the sorted values, by linear interpolation between the
// two nearest. `*done` is where the sorted prefix of an earlier, smaller percentile ends: selection
// goes on from there.
template <class T>
double SelectPercentile(std::span<T> values, std::int64_t percent, std::size_t* done) {
  const std::int64_t position = (static_cast<std::int64_t>(values.size()) - 1) * percent;
  const auto low = static_cast<std::size_t>(position / 100);
  const double fraction = static_cast<double>(position % 100) / 100.0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(low);
  std::nth_element(values.begin() + static_cast<std::ptrdiff_t>(*done), at, values.end());
  *done = low;
  const auto value = static_cast<double>(*at);
  if (position % 100 == 0) return value;
  const auto next = static_cast<double>(*std::min_element(at + 1, values.end()));
  return value + (next - value) * fraction;
}

template <class T>
std::optional<Distribution> SummarizeAs(std::span<T> values, double scale) {
  if (values.empty()) return std::nullopt;
  Distribution out;
  out.count = static_cast<std::int64_t>(values.size());
  double sum = 0;
  for (const T value : values) sum += static_cast<double>(value);
  out.mean = sum / static_cast<double>(values.size()) * scale;
  std::size_t done = 0;
  out.p50 = SelectPercentile(values, 50, &done) * scale;
  out.p90 = SelectPercentile(values, 90, &done) * scale;
  out.p99 = SelectPercentile(values, 99, &done) * scale;
  const auto tail = values.subspan(done);
  out.max = static_cast<double>(*std::max_element(tail.begin(), tail.end())) * scale;
  return out;
}

void Append(std::string_view name, const std::optional<Distribution>& distribution,
            std::vector<MetricRow>* rows) {
  if (!distribution.has_value()) return;
  for (const std::string_view statistic : kStatistics) {
    rows->push_back({name, statistic, Statistic(*distribution, statistic)});
  }
}

void Append(std::string_view name, const std::optional<double>& value,
            std::vector<MetricRow>* rows) {
  if (value.has_value()) rows->push_back({name, "mean", *value});
}

}  // namespace

std::optional<double> RunMetrics::PerSecond(std::int64_t count) const {
  const std::int64_t ns = makespan().ns();
  if (ns <= 0) return std::nullopt;
  return static_cast<double>(count) / (static_cast<double>(ns) / 1e9);
}

std::optional<Distribution> Summarize(std::span<std::int64_t> values, double scale) {
  return SummarizeAs(values, scale);
}

std::optional<Distribution> Summarize(std::span<double> values, double scale) {
  return SummarizeAs(values, scale);
}

Duration ThroughputWindow(Duration makespan) {
  // A year has 31 million seconds, and nobody counts it out by the second.
  return std::max(
      {Duration::Nanos(1), std::min(Duration::Seconds(1), makespan / 10), makespan / 100'000});
}

std::optional<Distribution> SummarizeThroughput(std::span<const std::int64_t> completion_ns,
                                                Time first_arrival, Duration makespan) {
  if (makespan.ns() <= 0) return std::nullopt;
  const std::int64_t width = ThroughputWindow(makespan).ns();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(makespan.ns() / width), 0);
  for (const std::int64_t end : completion_ns) {
    const std::int64_t since = end - first_arrival.ns();
    const auto window = static_cast<std::size_t>(since > 0 ? (since - 1) / width : 0);
    if (window < counts.size()) ++counts[window];
  }
  const double per_second = 1e9 / static_cast<double>(width);
  std::optional<Distribution> out = Summarize(std::span<std::int64_t>(counts), per_second);
  if (out.has_value()) {
    out->mean =
        static_cast<double>(completion_ns.size()) / (static_cast<double>(makespan.ns()) / 1e9);
  }
  return out;
}

std::vector<MetricRow> Flatten(const RunMetrics& metrics) {
  std::vector<MetricRow> rows;
  rows.reserve(32);
  Append("ttft_ms", metrics.ttft_ms, &rows);
  Append("tpot_ms", metrics.tpot_ms, &rows);
  Append("e2e_ms", metrics.e2e_ms, &rows);
  Append("lateness_ms", metrics.lateness_ms, &rows);
  Append("throughput_rps", metrics.throughput_rps, &rows);
  Append("output_tokens_per_s", metrics.output_tokens_per_s(), &rows);
  Append("goodput_rps", metrics.goodput_rps(), &rows);
  Append("decision_us", metrics.decision_us, &rows);
  Append("prefix_hit_ratio", metrics.prefix_hit_ratio(), &rows);
  const std::pair<std::string_view, std::int64_t OperationCount::*> counts[] = {
      {"operations", &OperationCount::done},
      {"operations_undone", &OperationCount::undone},
      {"operation_bytes", &OperationCount::bytes}};
  for (const auto& [name, count] : counts) {
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
      const std::int64_t value = metrics.operations[kind].*count;
      if (value > 0) rows.push_back({name, kOperationNames[kind], static_cast<double>(value)});
    }
  }
  return rows;
}

std::span<const std::string_view> StatisticNames() { return kStatistics; }

double Statistic(const Distribution& distribution, std::string_view name) {
  if (name == "mean") return distribution.mean;
  if (name == "p50") return distribution.p50;
  if (name == "p90") return distribution.p90;
  if (name == "p99") return distribution.p99;
  return distribution.max;
}

}  // namespace schedtwin
