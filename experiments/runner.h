// RunSim: one RunSpec in the simulated world, from the trace's first request to a result; and the
// two halves of what the results file keeps of it. Called by the `sim` command and by the sweep's
// workers: nothing is shared between runs but what the spec shares, so any number may run at once.
#ifndef SCHEDTWIN_EXPERIMENTS_RUNNER_H_
#define SCHEDTWIN_EXPERIMENTS_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "experiments/row_recorder.h"
#include "experiments/run_spec.h"
#include "experiments/store/store.h"
#include "policies/runtime/world.h"

namespace schedtwin {

/// How a run is watched from outside; both may be null.
struct RunControl {
  const std::atomic<bool>* stop = nullptr;  ///< set it, and the run ends at the next instant
  std::atomic<std::uint64_t>* requests_seen = nullptr;  ///< counts up as requests arrive
};

struct RunResultData {
  RunSummary summary;
  double wall_s = 0;                        ///< the loop alone, without writing rows
  double thread_s = 0;                      ///< CPU time of this thread during the loop
  std::optional<ExecutionFacts> execution;  ///< of a real run
};

/// Runs to the end. Deterministic given the spec. Fails when the trace's view is empty or too long.
absl::StatusOr<RunResultData> RunSim(const RunSpec& spec, const RunControl& control,
                                     RowRecorder* recorder);

/// How many requests the spec will replay at most.
std::uint64_t ExpectedRequests(const RunSpec& spec);

/// What the results file keeps: before the run, and after it.
RunInfo InfoOf(const RunSpec& spec);
RunOutcome OutcomeOf(const RunResultData& result, const RunMetrics& metrics, double process_s);
/// The figures of a run that `recorder` recorded.
RunMetrics MetricsOf(const RunResultData& result, RowRecorder* recorder);

/// "finished", "stalled", "livelocked", "failed", "interrupted".
std::string_view RunResultName(RunResult result);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_RUNNER_H_
