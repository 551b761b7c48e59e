// How a plan ends before its time: cut at the end of its step, or in the middle of one, or with its
// device. A step that was cut makes nothing, and everything it had promised is taken back.
#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"

namespace schedtwin {

Refusal DeviceDriver::Abort(PlanId id, AbortAt where) {
  PlanRecord* plan = core_->plans.Find(id);
  if (plan == nullptr || plan->state != PlanState::kRunning) return Refusal::kUnknownPlan;
  if (where != AbortAt::kStep && memory_.in_transaction()) return Refusal::kBadArgument;
  plan->cut = true;  // whatever else: the step may be over before it can be cut
  if (where == AbortAt::kStep || continuing_) return Refusal::kNone;
  sender_.Send({.kind = CommandKind::kAbort,
                .layer = where == AbortAt::kLayer,
                .plan = id,
                .step = plan->steps_done});
  sender_.Notify();
  return Refusal::kNone;
}

void DeviceDriver::OnStepAborted(const DeviceReply& reply) {
  SCHEDTWIN_CHECK(running_ != nullptr && queue_.front() == reply.plan && !continuing_);
  if (running_->steps_done == 0) running_->start = reply.start;
  RollBackStep(*running_);
  core_->CountIdleStep();
  EndPlan(PlanEnd::kAborted, reply.end);
}

void DeviceDriver::RollBackStep(PlanRecord& plan) {
  memory_.OnStepEnded();
  if (plan.standing) {
    while (standing_.size() > 0) Leave(standing_.members().back());
    // Promises of the plans behind rest on those of this step.
    standing_.ForEachDeparted([this](std::uint32_t id) {
      if (core_->requests.live(id)) Unqueue(id);
    });
    standing_.OnStepAborted();
  }
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const std::uint32_t id = plan.entries[i].request.value;
    if (!core_->requests.live(id)) continue;
    RequestHot& hot = core_->requests.hot(id);
    if (hot.state == RequestState::kStanding) Leave(id);
    Unqueue(id);
    hot.known_tokens -= plan.marks[i].samples;
    if (hot.epoch == plan.marks[i].epoch) hot.scheduled_tokens -= plan.entries[i].tokens;
  }
}

void DeviceDriver::Fail() {
  if (running_ != nullptr && !continuing_) {
    sender_.Send(
        {.kind = CommandKind::kAbort, .plan = queue_.front(), .step = running_->steps_done});
    lost_reply_ = true;
    RollBackStep(*running_);
  }
  const std::vector<PlanId> plans = queue_;
  for (auto id = plans.rbegin(); id != plans.rend(); ++id) {  // promises rest on those before
    PlanRecord& plan = *core_->plans.Find(*id);
    if (&plan == running_) {
      for (const Entry& entry : plan.entries) --core_->requests.hot(entry.request.value).in_flight;
    } else {
      Unpromise(plan);
    }
    plan.state = PlanState::kEnded;
    plan.why = PlanEnd::kFailed;
  }
  queue_.clear();
  running_ = nullptr;
  continuing_ = false;
  view_->queued = 0;
  while (standing_.size() > 0) Leave(standing_.members().back());
  for (const PlanId id : plans) {
    core_->Push(core_->now, EventClass::kDone, view_->id.value,
                {EventKind::kPlanDropped, view_->id.value, id.word()});
  }
  if (lost_reply_) sender_.Notify();
}

}  // namespace schedtwin
