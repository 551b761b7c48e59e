// ModelDevice: a simulated device. It runs one step at a time, in the order of its commands, each
// for as long as the profile's step-time model says, and posts the result for the instant at which
// the step ends. It knows of requests only what the messages say (step_builder.h).
//
// Owned by whoever sets up the run; policy thread. Deterministic: draws nothing.
#ifndef SCHEDTWIN_SIM_MODEL_DEVICE_H_
#define SCHEDTWIN_SIM_MODEL_DEVICE_H_

#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {

class ModelDevice final : public DevicePort {
 public:
  /// `model` outlives this and may be shared by any number of devices.
  ModelDevice(DeviceInfo info, const StepTimeModel* model);

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override;
  void Notify(Time now) override;

 private:
  void RunStep(const DeviceCommand& command, Time now);

  DeviceInfo info_;
  const StepTimeModel* model_;
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
  Time free_at_;
  StepBuilder builder_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_MODEL_DEVICE_H_
