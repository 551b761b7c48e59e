// TraceSource: a shared, constant trace as a RequestSource, seen through options: faster or slower,
// shorter in time or in number, longer or shorter requests (a text that is then too short for its
// prompt goes on with what no other has). Thousands of runs of a sweep look at
// one loaded trace; a source is a few words and copies no row. The runtime calls Next from the
// policy thread; each run has its own source. Scaling is exact in integers, so every machine yields
// the same nanoseconds.
#ifndef SCHEDTWIN_TRACES_SOURCE_H_
#define SCHEDTWIN_TRACES_SOURCE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "policies/api/source.h"
#include "policies/api/time.h"
#include "traces/ratio.h"
#include "traces/trace.h"

namespace schedtwin {

/// The defaults show the trace as it is.
struct TraceSourceOptions {
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  Ratio rate_scale;    ///< X: requests come X times as fast; arrival' = floor(arrival / X)
  Ratio length_scale;  ///< X: tokens' = round(tokens * X), halves up, at least 1
  std::uint64_t limit = kNoLimit;            ///< only the first N requests
  Duration duration = Duration::Infinite();  ///< only arrival' < D, that is, after rate scaling
  Duration deadline = Duration::Infinite();  ///< of each request, after its arrival
  Duration patience = Duration::Infinite();  ///< of each client, after its request's arrival
  /// For one-shot models: tokens are 0 and only arrivals and units count.
  bool as_units = false;
};

class TraceSource final : public RequestSource {
 public:
  /// Fails when the options leave no request, or stretch the trace beyond what int64 nanoseconds
  /// hold.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Create(std::shared_ptr<const Trace> trace,
                                                             const TraceSourceOptions& options);

  Pull Next(RequestSpec* out) override {
    if (next_ == end_) return Pull::kDry;
    *out = Transform(*next_++);
    if (has_details_) AddDetails(out);
    return Pull::kRequest;
  }

  /// How many requests this source yields in all.
  std::uint64_t size() const { return static_cast<std::uint64_t>(end_ - begin_); }
  const Trace& trace() const { return *trace_; }
  /// The trace's own transforms and then this view's, such as "rate_scale=1.5", for the run's
  /// provenance.
  std::vector<std::string> transforms() const;

  /// The rows as this view shows them, from the first; does not move the source.
  std::vector<TraceRow> Rows() const;

 private:
  TraceSource(std::shared_ptr<const Trace> trace, const TraceSourceOptions& options);

  RequestSpec Transform(const TraceRow& row) const {
    RequestSpec spec;
    spec.arrival = Time::Nanos(time_.is_one() ? row.arrival_ns : time_.Floor(row.arrival_ns));
    spec.units = row.units;
    if (options_.deadline != Duration::Infinite()) spec.deadline = spec.arrival + options_.deadline;
    if (options_.patience != Duration::Infinite()) spec.leaves = spec.arrival + options_.patience;
    if (!as_units_) {
      spec.prompt_tokens = Length(row.prompt_tokens);
      spec.output_tokens = Length(row.output_tokens);
    }
    return spec;
  }
  /// What the trace says besides of the request that was just yielded.
  void AddDetails(RequestSpec* out) const;
  std::uint32_t Length(std::uint32_t tokens) const {
    if (length_.is_one()) return tokens;
    const std::int64_t scaled = length_.Round(tokens);
    return scaled < 1 ? 1 : static_cast<std::uint32_t>(scaled);
  }

  std::shared_ptr<const Trace> trace_;
  TraceSourceOptions options_;
  ExactScale time_;  // multiplies by 1 / rate_scale
  ExactScale length_;
  bool as_units_;
  bool has_details_;
  const TraceRow* begin_;
  const TraceRow* next_;
  const TraceRow* end_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_SOURCE_H_
