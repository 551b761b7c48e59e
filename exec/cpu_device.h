// CpuDevice: a real device: one worker thread behind the message seam. Commands are gathered on the
// policy thread and handed over with the step they belong to; the worker takes them, runs the step,
// and answers through the mailbox with the step's own times. The policy thread never waits for it.
//
// Made before the run and destroyed after its World; the destructor waits for a step that runs.
// Allocates nothing per step once its buffers have held the largest.
#ifndef SCHEDTWIN_EXEC_CPU_DEVICE_H_
#define SCHEDTWIN_EXEC_CPU_DEVICE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/mailbox.h"
#include "exec/step_runner.h"
#include "exec/wall_clock.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {

class CpuDevice final : public DevicePort {
 public:
  /// Starts the worker and waits until it has made its runner. `mailbox`, `clock` and `model`
  /// (null: no predictions) outlive the device. The error says what the runner's making threw.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Start(MakeStepRunner make, Mailbox* mailbox,
                                                          const WallClock* clock,
                                                          const StepTimeModel* model);
  ~CpuDevice() override;

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override;
  void Notify(Time now) override;

  /// What a step threw, once a reply has said kFailed.
  std::string failure() const;

 private:
  CpuDevice(Mailbox* mailbox, const WallClock* clock, const StepTimeModel* model);

  void Work(const MakeStepRunner& make);
  /// False: the device is to end.
  bool AwaitBatch();
  void RunBatch(StepRunner& runner);
  /// What the model says of the step alone, as it is measured: without the host's part.
  Duration Predict(const DeviceCommand& step);
  void Fail(const std::string& what);

  Mailbox* mailbox_;
  const WallClock* clock_;
  const StepTimeModel* model_;
  DeviceInfo info_;

  // Policy thread.
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  std::vector<DeviceCommand> gathered_;  ///< up to the next step

  // Worker.
  std::vector<DeviceCommand> batch_;
  std::optional<StepBuilder> builder_;  ///< once the runner is made

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<DeviceCommand> handed_over_;  ///< with a step at its end; empty: none
  bool started_ = false;
  bool ending_ = false;
  absl::Status start_status_;
  std::string failure_;

  std::thread worker_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_CPU_DEVICE_H_
