#include "exec/execute.h"

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

}  // namespace

Wait DefaultWait(std::uint32_t devices) {
  return std::thread::hardware_concurrency() > devices ? Wait::kSpin : Wait::kSleep;
}

absl::StatusOr<ExecResult> Execute(const ExecSetup& setup, Policy* policy,
                                   std::span<RequestSource* const> sources, Recorder* recorder,
                                   RecordWants wants) {
  // In the order in which they must be made: the World is taken down first, then the workers end
  // (one may still be at a step, and puts its reply where nobody reads it), then the mailbox.
  WallClock clock;
  Mailbox mailbox;
  std::vector<std::unique_ptr<CpuDevice>> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
    if (setup.world.stop != nullptr && setup.world.stop->load()) {
      return absl::CancelledError("interrupted while the devices were made");
    }
    auto device = CpuDevice::Start(setup.make_runner, &mailbox, &clock, setup.model);
    if (!device.ok()) {
      return absl::Status(device.status().code(),
                          absl::StrCat("device ", i, ": ", device.status().message()));
    }
    devices.push_back(*std::move(device));
    setups.push_back({devices.back().get(), setup.model});
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
    for (std::uint32_t i = 0; i < devices.size(); ++i) {
      const std::string failure = devices[i]->failure();
      if (!failure.empty()) return absl::AbortedError(absl::StrCat("device ", i, ": ", failure));
    }
    return absl::AbortedError(result.summary.detail);
  }
  return result;
}

}  // namespace schedtwin
