#include "sim/model_device.h"

#include <algorithm>
#include <utility>

namespace schedtwin {

ModelDevice::ModelDevice(DeviceInfo info, const StepTimeModel* model)
    : info_(std::move(info)), model_(model), builder_(info_.kind) {}

void ModelDevice::Attach(DeviceId id, CommandRing* commands, ReplySink* replies) {
  id_ = id;
  commands_ = commands;
  replies_ = replies;
}

void ModelDevice::Notify(Time now) {
  commands_->Drain([this, now](const DeviceCommand& command) {
    if (command.kind == CommandKind::kStep) {
      RunStep(command, now);
    } else {
      builder_.Take(command);
    }
  });
}

void ModelDevice::RunStep(const DeviceCommand& command, Time now) {
  const Duration took = builder_.Predict(command, *model_);
  const Time start = std::max(now, free_at_);
  free_at_ = start + took;
  replies_->Post({.kind = ReplyKind::kStepDone,
                  .status = ReplyStatus::kOk,
                  .device = id_,
                  .plan = command.plan,
                  .step = command.step,
                  .start = start,
                  .end = free_at_,
                  .predicted_ns = took.ns(),
                  .compute_ns = -1},
                 free_at_);
}

}  // namespace schedtwin
