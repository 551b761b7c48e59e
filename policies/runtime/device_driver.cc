#include "policies/runtime/device_driver.h"

#include <algorithm>

#include "policies/runtime/check.h"

namespace schedtwin {

DeviceDriver::DeviceDriver(RunCore* core, const DeviceSetup& setup, ReplySink* replies,
                           DeviceView* view, StandingClock* clock, bool identify_blocks)
    : core_(core),
      info_(setup.port->info()),
      view_(view),
      setup_(setup),
      sender_(setup.port, &core->issue),
      standing_(&core->requests, clock, info_.total_blocks == 0 ? 0 : info_.block_tokens),
      memory_(core, view, &standing_, &sender_, identify_blocks) {
  if (identify_blocks) core->end_listeners.push_back(&sender_);
  setup.port->Attach(view_->id, sender_.ring(), replies);
}

// ---- Standing set ----

Refusal DeviceDriver::Join(std::uint32_t id) {
  if (const Refusal why = core_->requests.WhyNot(id); why != Refusal::kNone) return why;
  const RequestHot& hot = core_->requests.hot(id);
  if (hot.state == RequestState::kStanding) return Refusal::kDuplicateEntry;
  if (memory_.in_transaction()) return Refusal::kBadArgument;
  if (hot.device != view_->id.value) return Refusal::kWrongDevice;
  if (!view_->up()) return Refusal::kDeviceDown;
  if (hot.tier != Tier::kDevice) return Refusal::kOnHost;
  if (info_.kind != ModelKind::kDecoder || hot.known_tokens - hot.scheduled_tokens != 1 ||
      hot.scheduled_tokens < hot.prompt_tokens) {
    return Refusal::kNotDecoding;
  }
  if (hot.scheduled_tokens > memory_.Capacity(hot)) return Refusal::kNoCapacity;
  if (const Refusal why = CheckQueueForJoin(id, hot); why != Refusal::kNone) return why;
  if (core_->models == 1) {
    if (!view_->loaded({0})) return Refusal::kNotLoaded;
  } else {
    const ModelId model = core_->requests.cold(id).model;
    if (!view_->loaded(model)) return Refusal::kNotLoaded;
    if (standing_.size() > 0 && model != standing_model_) return Refusal::kMixedModels;
    standing_model_ = model;
  }
  sender_.Send({.kind = CommandKind::kJoin, .request = id, .context_tokens = hot.scheduled_tokens});
  standing_.Join(id);
  view_->standing = standing_.size();
  return Refusal::kNone;
}

Refusal DeviceDriver::Leave(std::uint32_t id) {
  if (!core_->requests.live(id)) return Refusal::kUnknownRequest;
  const RequestHot& hot = core_->requests.hot(id);
  if (hot.state != RequestState::kStanding) return Refusal::kNotStanding;
  if (hot.device != view_->id.value) return Refusal::kWrongDevice;
  if (memory_.in_transaction()) return Refusal::kBadArgument;
  standing_.Leave(id);
  view_->standing = standing_.size();
  sender_.Send(
      {.kind = CommandKind::kLeave, .request = id, .context_tokens = hot.scheduled_tokens});
  return Refusal::kNone;
}

bool DeviceDriver::GoesOn(const PlanRecord& plan) const {
  if (plan.state != PlanState::kRunning) return true;
  return !plan.cut && (continuing_ || plan.steps_done + 1 < plan.max_steps);
}

Refusal DeviceDriver::CheckQueueForJoin(std::uint32_t id, const RequestHot& hot) const {
  if (hot.in_flight == 0 && info_.max_step_tokens == 0) return Refusal::kNone;
  for (const PlanId queued : queue_) {
    const PlanRecord& plan = *core_->plans.Find(queued);
    if (!GoesOn(plan)) continue;
    std::uint64_t tokens = std::uint64_t{plan.padding_tokens} + standing_.size() + 1;
    for (std::size_t i = 0; i < plan.entries.size(); ++i) {
      if (plan.entries[i].request.value == id && plan.marks[i].epoch == hot.epoch) {
        return Refusal::kDuplicateEntry;  // it would run twice in one step
      }
      tokens += plan.entries[i].tokens;
    }
    if (plan.standing && info_.max_step_tokens > 0 && tokens > info_.max_step_tokens) {
      return Refusal::kBatchTooLarge;
    }
  }
  return Refusal::kNone;
}

void DeviceDriver::Detach(std::uint32_t id) {
  if (core_->requests.hot(id).in_flight > 0) Unqueue(id);
  if (core_->requests.hot(id).state == RequestState::kStanding) Leave(id);
  memory_.Drop(id);
}

// ---- Queue ----

void DeviceDriver::StartIfIdle() {
  while (running_ == nullptr && !queue_.empty()) {
    const PlanId id = queue_.front();
    PlanRecord& plan = *core_->plans.Find(id);
    if (!ReadyToRun(id, plan)) return;
    if (core_->now > plan.latest) {
      DropHead(PlanEnd::kMissed);
      continue;
    }
    if (plan.entries.empty() && (!plan.standing || standing_.size() == 0)) {
      DropHead(PlanEnd::kEmpty);
      continue;
    }
    const std::uint32_t growth = plan.standing ? standing_.Growth() : 0;
    if (growth > view_->free_blocks) {
      DropHead(PlanEnd::kMemory);
      continue;
    }
    plan.state = PlanState::kRunning;
    plan.start = core_->now;
    running_ = &plan;
    Submit(id, plan, growth);
  }
}

bool DeviceDriver::ReadyToRun(PlanId id, PlanRecord& plan) {
  if (plan.state == PlanState::kStarting) return false;
  if (core_->now < plan.earliest) {
    core_->events.Cancel(retry_);
    retry_ = core_->Push(plan.earliest, EventClass::kPlanStarting, view_->id.value,
                         {EventKind::kPlanRetry, view_->id.value, id.word()});
    return false;
  }
  if (plan.late_binding && plan.state == PlanState::kQueued) {
    plan.state = PlanState::kStarting;
    core_->Push(core_->now, EventClass::kPlanStarting, view_->id.value,
                {EventKind::kPlanStarting, view_->id.value, id.word()});
    return false;
  }
  return true;
}

void DeviceDriver::Bind(PlanId id) {
  PlanRecord* plan = core_->plans.Find(id);
  if (plan != nullptr && plan->state == PlanState::kStarting) plan->state = PlanState::kBound;
  StartIfIdle();
}

void DeviceDriver::DropHead(PlanEnd why) {
  const PlanId id = queue_.front();
  PlanRecord& plan = *core_->plans.Find(id);
  Unpromise(plan);
  plan.state = PlanState::kEnded;
  plan.why = why;
  queue_.erase(queue_.begin());
  for (const Entry& entry : plan.entries) {  // what rests on this plan cannot be kept either
    if (core_->requests.hot(entry.request.value).in_flight > 0) Unqueue(entry.request.value);
  }
  view_->queued = static_cast<std::uint32_t>(queue_.size());
  core_->Push(core_->now, EventClass::kDone, view_->id.value,
              {EventKind::kPlanDropped, view_->id.value, id.word()});
}

const PlanDone& DeviceDriver::DroppedDone(PlanId id) {
  PlanRecord& plan = *core_->plans.Find(id);
  // Nothing has held them since it was dropped: some may have ended and gone.
  std::erase_if(plan.entries,
                [&](const Entry& entry) { return !core_->requests.live(entry.request.value); });
  const Time start = plan.steps_done > 0 ? plan.start : core_->now;
  done_ = {id, view_->id, plan.why, plan.steps_done, start, core_->now, plan.entries, {}};
  return done_;
}

void DeviceDriver::Retire(PlanId id) {
  core_->plans.Remove(id);
  finished_.clear();
}

// ---- Steps ----

void DeviceDriver::Submit(PlanId id, PlanRecord& plan, std::uint32_t standing_growth) {
  if (core_->wants.steps) [[unlikely]]
    step_ = ShapeOf(plan);
  if (!plan.entries.empty()) SubmitEntries(plan);
  if (plan.standing) {
    if (standing_growth > 0) memory_.GrowStanding(standing_growth);
    standing_.OnStepSubmitted();
  }
  memory_.OnStepSubmitted();
  view_->step_started = core_->issue;
  sender_.Send({.kind = CommandKind::kStep,
                .standing = plan.standing,
                .request = plan.model.value,
                .tokens = plan.padding_tokens,
                .plan = id,
                .step = plan.steps_done,
                .entries = static_cast<std::uint32_t>(plan.entries.size())});
  sender_.Notify();
}

bool DeviceDriver::Decodes(const RequestHot& hot, const Entry& entry, const EntryMark& mark) const {
  return info_.kind == ModelKind::kDecoder && entry.tokens == 1 && mark.samples &&
         mark.context_tokens >= hot.prompt_tokens;
}

void DeviceDriver::SubmitEntries(const PlanRecord& plan) {
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const Entry& entry = plan.entries[i];
    sender_.Send({.kind = CommandKind::kEntry,
                  .decode = Decodes(core_->requests.hot(entry.request.value), entry, plan.marks[i]),
                  .samples = plan.marks[i].samples,
                  .request = entry.request.value,
                  .tokens = entry.tokens,
                  .context_tokens = plan.marks[i].context_tokens});
  }
}

