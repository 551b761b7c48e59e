// What makes a plan acceptable, and the promises that an accepted plan makes of its requests.
#include <algorithm>

#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"

namespace schedtwin {

Launched DeviceDriver::Launch(const Plan& plan) {
  if (view_->depth_left() == 0) {
    return {{}, view_->up() ? Refusal::kQueueFull : Refusal::kDeviceDown, 0};
  }
  Launched answer = Check(plan);
  if (!answer.ok()) return answer;
  answer.id = core_->plans.Add();
  PlanRecord& record = *core_->plans.Find(answer.id);
  record.device = view_->id;
  record.state = PlanState::kQueued;
  record.steps_done = 0;
  record.cut = false;
  record.model = ModelOf(plan);
  record.decision_ns = -1;
  record.Take(plan);
  Promise(record);
  queue_.push_back(answer.id);
  view_->queued = static_cast<std::uint32_t>(queue_.size());
  core_->to_start.push_back(view_->id.value);
  return answer;
}

Launched DeviceDriver::Check(const Plan& plan) {
  if (memory_.in_transaction() || plan.max_steps == 0) return {{}, Refusal::kBadArgument, 0};
  if (plan.entries.empty() && (!plan.standing || standing_.size() == 0)) {
    return {{}, Refusal::kEmptyPlan, 0};
  }
  if (plan.latest < plan.earliest || plan.latest < core_->now) {
    return {{}, Refusal::kBadWindow, 0};
  }
  if (core_->models == 1 && !view_->loaded({0})) return {{}, Refusal::kNotLoaded, 0};
  if (info_.kind == ModelKind::kOneShot && (plan.standing || plan.max_steps > 1)) {
    return {{}, Refusal::kNotDecoding, 0};
  }
  ++core_->plan_serial;
  std::uint64_t tokens = plan.padding_tokens;
  if (plan.standing) tokens += standing_.size();
  ModelId model = plan.standing && standing_.size() > 0 ? standing_model_ : ModelId{};
  for (std::uint32_t i = 0; i < plan.entries.size(); ++i) {
    const Launched answer = CheckEntry(plan, plan.entries[i], i);
    if (!answer.ok()) return answer;
    if (core_->models > 1) [[unlikely]] {
      const Refusal why = CheckModel(plan.entries[i], &model);
      if (why != Refusal::kNone) return {{}, why, i};
    }
    tokens += plan.entries[i].tokens;
  }
  if (info_.max_step_tokens > 0 && tokens > info_.max_step_tokens) {
    return {{}, Refusal::kBatchTooLarge, 0};
  }
  if (plan.standing && queue_.empty() && view_->total_blocks > 0 &&
      standing_.Growth() > view_->free_blocks) {
    return {{}, Refusal::kNoMemory, 0};
  }
  return {};
}

Launched DeviceDriver::CheckEntry(const Plan& plan, const Entry& entry, std::uint32_t index) {
  const auto refuse = [&](Refusal why) { return Launched{{}, why, index}; };
  const std::uint32_t id = entry.request.value;
  if (const Refusal why = core_->requests.WhyNot(id); why != Refusal::kNone) return refuse(why);
  const RequestHot& hot = core_->requests.hot(id);
  RequestFate& fate = core_->requests.fate(id);
  if (hot.state == RequestState::kStanding || fate.plan_serial == core_->plan_serial) {
    return refuse(Refusal::kDuplicateEntry);
  }
  fate.plan_serial = core_->plan_serial;
  if (hot.device != view_->id.value) {
    if (HeldByDevice(hot)) return refuse(Refusal::kWrongDevice);
    if (view_->state == DeviceState::kDraining) return refuse(Refusal::kDeviceDown);
  }
  if (hot.tier != Tier::kDevice) return refuse(Refusal::kOnHost);
  const std::uint32_t left = hot.known_tokens - hot.scheduled_tokens;
  if (entry.tokens == 0 || entry.tokens > left) return refuse(Refusal::kWrongTokens);
  if (info_.kind == ModelKind::kOneShot) {
    return entry.tokens == left ? Launched{} : refuse(Refusal::kWrongTokens);
  }
  if (plan.max_steps > 1 && (left != 1 || hot.scheduled_tokens < hot.prompt_tokens)) {
    return refuse(Refusal::kNotDecoding);
  }
  if (view_->total_blocks > 0 && (hot.device != view_->id.value ||
                                  hot.scheduled_tokens + entry.tokens > memory_.Capacity(hot))) {
    return refuse(Refusal::kNoCapacity);
  }
  return {};
}

Refusal DeviceDriver::CheckModel(const Entry& entry, ModelId* model) const {
  const ModelId own = core_->requests.cold(entry.request.value).model;
  if (!view_->loaded(own)) return Refusal::kNotLoaded;
  if (model->valid() && own != *model) return Refusal::kMixedModels;
  *model = own;
  return Refusal::kNone;
}

ModelId DeviceDriver::ModelOf(const Plan& plan) const {
  if (core_->models == 1) return {0};
  if (plan.entries.empty()) return standing_model_;
  return core_->requests.cold(plan.entries[0].request.value).model;
}

void DeviceDriver::NoteDecision(Duration took) {
  if (core_->to_start.empty() || core_->to_start.back() != view_->id.value || queue_.empty())
    return;
  core_->plans.Find(queue_.back())->decision_ns = took.ns();
}

bool DeviceDriver::Uses(ModelId model) const {
  if (standing_.size() > 0 && standing_model_ == model) return true;
  return std::any_of(queue_.begin(), queue_.end(),
                     [&](PlanId id) { return core_->plans.Find(id)->model == model; });
}

void DeviceDriver::Promise(PlanRecord& plan) {
  plan.marks.clear();
  for (const Entry& entry : plan.entries) {
    RequestHot& hot = core_->requests.hot(entry.request.value);
    hot.device = view_->id.value;
    ++hot.in_flight;
    hot.scheduled_tokens += entry.tokens;
    const bool samples =
        info_.kind == ModelKind::kDecoder && hot.scheduled_tokens == hot.known_tokens;
    hot.known_tokens += samples;
    plan.marks.push_back({hot.scheduled_tokens - entry.tokens, hot.epoch, samples});
  }
}

void DeviceDriver::UnpromiseEntry(const Entry& entry, const EntryMark& mark) {
  RequestHot& hot = core_->requests.hot(entry.request.value);
  SCHEDTWIN_CHECK(hot.in_flight > 0 && hot.epoch == mark.epoch);
  --hot.in_flight;
  hot.known_tokens -= mark.samples;
  hot.scheduled_tokens -= entry.tokens;
}

void DeviceDriver::Unpromise(PlanRecord& plan) {
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    UnpromiseEntry(plan.entries[i], plan.marks[i]);
  }
}

