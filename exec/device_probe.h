// DeviceProbe: a CPU device as calibration asks for it: one step at a time, alone, over the same
// message seam, thread and clock as in a run, so that what is measured is what a run pays. Owns the
// device. One thread, the caller's, plays the policy thread.
#ifndef SCHEDTWIN_EXEC_DEVICE_PROBE_H_
#define SCHEDTWIN_EXEC_DEVICE_PROBE_H_

#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "exec/cpu_device.h"
#include "exec/mailbox.h"
#include "exec/step_probe.h"
#include "exec/step_runner.h"
#include "exec/wall_clock.h"
#include "exec/wall_time.h"
#include "policies/runtime/command_sender.h"

namespace schedtwin {

class DeviceProbe final : public StepProbe, private ReplySink {
 public:
  /// Makes the device. The error is what its runner threw.
  static absl::StatusOr<std::unique_ptr<DeviceProbe>> Start(const MakeStepRunner& make, Wait wait);

  DeviceInfo info() const override { return device_->info(); }
  /// After an error the device is gone, and every later step gets the same error.
  absl::StatusOr<ProbeTimes> Run(std::span<const ProbeEntry> entries,
                                 std::uint32_t padding_tokens) override;

 private:
  explicit DeviceProbe(Wait wait);

  void Post(const DeviceReply& reply, Time due) override;
  /// Gives each entry's request the blocks it needs, which is no part of the step.
  void LayOut(std::span<const ProbeEntry> entries);
  absl::StatusOr<DeviceReply> RunStep(std::uint32_t entries, std::uint32_t padding_tokens);

  WallClock clock_;
  Mailbox mailbox_;
  WallTimeSource time_source_;
  DeviceReply reply_;
  bool answered_ = false;
  std::uint32_t steps_ = 0;
  std::unique_ptr<CpuDevice> device_;  ///< ends before what it answers to
  Time now_;
  std::optional<CommandSender> sender_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_DEVICE_PROBE_H_