DeviceDriver::StepInFlight DeviceDriver::ShapeOf(const PlanRecord& plan) const {
  StepInFlight step;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const Entry& entry = plan.entries[i];
    if (info_.kind == ModelKind::kOneShot) {
      step.units += entry.tokens;
    } else if (Decodes(core_->requests.hot(entry.request.value), entry, plan.marks[i])) {
      ++step.decode_tokens;
      step.decode_context_tokens += plan.marks[i].context_tokens + 1;
    } else {
      ++step.prefill_requests;
      step.prefill_tokens += entry.tokens;
    }
  }
  if (plan.standing) {
    step.decode_tokens += standing_.size();
    step.decode_context_tokens += standing_.context_tokens();
  }
  return step;
}

bool DeviceDriver::OnStepDone(const DeviceReply& reply) {
  SCHEDTWIN_CHECK(running_ != nullptr && queue_.front() == reply.plan);
  SCHEDTWIN_CHECK(reply.status == ReplyStatus::kOk && reply.step == running_->steps_done);
  PlanRecord& plan = *running_;
  const std::uint32_t steps_done = ++plan.steps_done;
  ++core_->steps;
  core_->progress += plan.standing && standing_.size() > 0;  // they make tokens
  memory_.OnStepEnded();
  if (steps_done == 1) plan.start = reply.start;
  if (plan.standing) {
    standing_.OnStepDone(reply.end, &finished_ids_, &departed_);
    if (!departed_.empty()) [[unlikely]]
      BookDeparted(reply.end);
  }
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    BookEntry(plan.entries[i], plan.marks[i], reply);
  }
  core_->CountIdleStep();
  const bool finishes = !finished_ids_.empty();
  if (finishes) FinishRequests(reply.end);
  if (core_->wants.steps) [[unlikely]]
    RecordStep(reply);
  if (finishes) {
    EndPlan(PlanEnd::kFinish, reply.end);
    return true;
  }
  if (steps_done >= plan.max_steps || plan.cut) {
    EndPlan(steps_done >= plan.max_steps ? PlanEnd::kSteps : PlanEnd::kCut, reply.end);
    return true;
  }
  continuing_ = true;
  boundary_ = reply.end;
  return false;
}

