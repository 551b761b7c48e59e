// SleepingRunner: a device that only pretends to compute: it sleeps for as long as a step is to
// take, layer by layer, and can be told to fail. For tests and benchmarks of what is around a
// device. Worker's thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_SLEEPING_RUNNER_H_
#define SCHEDTWIN_TESTS_SUPPORT_SLEEPING_RUNNER_H_

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "exec/step_runner.h"

namespace schedtwin {

class SleepingRunner final : public StepRunner {
 public:
  /// `throw_at`: the step, from 0, that throws; -1: none.
  SleepingRunner(DeviceInfo info, Duration step, int throw_at)
      : info_(std::move(info)), step_(step), throw_at_(throw_at) {}

  DeviceInfo info() const override { return info_; }
  bool Load(StopCheck) override { return true; }
  void Unload() override {}
  void Take(const DeviceCommand&) override {}
  bool RunStep(const DeviceCommand&, StopCheck stop) override {
    if (steps_++ == throw_at_) throw std::runtime_error("the fan has stopped");
    for (std::uint32_t layer = 0; layer < info_.layers; ++layer) {
      if (stop()) return false;
      std::this_thread::sleep_for(std::chrono::nanoseconds(step_.ns() / info_.layers));
    }
    return true;
  }

 private:
  DeviceInfo info_;
  Duration step_;
  int throw_at_;
  int steps_ = 0;
};

inline MakeStepRunner MakeSleepingRunner(const DeviceInfo& info, Duration step, int throw_at = -1) {
  return [=] { return std::make_unique<SleepingRunner>(info, step, throw_at); };
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_SLEEPING_RUNNER_H_
