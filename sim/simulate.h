// Simulate: one run in the simulated world, from a profile to a summary. Sets up virtual time,
// model devices and a World, runs it, and takes everything down; nothing outlives the call, so any
// number run at once in different threads, sharing the constant profile and model.
#ifndef SCHEDTWIN_SIM_SIMULATE_H_
#define SCHEDTWIN_SIM_SIMULATE_H_

#include <cstdint>
#include <span>

#include "policies/api/policy.h"
#include "policies/api/recorder.h"
#include "policies/api/source.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/world.h"

namespace schedtwin {

struct Profile;

struct SimSetup {
  const StepTimeModel* model = nullptr;  ///< outlives the call
  DeviceInfo device;                     ///< each of the devices
  std::uint32_t devices = 1;
  WorldOptions world;
  /// Of the models after the first, in the order of `world.models`.
  std::span<const StepTimeModel* const> more_models = {};
};

/// What a device of this profile says of itself.
DeviceInfo DeviceInfoOf(const Profile& profile);

/// Runs to the end. Deterministic given the setup, the policy and the sources.
RunSummary Simulate(const SimSetup& setup, Policy* policy, std::span<RequestSource* const> sources,
                    Recorder* recorder, RecordWants wants);

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_SIMULATE_H_
