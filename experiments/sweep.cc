#include "experiments/sweep.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "experiments/text.h"

namespace schedtwin {
namespace {

// More would be a mistake in an axis, and a table nobody reads.
constexpr std::size_t kMostPoints = 1'000'000;

// So many seeds' traces are held at once; of more, one per worker.
constexpr std::size_t kMostSeedsHeld = 8;

PointResult RunPoint(const SweepPoint& point, const std::atomic<bool>* stop) {
  RunSpec spec = point.spec;
  absl::StatusOr<std::shared_ptr<const Trace>> trace = TraceOf(spec);
  if (!trace.ok()) return {trace.status(), {}, {}, {}};
  spec.trace = *std::move(trace);
  RowRecorder recorder(spec.record, spec.slo, ExpectedRequests(spec), nullptr);
  PointResult out{RunSim(spec, {.stop = stop}, &recorder), InfoOf(spec), {}, {}};
  if (out.run.ok()) out.metrics = MetricsOf(*out.run, &recorder);
  out.rows = recorder.TakeRows();
  return out;
}

bool ManySeeds(const std::vector<Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) {
    return axis.path == "seed" && axis.values.size() > kMostSeedsHeld;
  });
}

// Hands out points in order and takes results in any order. Workers stay within a window of what is
// published, so that rows waiting for an earlier point do not fill the memory.
class Exchange {
 public:
  Exchange(std::size_t points, std::size_t window) : points_(points), window_(window) {}

  /// The next point to run, or false when there is none left.
  bool Take(std::size_t* index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || next_ == points_ || next_ < published_ + window_; });
    if (ended_ || next_ == points_) return false;
    *index = next_++;
    return true;
  }
  void Give(std::size_t index, PointResult result) {
    const std::lock_guard lock(mutex_);
    done_.emplace(index, std::move(result));
    changed_.notify_all();
  }
  /// Waits for the result of `index`.
  PointResult Get(std::size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(index); });
    PointResult result = std::move(done_.extract(index).mapped());
    published_ = index + 1;
    changed_.notify_all();
    return result;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  const std::size_t points_;
  const std::size_t window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, PointResult> done_;
  std::size_t next_ = 0;
  std::size_t published_ = 0;
  bool ended_ = false;
};

absl::Status PublishAll(std::size_t points, const std::atomic<bool>* stop, Exchange* exchange,
                        const PublishPoint& publish) {
  for (std::size_t i = 0; i < points; ++i) {
    PointResult result = exchange->Get(i);
    if (stop != nullptr && stop->load()) return absl::CancelledError("interrupted");
    const absl::Status status = publish(i, std::move(result));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SweepPoint>> ExpandPoints(const Experiment& base,
                                                     const std::vector<Axis>& axes,
                                                     Resolver* resolver) {
  std::size_t total = 1;
  for (const Axis& axis : axes) {
    total *= axis.values.size();
    if (total > kMostPoints) {
      return absl::InvalidArgumentError(
          Cat(axis.where, ": the axes make more than ", kMostPoints, " points; use fewer values"));
    }
  }
  std::vector<SweepPoint> points;
  points.reserve(total);
  const bool many_seeds = ManySeeds(axes);
  std::vector<std::size_t> at(axes.size(), 0);
  for (std::size_t i = 0; i < total; ++i) {
    Experiment experiment = base;
    SweepPoint point;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const std::string& value = axes[a].values[at[a]];
      const absl::Status status = experiment.Set(axes[a].path, value, axes[a].where);
      if (!status.ok()) return status;
      point.values.push_back(value);
    }
    absl::StatusOr<RunSpec> spec = resolver->Resolve(experiment);
    if (!spec.ok()) return spec.status();
    point.spec = *std::move(spec);
    if (many_seeds && point.spec.trace->provenance.draws > 0) point.spec.trace.reset();
    points.push_back(std::move(point));
    for (std::size_t a = axes.size(); a-- > 0;) {
      if (++at[a] < axes[a].values.size()) break;
      at[a] = 0;
    }
  }
  return points;
}

absl::Status RunSweep(const std::vector<SweepPoint>& points, unsigned jobs,
                      const std::atomic<bool>* stop, const PublishPoint& publish) {
  const bool rows = std::any_of(points.begin(), points.end(), [](const SweepPoint& point) {
    return point.spec.record != RecordLevel::kSummary;
  });
  Exchange exchange(points.size(), rows ? std::size_t{2} * jobs : std::size_t{64} * jobs);
  std::vector<std::thread> workers;
  for (unsigned j = 0; j < std::min<std::size_t>(jobs, points.size()); ++j) {
    workers.emplace_back([&] {
      for (std::size_t index = 0; exchange.Take(&index);) {
        exchange.Give(index, RunPoint(points[index], stop));
      }
    });
  }
  const absl::Status status = PublishAll(points.size(), stop, &exchange, publish);
  exchange.End();
  for (std::thread& worker : workers) worker.join();
  return status;
}

}  // namespace schedtwin