void DeviceDriver::BookDeparted(Time end) {
  for (const DepartedToken& token : departed_) {
    if (token.last) --core_->requests.hot(token.id).in_flight;
    if (!core_->requests.live(token.id)) continue;
    core_->requests.fate(token.id).last_device = view_->id.value;
    BookToken(token.id, end);
  }
  departed_.clear();
}

void DeviceDriver::BookEntry(const Entry& entry, const EntryMark& mark, const DeviceReply& reply) {
  const std::uint32_t id = entry.request.value;
  if (!core_->requests.live(id)) return;
  RequestFate& fate = core_->requests.fate(id);
  fate.first_start = std::min(fate.first_start, reply.start);
  fate.last_device = view_->id.value;
  const std::uint32_t computed = mark.context_tokens + entry.tokens;
  if (computed > fate.most_computed_tokens) {
    fate.most_computed_tokens = computed;
    ++core_->progress;
  }
  if (info_.kind == ModelKind::kOneShot) {
    finished_ids_.push_back(id);
  } else if (mark.samples) {
    BookToken(id, reply.end);
  }
  if (memory_.caches() && mark.epoch == core_->requests.hot(id).epoch) {
    memory_.OnComputed(id, mark.context_tokens + entry.tokens);
  }
}

void DeviceDriver::BookToken(std::uint32_t id, Time end) {
  RequestHot& hot = core_->requests.hot(id);
  RequestFate& fate = core_->requests.fate(id);
  ++hot.output_tokens;
  fate.token_hash += TokenWord(end);
  if (fate.first_token.infinite()) fate.first_token = end;
  fate.last_token = end;
  const RequestView view(hot, core_->requests.cold(id), standing_.clock());
  if (view.output_tokens() >= fate.limit_tokens) finished_ids_.push_back(id);
}

