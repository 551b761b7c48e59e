#include "sim/simulate.h"

#include <deque>
#include <string>
#include <vector>

#include "policies/profile/profile.h"
#include "sim/model_device.h"
#include "sim/virtual_time.h"

namespace schedtwin {

DeviceInfo DeviceInfoOf(const Profile& profile) {
  DeviceInfo info;
  info.name = profile.device;
  info.kind = profile.kind;
  info.max_step_tokens = profile.kind == ModelKind::kOneShot ? profile.max_units : 0;
  info.max_model_len_tokens = profile.max_model_len_tokens;
  info.total_blocks = profile.kv_blocks;
  info.block_tokens = profile.block_tokens;
  if (profile.kind == ModelKind::kDecoder) info.layers = profile.layers;
  return info;
}

RunSummary Simulate(const SimSetup& setup, Policy* policy, std::span<RequestSource* const> sources,
                    Recorder* recorder, RecordWants wants) {
  std::vector<const StepTimeModel*> models = {setup.model};
  models.insert(models.end(), setup.more_models.begin(), setup.more_models.end());
  VirtualTimeSource time_source;
  std::deque<ModelDevice> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
    devices.emplace_back(setup.device, models);
    setups.push_back({&devices.back(), setup.model, setup.more_models});
  }
  World world(setup.world, policy, &time_source, setups, sources, recorder, wants);
  return world.Run();
}

}  // namespace schedtwin
