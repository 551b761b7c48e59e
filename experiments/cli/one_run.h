// RunOne: what `sim` and `exec` have in common: one run of a spec in its world, watched, stored and
// shown. The run is open in the results file while it lasts, and removed on the way out unless it
// was published. RunWithBaseline: the same, and then a second policy under the same conditions.
// Main thread.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_ONE_RUN_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_ONE_RUN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "experiments/cli/flags.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"

namespace schedtwin::cli {

using RunFunction =
    std::function<absl::StatusOr<RunResultData>(const RunSpec&, const RunControl&, RowRecorder*)>;

/// `flags` has --db and --json; `run` is RunSim, or RunReal bound to its options.
absl::Status RunOne(const Flags& flags, const RunSpec& spec, const RunFunction& run);

/// Says besides whether the two came to the same: then the policy has had no effect.
absl::Status RunWithBaseline(const Flags& flags, const RunSpec& spec, const RunSpec& baseline,
                             const RunFunction& run);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_ONE_RUN_H_
