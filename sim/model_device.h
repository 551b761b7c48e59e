// ModelDevice: a simulated device. It runs one step at a time, in the order of its commands, each
// for as long as the profile's step-time model says, and posts the result for the instant at which
// the step ends. Copies and loads take what the device's links say: each way is a line of its own
// beside the steps (a copy that is blocking has its place between them). It knows of requests only
// what the messages say (step_builder.h).
//
// A step that is cut ends at the instant of the command, or at the end of the layer that runs then;
// its layers take equal parts of what is left of the step without the host's overhead.
//
// Owned by whoever sets up the run; policy thread. Deterministic: draws nothing.
#ifndef SCHEDTWIN_SIM_MODEL_DEVICE_H_
#define SCHEDTWIN_SIM_MODEL_DEVICE_H_

#include <span>
#include <utility>
#include <vector>

#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {

class ModelDevice final : public DevicePort {
 public:
  /// A step-time model for each of the run's models, which outlive this and may be shared by any
  /// number of devices. REQUIRES: at least one.
  ModelDevice(DeviceInfo info, std::span<const StepTimeModel* const> models);

  /// Of a run of one model.
  ModelDevice(DeviceInfo info, const StepTimeModel* model)
      : ModelDevice(std::move(info), std::span(&model, 1)) {}

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override;
  void Notify(Time now) override;

 private:
  /// An operation whose end has been posted.
  struct Posted {
    PlanId handle;
    Time start;
    Time end;
    Time* line;  ///< what it has reserved
  };

  void RunStep(const DeviceCommand& command, Time now);
  void Abort(const DeviceCommand& command, Time now);
  void Copy(const DeviceCommand& command, Time now);
  void Load(const DeviceCommand& command, Time now);
  void Cancel(const DeviceCommand& command, Time now);
  /// An operation that takes `took`, in the line that is free at `*line`.
  void Operate(const DeviceCommand& command, Time now, Duration took, Time* line);
  void PostOperation(PlanId handle, ReplyStatus status, Time start, Time end);

  DeviceInfo info_;
  std::vector<const StepTimeModel*> models_;
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
  StepBuilder builder_;

  Time free_at_;       ///< the steps' line
  Time out_free_at_;   ///< copies to the host tier
  Time in_free_at_;    ///< copies into the device, from its host tier or from another device
  Time load_free_at_;  ///< weights
  DeviceReply step_;   ///< posted last
  Duration overhead_;  ///< the host's part of it
  std::vector<Posted> posted_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_MODEL_DEVICE_H_
