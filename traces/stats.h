// TraceStats: what `trace info` prints and tests compare with published figures. Called by commands
// and tests, not during runs. Definitions are those of the literature's tools: percentiles
// interpolate linearly (numpy's default), deviations are of the population, the rate is one over
// the mean gap. Deterministic; any thread.
#ifndef SCHEDTWIN_TRACES_STATS_H_
#define SCHEDTWIN_TRACES_STATS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/api/source.h"
#include "policies/api/time.h"
#include "traces/trace.h"

namespace schedtwin {

struct LengthStats {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

/// Variance over mean of the number of arrivals per window: 1 for a Poisson process at every width,
/// more for bursts. Over whole windows from the first arrival; absent for fewer than two.
struct Dispersion {
  Duration window;
  std::optional<double> value;
};

struct TraceStats {
  std::uint64_t rows = 0;
  Duration duration;               ///< first to last arrival
  std::optional<double> rate_rps;  ///< (rows - 1) / duration; absent when all arrive at once
  std::optional<double> gap_cv;    ///< deviation / mean of the gaps between arrivals; likewise
  LengthStats prompt_tokens;
  LengthStats output_tokens;
  LengthStats units;
  std::vector<Dispersion> dispersion;  ///< over 1 s, 10 s, 60 s
};

/// REQUIRES: rows are in order of arrival (those of a Trace, or TraceSource::Rows).
TraceStats ComputeTraceStats(std::span<const TraceRow> rows);

/// What traffic that names its texts says of them.
struct TextStats {
  std::uint64_t sessions = 0;   ///< different ones
  std::uint64_t continued = 0;  ///< requests that continue another
  /// Share of all prompt tokens that a prefix cache of any size, kept by itself, would have: of
  /// each prompt the stretches at its beginning that one before it began with. Absent where no
  /// request names its text.
  std::optional<double> prefix_hit_ideal;
};

/// Pulls `source` dry.
TextStats ComputeTextStats(RequestSource* source);

/// The p-th percentile, p in [0, 100], linear between order statistics. REQUIRES: `sorted` is, not
/// empty.
double Percentile(std::span<const std::uint32_t> sorted, double p);

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_STATS_H_