void DeviceDriver::Unqueue(std::uint32_t id) {
  for (const PlanId queued : queue_) {
    PlanRecord& plan = *core_->plans.Find(queued);
    if (plan.state == PlanState::kRunning) continue;
    for (std::size_t i = 0; i < plan.entries.size(); ++i) {
      if (plan.entries[i].request.value != id) continue;
      UnpromiseEntry(plan.entries[i], plan.marks[i]);
      plan.entries.erase(plan.entries.begin() + static_cast<std::ptrdiff_t>(i));
      plan.marks.erase(plan.marks.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
}

void DeviceDriver::DropStale(PlanRecord& plan) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const std::uint32_t id = plan.entries[i].request.value;
    RequestHot& hot = core_->requests.hot(id);
    if (core_->requests.live(id) && hot.epoch == plan.marks[i].epoch) {
      plan.entries[kept] = plan.entries[i];
      plan.marks[kept++] = plan.marks[i];
      continue;
    }
    --hot.in_flight;
  }
  plan.entries.resize(kept);
  plan.marks.resize(kept);
}

bool DeviceDriver::SharesEntries(PlanId id, std::span<const Entry> entries) {
  auto later = std::find(queue_.begin(), queue_.end(), id);
  for (++later; later != queue_.end(); ++later) {
    for (const Entry& other : core_->plans.Find(*later)->entries) {
      for (const Entry& entry : entries) {
        if (entry.request == other.request) return true;
      }
    }
  }
  return false;
}

Launched DeviceDriver::Amend(PlanId id, const Plan& replacement) {
  PlanRecord* plan = core_->plans.Find(id);
  if (plan == nullptr || plan->state == PlanState::kEnded) return {id, Refusal::kUnknownPlan, 0};
  if (plan->state == PlanState::kRunning) return {id, Refusal::kAlreadyStarted, 0};
  if (replacement.device != view_->id) return {id, Refusal::kWrongDevice, 0};
  // Promises are kept in the order of the queue: those behind rest on this plan's.
  if (memory_.in_transaction() || SharesEntries(id, plan->entries) ||
      SharesEntries(id, replacement.entries)) {
    return {id, Refusal::kBadArgument, 0};
  }
  Unpromise(*plan);
  Launched answer = Check(replacement);
  answer.id = id;
  if (answer.ok()) {
    plan->Take(replacement);
    plan->model = ModelOf(replacement);
    core_->to_start.push_back(view_->id.value);  // its window may be open by now
  }
  Promise(*plan);
  return answer;
}

Refusal DeviceDriver::Withdraw(PlanId id) {
  PlanRecord* plan = core_->plans.Find(id);
  if (plan == nullptr || plan->state == PlanState::kEnded) return Refusal::kUnknownPlan;
  if (plan->state == PlanState::kRunning) return Refusal::kAlreadyStarted;
  if (memory_.in_transaction() || SharesEntries(id, plan->entries)) return Refusal::kBadArgument;
  Unpromise(*plan);
  queue_.erase(std::find(queue_.begin(), queue_.end(), id));
  view_->queued = static_cast<std::uint32_t>(queue_.size());
  core_->plans.Remove(id);
  core_->to_start.push_back(view_->id.value);  // the plan behind it may start
  return Refusal::kNone;
}

bool DeviceDriver::Predict(const Plan& plan, Duration* out) const {
  const bool named = !plan.entries.empty() && core_->requests.live(plan.entries[0].request.value);
  const StepTimeModel* const model =
      setup_.ModelOf(named || plan.entries.empty() ? ModelOf(plan) : ModelId{0});
  if (model == nullptr) return false;
  StepShape shape;
  chunks_.clear();
  shape.padding_tokens = plan.padding_tokens;
  if (plan.standing) {
    shape.decode_tokens = standing_.size();
    shape.decode_context_tokens = standing_.context_tokens();
  }
  for (const Entry& entry : plan.entries) {
    if (!core_->requests.live(entry.request.value)) continue;
    const RequestHot& hot = core_->requests.hot(entry.request.value);
    const bool samples = hot.scheduled_tokens + entry.tokens == hot.known_tokens;  // as in Promise
    if (info_.kind == ModelKind::kOneShot) {
      shape.units += entry.tokens;
    } else if (entry.tokens == 1 && samples && hot.scheduled_tokens >= hot.prompt_tokens) {
      ++shape.decode_tokens;
      shape.decode_context_tokens += hot.scheduled_tokens + 1;
    } else {
      chunks_.push_back({entry.tokens, hot.scheduled_tokens, samples});
    }
  }
  shape.prefills = chunks_;
  *out = model->Predict(shape);
  return true;
}

}  // namespace schedtwin