void DeviceDriver::FinishRequests(Time end) {
  std::sort(finished_ids_.begin(), finished_ids_.end());
  for (const std::uint32_t id : finished_ids_) {
    Detach(id);
    RequestHot& hot = core_->requests.hot(id);
    if (hot.hold) [[unlikely]] {
      hot.state = RequestState::kHeld;
    } else {
      core_->EndRequest(id, EndReason::kCompleted, end);
    }
    finished_.push_back({id});
  }
  finished_ids_.clear();
}

void DeviceDriver::RecordStep(const DeviceReply& reply) {
  StepRecord record;
  record.device = view_->id;
  record.plan = reply.plan;
  record.step = reply.step;
  record.start = reply.start;
  record.end = reply.end;
  record.decode_tokens = step_.decode_tokens;
  record.prefill_tokens = step_.prefill_tokens;
  record.prefill_requests = step_.prefill_requests;
  record.units = step_.units;
  record.decode_context_tokens = step_.decode_context_tokens;
  record.free_blocks = view_->free_blocks;
  record.predicted_ns = reply.predicted_ns;
  record.compute_ns = reply.compute_ns;
  record.decision_ns = reply.step == 0 ? running_->decision_ns : -1;
  core_->recorder->OnStep(record);
}

bool DeviceDriver::Continue() {
  continuing_ = false;
  PlanRecord& plan = *running_;
  if (plan.cut) {
    EndPlan(PlanEnd::kCut, boundary_);
    return true;
  }
  if (!plan.entries.empty()) DropStale(plan);
  if (plan.entries.empty() && (!plan.standing || standing_.size() == 0)) {
    EndPlan(PlanEnd::kEmpty, boundary_);
    return true;
  }
  const std::uint32_t growth = plan.standing ? standing_.Growth() : 0;
  const std::uint32_t listed_growth = plan.entries.empty() ? 0 : ListedGrowth(plan);
  if (growth + listed_growth > view_->free_blocks && view_->total_blocks > 0) {
    EndPlan(PlanEnd::kMemory, boundary_);
    return true;
  }
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    RequestHot& hot = core_->requests.hot(plan.entries[i].request.value);
    if (hot.scheduled_tokens + 1 > memory_.Capacity(hot)) memory_.GrowListed(hot.id);
    ++plan.marks[i].context_tokens;
    ++hot.scheduled_tokens;
    ++hot.known_tokens;
  }
  if (queue_.size() > 1 && !plan.entries.empty()) MoveBehind(plan);
  Submit(queue_.front(), plan, growth);
  return false;
}

void DeviceDriver::MoveBehind(const PlanRecord& plan) {
  ++core_->plan_serial;
  for (const Entry& entry : plan.entries) {
    core_->requests.fate(entry.request.value).plan_serial = core_->plan_serial;
  }
  for (std::size_t i = 1; i < queue_.size(); ++i) {
    PlanRecord& behind = *core_->plans.Find(queue_[i]);
    for (std::size_t k = 0; k < behind.entries.size(); ++k) {
      const RequestFate& fate = core_->requests.fate(behind.entries[k].request.value);
      behind.marks[k].context_tokens += fate.plan_serial == core_->plan_serial;
    }
  }
}

std::uint32_t DeviceDriver::ListedGrowth(const PlanRecord& plan) const {
  std::uint32_t growth = 0;
  for (const Entry& entry : plan.entries) {
    const RequestHot& hot = core_->requests.hot(entry.request.value);
    growth += hot.scheduled_tokens + 1 > memory_.Capacity(hot);
  }
  return growth;
}

void DeviceDriver::EndPlan(PlanEnd why, Time end) {
  const PlanId id = queue_.front();
  PlanRecord& plan = *running_;
  for (const Entry& entry : plan.entries) --core_->requests.hot(entry.request.value).in_flight;
  queue_.erase(queue_.begin());
  view_->queued = static_cast<std::uint32_t>(queue_.size());
  running_ = nullptr;
  plan.state = PlanState::kEnded;  // unknown from here on, even while its PlanDone is delivered
  done_ = {id, view_->id, why, plan.steps_done, plan.start, end, plan.entries, finished_};
  if (!queue_.empty()) StartIfIdle();
}

}  // namespace schedtwin
