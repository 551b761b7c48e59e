#include "exec/execute.h"

#include <sys/prctl.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/cpu_device.h"

namespace schedtwin {
namespace {

// The kernel may delay a sleeper by its timer slack, 50 us by default, to save wakes.
class LeastTimerSlack {
 public:
  LeastTimerSlack() : before_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1UL); }
  ~LeastTimerSlack() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
  LeastTimerSlack(const LeastTimerSlack&) = delete;
  LeastTimerSlack& operator=(const LeastTimerSlack&) = delete;

 private:
  int before_;
};

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

Wait DefaultWait(std::uint32_t devices) {
  return std::thread::hardware_concurrency() > devices ? Wait::kSpin : Wait::kSleep;
}

absl::StatusOr<ExecResult> Execute(const ExecSetup& setup, Policy* policy,
                                   std::span<RequestSource* const> sources, Recorder* recorder,
                                   RecordWants wants) {
  WallClock clock;
  Mailbox mailbox;
  std::vector<std::unique_ptr<CpuDevice>> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
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
  const LeastTimerSlack slack;
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
  }
  return result;
}

}  // namespace schedtwin
