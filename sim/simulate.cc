#include "sim/simulate.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "policies/profile/profile.h"
#include "sim/model_device.h"
#include "sim/virtual_time.h"

namespace schedtwin {

namespace {

Link LinkOf(const ProfileLink& link) {
  return {Duration::Nanos(static_cast<std::int64_t>(link.latency_ns)), link.bytes_per_second};
}

}  // namespace

DeviceInfo DeviceInfoOf(const Profile& profile) {
  DeviceInfo info;
  info.name = profile.device;
  info.kind = profile.kind;
  info.max_step_tokens = profile.kind == ModelKind::kOneShot ? profile.max_units : 0;
  info.max_model_len_tokens = profile.max_model_len_tokens;
  info.total_blocks = profile.kv_blocks;
  info.block_tokens = profile.block_tokens;
  info.block_bytes = profile.block_bytes;
  info.host_blocks = profile.host_blocks;
  if (profile.layers > 0) info.layers = profile.layers;
  info.host_link = LinkOf(profile.host_link);
  info.peer_link = LinkOf(profile.peer_link);
  info.load_link = LinkOf(profile.load_link);
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
