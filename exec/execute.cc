#include "exec/execute.h"

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/cpu_device.h"

namespace schedtwin {
namespace {

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

/// All stop before the first is destroyed: they copy from one another.
struct Devices {
  ~Devices() {
    for (const std::unique_ptr<CpuDevice>& device : all) device->Stop();
  }
  std::vector<std::unique_ptr<CpuDevice>> all;
};

absl::Status StartDevices(const ExecSetup& setup, Mailbox* mailbox, const WallClock* clock,
                          Devices* devices) {
  std::vector<MakeStepRunner> models = setup.make_models;
  if (models.empty()) models.push_back(setup.make_runner);
  const std::uint32_t at_start =
      setup.world.devices_at_start == 0 ? setup.devices : setup.world.devices_at_start;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
    if (setup.world.stop != nullptr && setup.world.stop->load()) {
      return absl::CancelledError("interrupted while the devices were made");
    }
    auto device = CpuDevice::Start(models, i < at_start ? setup.loaded_models : 0, mailbox, clock,
                                   setup.model);
    if (!device.ok()) {
      return absl::Status(device.status().code(),
                          absl::StrCat("device ", i, ": ", device.status().message()));
    }
    devices->all.push_back(*std::move(device));
  }
  for (const std::unique_ptr<CpuDevice>& device : devices->all) device->SetPeers(devices->all);
  return absl::OkStatus();
}

}  // namespace

Wait DefaultWait(std::uint32_t devices) {
  return std::thread::hardware_concurrency() > devices ? Wait::kSpin : Wait::kSleep;
}

absl::StatusOr<ExecResult> Execute(const ExecSetup& setup, Policy* policy,
                                   std::span<RequestSource* const> sources, Recorder* recorder,
                                   RecordWants wants) {
  // In the order in which they must be made: the World is taken down first, then the workers end
  // (one may still be at a step, which is cut, and puts its reply where nobody reads it), then the
  // mailbox.
  WallClock clock;
  Mailbox mailbox;
  Devices devices;
  if (absl::Status status = StartDevices(setup, &mailbox, &clock, &devices); !status.ok()) {
    return status;
  }
  std::vector<DeviceSetup> setups;
  for (const std::unique_ptr<CpuDevice>& device : devices.all) {
    setups.push_back({device.get(), setup.model});
  }
  WorldOptions options = setup.world;
  options.identify_blocks = true;  // real memory has real blocks
  WallTimeSource time_source(&clock, &mailbox, setup.wait);
  World world(options, policy, &time_source, setups, sources, recorder, wants);
  clock.Start();
  const std::int64_t cpu_before = ThreadCpuNs();
  ExecResult result;
  result.summary = world.Run();
  result.policy_thread_s = Seconds(ThreadCpuNs() - cpu_before);
  result.wall_s = Seconds(clock.Now().ns());
  if (result.summary.result == RunResult::kFailed) {
    for (std::size_t i = 0; i < devices.all.size(); ++i) {
      const std::string failure = devices.all[i]->failure();
      if (!failure.empty()) return absl::AbortedError(absl::StrCat("device ", i, ": ", failure));
    }
    return absl::AbortedError(result.summary.detail);
  }
  return result;
}

}  // namespace schedtwin
