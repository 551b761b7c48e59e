// RunMetrics: the figures of one run, by the definitions of docs/design.md section 1: percentiles
// interpolate linearly, latencies are from the scheduled arrival and over completed requests, nulls
// are left out. Filled by SummaryRecorder during a run and by metrics_sql.h from stored rows; the
// two agree. Plain values; the functions are pure (Summarize reorders what it is given).
#ifndef SCHEDTWIN_EXPERIMENTS_METRICS_H_
#define SCHEDTWIN_EXPERIMENTS_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin {

struct Distribution {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

/// Of one kind of operation.
struct OperationCount {
  std::int64_t done = 0, undone = 0;
  std::int64_t bytes = 0;  ///< of those done
};

/// "swap_out", "swap_in", ...: by OperationKind.
inline constexpr std::string_view kOperationNames[] = {"swap_out", "swap_in", "transfer",
                                                       "stage",    "load",    "unload"};
inline constexpr std::size_t kOperationKinds = std::size(kOperationNames);

struct RunMetrics {
  std::int64_t completed = 0;  ///< made all of their output, or were answered from the cache
  std::int64_t rejected = 0, timed_out = 0, cancelled = 0, failed = 0;
  std::int64_t cached = 0;         ///< of the completed
  std::int64_t good = 0;           ///< completed and within all of their targets; 0 without an SLO
  std::int64_t output_tokens = 0;  ///< made, however the request ended
  std::int64_t preemptions = 0, recomputed_tokens = 0;
  std::int64_t prompt_tokens = 0;  ///< of all that ended
  std::int64_t cached_tokens = 0;  ///< of these, found in the prefix cache
  OperationCount operations[kOperationKinds];
  Time first_arrival = Time::Infinite();  ///< scheduled; Infinite: no request came
  Time last_end;                          ///< means nothing when none ended
  bool has_slo = false;

  std::optional<Distribution> ttft_ms, tpot_ms, e2e_ms;
  std::optional<Distribution> lateness_ms;  ///< real runs: from scheduled to delivered arrival
  std::optional<Distribution> decision_us;  ///< of steps that were told what their decision took
  /// Completions per second over windows of the run (ThroughputWindow); its mean is completed /
  /// makespan.
  std::optional<Distribution> throughput_rps;

  std::int64_t ended() const { return completed + rejected + timed_out + cancelled + failed; }
  /// From the first scheduled arrival to the last end; zero when no request ended.
  Duration makespan() const {
    return first_arrival.infinite() || ended() == 0 ? Duration() : last_end - first_arrival;
  }
  std::optional<double> PerSecond(std::int64_t count) const;
  std::optional<double> output_tokens_per_s() const { return PerSecond(output_tokens); }
  /// Nullopt: nothing was found in a prefix cache, or there was none.
  std::optional<double> prefix_hit_ratio() const {
    if (cached_tokens == 0) return std::nullopt;
    return static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens);
  }
  std::optional<double> goodput_rps() const { return has_slo ? PerSecond(good) : std::nullopt; }
};

/// Mean, maximum and percentiles of `values`, each times `scale`; nullopt when there are none.
/// Takes linear time (selection, not sorting) and leaves `values` in another order.
std::optional<Distribution> Summarize(std::span<std::int64_t> values, double scale);
std::optional<Distribution> Summarize(std::span<double> values, double scale);

/// Width of the windows over which throughput is counted: one second, or a tenth of the makespan
/// where that is less, or so much that there are no more than 100,000. Window k holds completions
/// in (k * width, (k + 1) * width] after the first arrival; the partial window at the end is left
/// out.
Duration ThroughputWindow(Duration makespan);
std::optional<Distribution> SummarizeThroughput(std::span<const std::int64_t> completion_ns,
                                                Time first_arrival, Duration makespan);

/// One figure as the table `metrics` holds it.
struct MetricRow {
  std::string_view name;       ///< "ttft_ms"
  std::string_view statistic;  ///< "p99"
  double value = 0;
};
/// All figures that are not null, in a fixed order.
std::vector<MetricRow> Flatten(const RunMetrics& metrics);

/// The statistics of a distribution by name, in a fixed order: mean, p50, p90, p99, max.
std::span<const std::string_view> StatisticNames();
double Statistic(const Distribution& distribution, std::string_view name);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_METRICS_H_
