// RunOptions: what of a run's world an experiment sets besides its trace, model and policy: the
// prefix cache, faults, reports, what decisions cost, what policies are told of lengths. Read by
// the Resolver, made into a World's options by world_setup.h. Values; any thread.
#ifndef SCHEDTWIN_EXPERIMENTS_RUN_OPTIONS_H_
#define SCHEDTWIN_EXPERIMENTS_RUN_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/experiment.h"
#include "policies/api/device.h"
#include "policies/api/time.h"
#include "policies/runtime/world.h"

namespace schedtwin {

using MeasuredDecisions = std::vector<Duration>;

struct RunOptions {
  bool prefix_cache = false;
  bool isolate_tenants = false;
  std::uint64_t tie_seed = 0;  ///< 0: ties are not shuffled
  Duration decision_cost;
  std::shared_ptr<const MeasuredDecisions> measured_decisions;  ///< null: `decision_cost` is all
  Duration report_interval;                                     ///< zero: never
  Duration report_delay;
  std::vector<Fault> faults;
  std::uint32_t devices_at_start = 0;  ///< 0: all
  std::string length_predictor;        ///< empty: none
  bool oracle_granted = false;
  bool oracle = false;  ///< policies are told true output lengths
};

/// Reads all but decision_cost, and what the devices are told: queue depth and host tier.
/// `device` says what the model's own devices are. `real`: of a run that is not simulated.
absl::Status ReadRunOptions(const Experiment& experiment, bool real, std::uint32_t devices,
                            DeviceInfo* device, RunOptions* out);

/// The decisions of a run in the results file `db`, and that run's number.
struct DecisionsOfRun {
  std::int64_t run = 0;
  std::shared_ptr<const MeasuredDecisions> decisions;
};
/// `run` is as on the command line: "7", "latest". An error if it has none.
absl::StatusOr<DecisionsOfRun> ReadMeasuredDecisions(const std::string& db, std::string_view run);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_RUN_OPTIONS_H_
