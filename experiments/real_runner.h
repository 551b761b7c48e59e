// RunReal: one RunSpec for real: on devices of this machine, in wall-clock time. Blocks for as long
// as the traffic lasts; one at a time, since two would take each other's cores.
#ifndef SCHEDTWIN_EXPERIMENTS_REAL_RUNNER_H_
#define SCHEDTWIN_EXPERIMENTS_REAL_RUNNER_H_

#include "absl/status/statusor.h"
#include "exec/wall_time.h"
#include "experiments/row_recorder.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"

namespace schedtwin {

/// Runs to the end. `recorder` must have no writer: nothing is written while the clock runs. Fails
/// when the trace's view is empty or too long, a device cannot be made, or a device fails; a run
/// that failed has no result.
absl::StatusOr<RunResultData> RunReal(const RunSpec& spec, Wait wait, const RunControl& control,
                                      RowRecorder* recorder);

/// Why the figures of a real run prove nothing; empty: they are sound. The load generator must not
/// be what was measured: its lateness at p99 may be 1 ms, or 5% of the median TTFT (of E2E, where
/// there is no TTFT).
std::string InvalidReason(const RunMetrics& metrics);

/// "sleep", "spin".
std::string_view WaitName(Wait wait);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_REAL_RUNNER_H_
