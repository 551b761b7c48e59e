// Execute: one run for real, from a policy and a kind of device to a summary. Starts the devices'
// workers, waits until each is ready, starts the clock, runs a World on the calling thread (the
// policy thread), and takes everything down. Blocks for as long as the run takes.
#ifndef SCHEDTWIN_EXEC_EXECUTE_H_
#define SCHEDTWIN_EXEC_EXECUTE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/step_runner.h"
#include "exec/wall_time.h"
#include "policies/api/policy.h"
#include "policies/api/recorder.h"
#include "policies/api/source.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/world.h"

namespace schedtwin {

struct ExecSetup {
  MakeStepRunner make_runner;
  std::vector<MakeStepRunner> make_models;  ///< by model number; empty: `make_runner` makes the one
  /// Bit m: devices that are there at the start have model m loaded then. Others start with none.
  std::uint64_t loaded_models = ~std::uint64_t{0};
  std::uint32_t devices = 1;
  const StepTimeModel* model = nullptr;  ///< for predictions; null: none. Outlives the call
  Wait wait = Wait::kSleep;
  WorldOptions world;  ///< identify_blocks is set by Execute
};

struct ExecResult {
  RunSummary summary;
  double wall_s = 0;           ///< the loop
  double policy_thread_s = 0;  ///< CPU time of the policy thread during the loop
};

/// Wait::kSpin where a core is left over for the policy thread, else Wait::kSleep.
Wait DefaultWait(std::uint32_t devices);

/// Runs to the end. An error if a device cannot be made, or fails during the run; the text says
/// which and why.
absl::StatusOr<ExecResult> Execute(const ExecSetup& setup, Policy* policy,
                                   std::span<RequestSource* const> sources, Recorder* recorder,
                                   RecordWants wants);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_EXECUTE_H_
