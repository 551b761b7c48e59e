#include "policies/runtime/world_facets.h"

#include <algorithm>

#include "policies/runtime/length_predictor.h"

namespace schedtwin {

// ---- Clock ----

TimerId World::ClockFacet::Arm(Time when, std::uint64_t tag) {
  const std::uint32_t number = core_->timers_armed++;
  core_->journal.Decision(core_->now, DecisionCode::kArm, tag,
                          static_cast<std::uint64_t>(when.ns()), number);
  return core_->Push(std::max(when, core_->now), EventClass::kTimer, 0,
                     {EventKind::kTimer, number, tag});
}

std::uint64_t World::ClockFacet::NumberOf(TimerId timer) const {
  const Event* event = core_->events.Find(timer);
  return event == nullptr ? kGone : event->index;
}

bool World::ClockFacet::Rearm(TimerId timer, Time when) {
  const std::uint64_t number = NumberOf(timer);
  const bool moved =
      core_->events.Move(timer, std::max(when, core_->now),
                         OrderWord(EventClass::kTimer, 0, core_->sequence++, core_->tie_seed));
  core_->journal.Decision(core_->now, DecisionCode::kRearm, number,
                          static_cast<std::uint64_t>(when.ns()), moved);
  return moved;
}

bool World::ClockFacet::Cancel(TimerId timer) {
  const std::uint64_t number = NumberOf(timer);
  const bool cancelled = core_->events.Cancel(timer);
  core_->journal.Decision(core_->now, DecisionCode::kCancelTimer, number, 0, cancelled);
  return cancelled;
}

// ---- Actions: requests ----

Refusal World::ActionsFacet::Finish(RequestId request, EndReason reason) {
  const std::uint64_t b = static_cast<std::uint64_t>(reason);
  return Answer(DecisionCode::kFinish, request.value, b, TryFinish(request, reason));
}

Refusal World::ActionsFacet::TryFinish(RequestId request, EndReason reason) {
  if (!core_->requests.holds(request.value)) return Refusal::kUnknownRequest;
  if (!core_->requests.live(request.value)) return Refusal::kEnded;
  if (reason == EndReason::kCompleted) return Refusal::kBadArgument;
  DeviceDriver* driver = Driver({core_->requests.hot(request.value).device});
  if (driver != nullptr) {
    if (driver->memory().in_transaction()) return Refusal::kBadArgument;
    driver->Detach(request.value);
  }
  core_->EndRequest(request.value, reason, core_->now);
  return Refusal::kNone;
}

Refusal World::ActionsFacet::Route(RequestId request, DeviceId device, DeviceId decode_device,
                                   ModelId variant) {
  return Answer(DecisionCode::kRoute, request.value, device.value,
                TryRoute(request, device, decode_device, variant));
}

Refusal World::ActionsFacet::TryRoute(RequestId request, DeviceId device, DeviceId decode_device,
                                      ModelId variant) {
  if (!core_->requests.live(request.value)) return Refusal::kUnknownRequest;
  if (Driver(device) == nullptr) return Refusal::kUnknownDevice;
  if (decode_device.valid() && decode_device != device) return Refusal::kUnsupported;
  if (variant.valid() && variant != core_->requests.cold(request.value).spec.model) {
    return Refusal::kUnsupported;
  }
  RequestHot& hot = core_->requests.hot(request.value);
  if (hot.device != device.value && HeldByDevice(hot)) return Refusal::kWrongDevice;
  if (hot.device != device.value && core_->open_transactions > 0) return Refusal::kBadArgument;
  hot.device = device.value;
  return Refusal::kNone;
}

Refusal World::ActionsFacet::Preempt(RequestId request, PreemptMode mode) {
  return Answer(DecisionCode::kPreempt, request.value, static_cast<std::uint64_t>(mode),
                TryPreempt(request, mode));
}

Refusal World::ActionsFacet::TryPreempt(RequestId request, PreemptMode mode) {
  if (mode == PreemptMode::kSwap) return Refusal::kUnsupported;
  if (!core_->requests.live(request.value)) return Refusal::kUnknownRequest;
  RequestHot& hot = core_->requests.hot(request.value);
  DeviceDriver* driver = Driver({hot.device});
  if (driver == nullptr) return Refusal::kWrongDevice;
  if (driver->info().kind == ModelKind::kOneShot) return Refusal::kUnsupported;
  if (driver->memory().in_transaction()) return Refusal::kBadArgument;
  if (mode == PreemptMode::kPause) {
    const Refusal left = driver->Leave(request.value);
    if (left != Refusal::kNone) return left;
  } else {
    if (hot.state == RequestState::kStanding) driver->Leave(request.value);
    if (hot.scheduled_tokens == 0 && hot.owned_blocks == 0) return Refusal::kBadArgument;
    if (hot.in_flight > 0) driver->Unqueue(request.value);
    core_->requests.fate(request.value).recomputed_tokens += hot.scheduled_tokens;
    driver->Detach(request.value);
  }
  ++core_->requests.cold(request.value).preemptions;
  ++core_->preemptions;
  return Refusal::kNone;
}

Refusal World::ActionsFacet::HoldResponse(RequestId request) {
  return Answer(DecisionCode::kHold, request.value, 0, Refusal::kUnsupported);
}

Refusal World::ActionsFacet::ReleaseResponse(RequestId request) {
  return Answer(DecisionCode::kReleaseResponse, request.value, 0, Refusal::kUnsupported);
}

// ---- Actions: plans ----

void World::ActionsFacet::LogPlan(DecisionCode code, const Plan& plan, const Launched& answer) {
  for (const Entry& entry : plan.entries) {
    core_->journal.Decision(core_->now, DecisionCode::kEntry, entry.request.value, entry.tokens, 0);
  }
  if (plan.earliest > Time() || !plan.latest.infinite() || plan.padding_tokens > 0 ||
      plan.max_steps > 0xffffffu) {
    core_->journal.Decision(core_->now, DecisionCode::kPlanBounds,
                            static_cast<std::uint64_t>(plan.earliest.ns()),
                            static_cast<std::uint64_t>(plan.latest.ns()),
                            plan.padding_tokens | (std::uint64_t{plan.max_steps} << 32));
  }
  const std::uint64_t shape =
      plan.device.value | (std::uint64_t{plan.max_steps & 0xffffffu} << 32) |
      (std::uint64_t{plan.standing} << 56) | (std::uint64_t{plan.late_binding} << 57);
  core_->journal.Answer(core_->now, code, answer.id.word(), shape, answer.refusal,
                        answer.ok() ? 0 : answer.entry);
}

Launched World::ActionsFacet::Launch(const Plan& plan) {
  DeviceDriver* driver = Driver(plan.device);
  const Launched answer =
      driver == nullptr ? Launched{{}, Refusal::kUnknownDevice, 0} : driver->Launch(plan);
  LogPlan(DecisionCode::kLaunch, plan, answer);
  return answer;
}

DeviceDriver* World::ActionsFacet::DriverOf(PlanId plan) const {
  const PlanRecord* record = core_->plans.Find(plan);
  return record == nullptr ? nullptr : Driver(record->device);
}

Launched World::ActionsFacet::Amend(PlanId plan, const Plan& replacement) {
  DeviceDriver* driver = DriverOf(plan);
  Launched answer{plan, Refusal::kUnknownPlan, 0};
  if (driver != nullptr) answer = driver->Amend(plan, replacement);
  LogPlan(DecisionCode::kAmend, replacement, answer);
  return answer;
}

Refusal World::ActionsFacet::Withdraw(PlanId plan) {
  DeviceDriver* driver = DriverOf(plan);
  return Answer(DecisionCode::kWithdraw, plan.word(), 0,
                driver == nullptr ? Refusal::kUnknownPlan : driver->Withdraw(plan));
}

Refusal World::ActionsFacet::Abort(PlanId plan, AbortAt where) {
  DeviceDriver* driver = DriverOf(plan);
  Refusal answer = Refusal::kUnsupported;
  if (where == AbortAt::kStep) {
    answer = driver == nullptr ? Refusal::kUnknownPlan : driver->Cut(plan);
  }
  return Answer(DecisionCode::kAbort, plan.word(), static_cast<std::uint64_t>(where), answer);
}

Refusal World::ActionsFacet::Join(DeviceId device, RequestId request) {
  DeviceDriver* driver = Driver(device);
  return Answer(DecisionCode::kJoin, request.value, device.value,
                driver == nullptr ? Refusal::kUnknownDevice : driver->Join(request.value));
}

Refusal World::ActionsFacet::Leave(DeviceId device, RequestId request) {
  DeviceDriver* driver = Driver(device);
  return Answer(DecisionCode::kLeave, request.value, device.value,
                driver == nullptr ? Refusal::kUnknownDevice : driver->Leave(request.value));
}

Refusal World::ActionsFacet::Poke(DeviceId device) {
  const bool known = Driver(device) != nullptr;
  if (known) core_->turns.Add(device.value, /*slot_free=*/true);
  return Answer(DecisionCode::kPoke, device.value, 0,
                known ? Refusal::kNone : Refusal::kUnknownDevice);
}

// ---- Actions: placement and operations ----

Started World::ActionsFacet::Transfer(const TransferSpec& transfer) {
  return {{},
          Answer(DecisionCode::kTransfer, transfer.request.value, transfer.to.value,
                 Refusal::kUnsupported)};
}

Refusal World::ActionsFacet::CancelOperation(OpId operation) {
  return Answer(DecisionCode::kCancelOperation, operation.word(), 0, Refusal::kUnsupported);
}

Refusal World::ActionsFacet::Pin(RequestId request, bool pinned) {
  Refusal answer = Refusal::kUnknownRequest;
  if (core_->requests.live(request.value)) {
    DeviceDriver* driver = Driver({core_->requests.hot(request.value).device});
    answer = driver == nullptr ? Refusal::kWrongDevice : driver->memory().Pin(request, pinned);
  }
  return Answer(DecisionCode::kPin, request.value, pinned, answer);
}

Refusal World::ActionsFacet::Evict(DeviceId device, std::uint32_t blocks) {
  DeviceDriver* driver = Driver(device);
  return Answer(DecisionCode::kEvict, device.value, blocks,
                driver == nullptr ? Refusal::kUnknownDevice : driver->memory().Evict(blocks));
}

Started World::ActionsFacet::Load(DeviceId device, ModelId model) {
  return {{}, Answer(DecisionCode::kLoad, device.value, model.value, Refusal::kUnsupported)};
}

Started World::ActionsFacet::Unload(DeviceId device, ModelId model) {
  return {{}, Answer(DecisionCode::kUnload, device.value, model.value, Refusal::kUnsupported)};
}

Refusal World::ActionsFacet::Scale(std::uint32_t devices) {
  return Answer(DecisionCode::kScale, devices, 0, Refusal::kUnsupported);
}

Refusal World::ActionsFacet::SetRole(DeviceId device, DeviceRole role) {
  return Answer(DecisionCode::kSetRole, device.value, static_cast<std::uint64_t>(role),
                Refusal::kUnsupported);
}

void World::ActionsFacet::Note(std::string_view text) {
  if (core_->recorder != nullptr && core_->wants.log) core_->recorder->OnNote(core_->now, text);
}

// ---- Services ----

std::optional<Duration> World::ServicesFacet::Predict(const Plan& plan) const {
  Duration predicted;
  if (plan.device.value >= drivers_->size() ||
      !(*drivers_)[plan.device.value]->Predict(plan, &predicted)) {
    return std::nullopt;
  }
  return predicted;
}

std::optional<Duration> World::ServicesFacet::TransferTime(DeviceId, DeviceId,
                                                           std::uint32_t) const {
  return std::nullopt;
}

std::optional<Duration> World::ServicesFacet::LoadTime(DeviceId, ModelId) const {
  return std::nullopt;
}

std::optional<std::uint32_t> World::ServicesFacet::OutputLength(RequestId request) const {
  if (lengths_ == nullptr || !core_->requests.live(request.value)) return std::nullopt;
  return lengths_->Predict(request, core_->requests.fate(request.value).limit_tokens);
}

}  // namespace schedtwin
