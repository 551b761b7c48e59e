#include "sim/model_device.h"

#include <algorithm>
#include <utility>

namespace schedtwin {

ModelDevice::ModelDevice(DeviceInfo info, const StepTimeModel* model)
    : info_(std::move(info)), model_(model) {}

void ModelDevice::Attach(DeviceId id, CommandRing* commands, ReplySink* replies) {
  id_ = id;
  commands_ = commands;
  replies_ = replies;
}

void ModelDevice::Notify(Time now) {
  commands_->Drain([this, now](const DeviceCommand& command) {
    switch (command.kind) {
      case CommandKind::kJoin:
        ++standing_;
        standing_context_tokens_ += command.context_tokens;
        break;
      case CommandKind::kLeave:
        --standing_;
        standing_context_tokens_ -= command.context_tokens;
        break;
      case CommandKind::kBlock:
      case CommandKind::kEnd:
        break;
      case CommandKind::kEntry:
        AddEntry(command);
        break;
      case CommandKind::kStep:
        RunStep(command, now);
        break;
    }
  });
}

void ModelDevice::AddEntry(const DeviceCommand& command) {
  if (info_.kind == ModelKind::kOneShot) {
    step_.units += command.tokens;
  } else if (command.decode) {
    ++step_.decode_tokens;
    step_.decode_context_tokens += command.context_tokens + 1;
  } else {
    prefills_.push_back({command.tokens, command.context_tokens});
  }
}

void ModelDevice::RunStep(const DeviceCommand& command, Time now) {
  if (command.standing) standing_context_tokens_ += standing_;  // each member's new token
  Duration took;
  if (command.entries == 0 && command.tokens == 0) {
    took = model_->PredictDecode(standing_, standing_context_tokens_);
  } else {
    if (command.standing) {
      step_.decode_tokens += standing_;
      step_.decode_context_tokens += standing_context_tokens_;
    }
    step_.padding_tokens = command.tokens;
    step_.prefills = prefills_;
    took = model_->Predict(step_);
    step_ = StepShape{};
    prefills_.clear();
  }
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
