#include "sim/model_device.h"

#include <algorithm>
#include <utility>

namespace schedtwin {

ModelDevice::ModelDevice(DeviceInfo info, std::span<const StepTimeModel* const> models)
    : info_(std::move(info)), models_(models.begin(), models.end()), builder_(info_.kind) {}

void ModelDevice::Attach(DeviceId id, CommandRing* commands, ReplySink* replies) {
  id_ = id;
  commands_ = commands;
  replies_ = replies;
}

void ModelDevice::Notify(Time now) {
  commands_->Drain([this, now](const DeviceCommand& command) {
    switch (command.kind) {
      case CommandKind::kStep:
        return RunStep(command, now);
      case CommandKind::kAbort:
        return Abort(command, now);
      case CommandKind::kCopy:
        return Copy(command, now);
      case CommandKind::kLoad:
        return Load(command, now);
      case CommandKind::kUnload:
        return Operate(command, now, Duration(), &load_free_at_);
      case CommandKind::kCancel:
        return Cancel(command, now);
      default:
        return builder_.Take(command);
    }
  });
}

// ---- Steps ----

void ModelDevice::RunStep(const DeviceCommand& command, Time now) {
  const StepTimeModel& model = *models_[command.request];
  const Duration took = builder_.Predict(command, model);
  step_.plan = command.plan;
  step_.status = ReplyStatus::kOk;
  step_.device = id_;
  step_.step = command.step;
  step_.start = std::max(now, free_at_);
  step_.end = free_at_ = step_.start + took;
  step_.predicted_ns = took.ns();
  overhead_ = model.host_overhead();
  replies_->Post(step_, free_at_);
}

void ModelDevice::Abort(const DeviceCommand& command, Time now) {
  if (command.plan != step_.plan || command.step != step_.step) return;
  if (step_.status != ReplyStatus::kOk || step_.end <= now) return;
  Time end = std::max(now, step_.start);
  const Time first_layer = step_.start + overhead_;
  if (command.layer && step_.end > first_layer) {
    const std::int64_t all = (step_.end - first_layer).ns();
    const std::int64_t layers = std::max<std::uint32_t>(1, info_.layers);
    const std::int64_t into = std::max<std::int64_t>(0, (end - first_layer).ns());
    // The first layer whose end is not before now.
    const std::int64_t layer = std::max<std::int64_t>(1, (into * layers + all - 1) / all);
    end = first_layer + Duration::Nanos(all * layer / layers);
  }
  if (end >= step_.end) return;  // it is as good as done
  // A blocking copy behind it has its time already.
  if (free_at_ == step_.end) free_at_ = end;
  step_.status = ReplyStatus::kAborted;
  step_.end = end;
  replies_->Post(step_, std::max(end, now));
}

// ---- Operations ----

void ModelDevice::Copy(const DeviceCommand& command, Time now) {
  const bool from_other = command.context_tokens != id_.value;
  const bool out = static_cast<Tier>(command.step) == Tier::kHost;
  const Link& link = from_other ? info_.peer_link : info_.host_link;
  Time* const line = command.blocking ? &free_at_ : out ? &out_free_at_ : &in_free_at_;
  Operate(command, now, link.TimeOf(command.tokens * info_.block_bytes), line);
}

void ModelDevice::Load(const DeviceCommand& command, Time now) {
  const Link& link = command.entries > 0 ? info_.peer_link : info_.load_link;
  // Without a link only a device that starts loads: its models are there at once.
  Operate(command, now, link.exists() ? link.TimeOf(command.bytes()) : Duration(), &load_free_at_);
}

void ModelDevice::Operate(const DeviceCommand& command, Time now, Duration took, Time* line) {
  std::erase_if(posted_, [now](const Posted& operation) { return operation.end < now; });
  const Time start = std::max(now, *line);
  *line = start + took;
  posted_.push_back({command.plan, start, *line, line});
  PostOperation(command.plan, ReplyStatus::kOk, start, *line);
}

void ModelDevice::Cancel(const DeviceCommand& command, Time now) {
  const auto at = std::find_if(posted_.begin(), posted_.end(), [&](const Posted& operation) {
    return operation.handle == command.plan;
  });
  if (at == posted_.end() || at->end <= now) return;
  // What stands in line behind it has its time already; only the last gives its own back.
  if (*at->line == at->end) *at->line = std::max(now, at->start);
  PostOperation(at->handle, ReplyStatus::kAborted, std::min(at->start, now), now);
  posted_.erase(at);
}

void ModelDevice::PostOperation(PlanId handle, ReplyStatus status, Time start, Time end) {
  replies_->Post({.kind = ReplyKind::kOperationDone,
                  .status = status,
                  .device = id_,
                  .plan = handle,
                  .start = start,
                  .end = end},
                 end);
}

}  // namespace schedtwin
