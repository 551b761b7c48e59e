// Sweep: many runs at once, one per point of the axes' product. Worker threads take points in
// order, each runs one World of its own to the end and hands its result over in memory; the calling
// thread is the one publisher and gets the results in the order of the points, whatever order they
// finish in. So the results file, its run numbers and every digest are the same for any number of
// workers.
#ifndef SCHEDTWIN_EXPERIMENTS_SWEEP_H_
#define SCHEDTWIN_EXPERIMENTS_SWEEP_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/experiment.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"

namespace schedtwin {

struct SweepPoint {
  std::vector<std::string> values;  ///< one per axis
  RunSpec spec;
};

struct PointResult {
  absl::StatusOr<RunResultData> run;
  RunInfo info;
  RunMetrics metrics;
  RowBuffer rows;  ///< empty with --record summary
};

/// Every combination of the axes' values, the last axis changing fastest, resolved. An axis on
/// seeds makes the same traffic for every other combination; with many seeds, the points let go of
/// their traces, and the workers make them again.
absl::StatusOr<std::vector<SweepPoint>> ExpandPoints(const Experiment& base,
                                                     const std::vector<Axis>& axes,
                                                     Resolver* resolver);

/// Called on the thread that called RunSweep, in the order of the points. An error ends the sweep.
using PublishPoint = std::function<absl::Status(std::size_t index, PointResult result)>;

/// Runs all points on `jobs` threads. Ends early when `stop` is set, then some points are not
/// published.
absl::Status RunSweep(const std::vector<SweepPoint>& points, unsigned jobs,
                      const std::atomic<bool>* stop, const PublishPoint& publish);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_SWEEP_H_
