// BatchMeans: one interval for a stationary mean from one run, by the method of batch means (Law,
// Simulation Modeling and Analysis, 9.5.3) with one control variate (11.4 there; Lavenberg and
// Welch, Management Science 27, 1981): 128 means of consecutive requests in order of arrival,
// Student's t, 99%. One batch before them is the warm-up; one after them keeps the system busy
// until the last counted request has left. With several classes each has its own interval, over the
// same batches.
//
// The control is the backlog that a batch brings: its work, shared by the servers, less the time
// until the next batch begins. Its expectation is known exactly, and it goes with about half of the
// variance of times in a loaded queue, so that half of the requests do. It knows what was asked of
// the system, not what the system did: an error in times or order of service stays in the mean.
//
// A recorder; owned by the test, used for one run.
#ifndef SCHEDTWIN_TESTS_SUPPORT_BATCH_MEANS_H_
#define SCHEDTWIN_TESTS_SUPPORT_BATCH_MEANS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "policies/api/recorder.h"

namespace schedtwin {

struct Interval {
  double mean = 0;
  double half_width = 0;

  bool Holds(double value) const { return std::abs(mean - value) <= half_width; }
};

class BatchMeans final : public Recorder {
 public:
  enum class Measure : std::uint8_t { kWait, kTimeInSystem };

  static constexpr std::uint64_t kBatches = 128;
  static constexpr double kStudent = 2.6154;  // t(0.995; 126)

  struct Setup {
    Measure measure = Measure::kTimeInSystem;
    std::size_t classes = 1;  ///< a request's class is its priority, from 0
    std::uint64_t batch = 1;  ///< requests in each
    double service_ns = 1;    ///< the mean service time, the unit of all that is told
    double service_size = 1;  ///< units or output tokens of such a service
    double servers = 1;
    double rate = 1;  ///< arrivals per mean service time
  };

  /// How many requests a run needs for batches of this size.
  static constexpr std::uint64_t Requests(std::uint64_t batch) { return batch * (kBatches + 2); }

  explicit BatchMeans(const Setup& setup)
      : setup_(setup), cells_(setup.classes * (kBatches + 2)), work_(kBatches + 2) {}

  void OnRequest(const RequestRecord& record) override {
    const std::uint64_t batch = record.id.value / setup_.batch;
    const Time until = setup_.measure == Measure::kWait ? record.first_start : record.end;
    Cell& cell = cells_.at(static_cast<std::size_t>(record.priority) * (kBatches + 2) + batch);
    cell.sum_ns += (until - record.arrival).ns();
    ++cell.count;
    work_.at(batch) += record.output_tokens > 0 ? record.output_tokens : record.units;
    if (record.id.value % setup_.batch == 0) begin_.at(batch) = record.arrival;
  }
  void OnStep(const StepRecord&) override {}
  void OnLog(const LogRecord&) override {}
  void OnNote(Time, std::string_view) override {}

  /// In mean service times. REQUIRES: the run is over, and every batch has requests of the class.
  Interval Get(std::size_t request_class) const {
    double mean = 0, control = 0;
    for (std::uint64_t i = 1; i <= kBatches; ++i) {
      mean += Mean(request_class, i) / kBatches;
      control += Control(i) / kBatches;
    }
    double yy = 0, xy = 0, xx = 0;
    for (std::uint64_t i = 1; i <= kBatches; ++i) {
      const double y = Mean(request_class, i) - mean, x = Control(i) - control;
      yy += y * y;
      xy += x * y;
      xx += x * x;
    }
    const double slope = xy / xx;
    const double off = control - (1 / setup_.servers - 1 / setup_.rate);
    const double variance = std::max(0.0, yy - slope * xy) / (kBatches - 2);
    return {mean - slope * off, kStudent * std::sqrt(variance * (1.0 / kBatches + off * off / xx))};
  }

 private:
  struct Cell {
    std::int64_t sum_ns = 0;
    std::uint64_t count = 0;
  };

  double Mean(std::size_t request_class, std::uint64_t batch) const {
    const Cell& cell = cells_[request_class * (kBatches + 2) + batch];
    return static_cast<double>(cell.sum_ns) / static_cast<double>(cell.count) / setup_.service_ns;
  }
  /// Per request.
  double Control(std::uint64_t batch) const {
    const auto span_ns = static_cast<double>((begin_[batch + 1] - begin_[batch]).ns());
    const double work = static_cast<double>(work_[batch]) / setup_.service_size;
    return (work / setup_.servers - span_ns / setup_.service_ns) /
           static_cast<double>(setup_.batch);
  }

  Setup setup_;
  std::vector<Cell> cells_;          ///< of each class, by batch
  std::vector<std::uint64_t> work_;  ///< sizes of the requests of a batch, added up
  std::array<Time, kBatches + 2> begin_;
};

/// What the intervals of several seeds say of one theoretical mean.
struct SeedsVerdict {
  double mean = 0;    ///< of all seeds
  double widest = 0;  ///< half-width, as a share of the theoretical mean
  std::uint64_t held = 0;

  SeedsVerdict(const std::vector<Interval>& seeds, double theory) {
    for (const Interval& interval : seeds) {
      mean += interval.mean / static_cast<double>(seeds.size());
      widest = std::max(widest, interval.half_width / theory);
      held += interval.Holds(theory) ? 1 : 0;
    }
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_BATCH_MEANS_H_
