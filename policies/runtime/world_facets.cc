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
  if (driver != nullptr && core_->requests.hot(request.value).state != RequestState::kHeld) {
    if (driver->memory().in_transaction()) return Refusal::kBadArgument;
    driver->Detach(request.value);
  }
  core_->EndRequest(request.value, reason, core_->now);
  return Refusal::kNone;
}

Refusal World::ActionsFacet::Route(RequestId request, DeviceId device, DeviceId decode_device,
                                   ModelId variant) {
  std::uint64_t where = device.value;
  if (decode_device.valid()) where |= (std::uint64_t{decode_device.value & 0x7fffffu} + 1) << 32;
  if (variant.valid()) where |= (std::uint64_t{variant.value & 0x7fu} + 1) << 56;
  return Answer(DecisionCode::kRoute, request.value, where,
                TryRoute(request, device, decode_device, variant));
}

Refusal World::ActionsFacet::TryRoute(RequestId request, DeviceId device, DeviceId decode_device,
                                      ModelId variant) {
  if (const Refusal why = core_->requests.WhyNot(request.value); why != Refusal::kNone) return why;
  DeviceDriver* const driver = Driver(device);
  if (driver == nullptr) return Refusal::kUnknownDevice;
  if (decode_device.valid() && Driver(decode_device) == nullptr) return Refusal::kUnknownDevice;
  if (variant.valid() && variant.value >= core_->models) return Refusal::kBadArgument;
  RequestHot& hot = core_->requests.hot(request.value);
  RequestCold& cold = core_->requests.cold(request.value);
  const bool moves = hot.device != device.value;
  const bool changes = variant.valid() && variant != cold.model;
  if (moves && HeldByDevice(hot)) return Refusal::kWrongDevice;
  if (moves && driver->state() != DeviceState::kUp) return Refusal::kDeviceDown;
  if (changes && HeldByDevice(hot)) return Refusal::kModelInUse;
  if ((moves || changes) && core_->open_transactions > 0) return Refusal::kBadArgument;
  hot.device = device.value;
  cold.decode_device = decode_device;
  if (variant.valid()) cold.model = variant;
  return Refusal::kNone;
}

Refusal World::ActionsFacet::Preempt(RequestId request, PreemptMode mode) {
  return Answer(DecisionCode::kPreempt, request.value, static_cast<std::uint64_t>(mode),
                TryPreempt(request, mode));
}

Refusal World::ActionsFacet::TryPreempt(RequestId request, PreemptMode mode) {
  if (const Refusal why = core_->requests.WhyNot(request.value); why != Refusal::kNone) return why;
  RequestHot& hot = core_->requests.hot(request.value);
  DeviceDriver* driver = Driver({hot.device});
  if (driver == nullptr) return Refusal::kWrongDevice;
  if (driver->info().kind == ModelKind::kOneShot) return Refusal::kUnsupported;
  if (driver->memory().in_transaction()) return Refusal::kBadArgument;
  Refusal answer = Refusal::kNone;
  switch (mode) {
    case PreemptMode::kPause:
      answer = driver->Leave(request.value);
      break;
    case PreemptMode::kSwap:
    case PreemptMode::kSwapBlocking:
      answer = operations_->SwapOut(request.value, mode == PreemptMode::kSwapBlocking);
      break;
    case PreemptMode::kRecompute:
      if (core_->requests.fate(request.value).operation.valid()) return Refusal::kMoving;
      if (hot.state == RequestState::kStanding) driver->Leave(request.value);
      if (hot.scheduled_tokens == 0 && hot.owned_blocks == 0) return Refusal::kBadArgument;
      if (hot.in_flight > 0) driver->Unqueue(request.value);
      core_->requests.fate(request.value).recomputed_tokens += hot.scheduled_tokens;
      driver->Detach(request.value);
      break;
  }
  if (answer != Refusal::kNone) return answer;
  ++core_->requests.cold(request.value).preemptions;
  ++core_->preemptions;
  return Refusal::kNone;
}

Refusal World::ActionsFacet::HoldResponse(RequestId request) {
  Refusal answer = core_->requests.WhyNot(request.value);
  if (answer == Refusal::kMoving) answer = Refusal::kNone;  // of the response, not of the KV
  if (answer == Refusal::kNone) core_->requests.hot(request.value).hold = true;
  return Answer(DecisionCode::kHold, request.value, 0, answer);
}

Refusal World::ActionsFacet::ReleaseResponse(RequestId request) {
  return Answer(DecisionCode::kReleaseResponse, request.value, 0, TryRelease(request));
}

Refusal World::ActionsFacet::TryRelease(RequestId request) {
  if (!core_->requests.live(request.value)) return Refusal::kUnknownRequest;
  RequestHot& hot = core_->requests.hot(request.value);
  if (!hot.hold) return Refusal::kBadArgument;
  hot.hold = false;
  if (hot.state == RequestState::kHeld) {
    core_->EndRequest(request.value, EndReason::kCompleted, core_->now);
  }
  return Refusal::kNone;
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
  return Answer(DecisionCode::kAbort, plan.word(), static_cast<std::uint64_t>(where),
                driver == nullptr ? Refusal::kUnknownPlan : driver->Abort(plan, where));
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

Started World::ActionsFacet::Answer(DecisionCode code, std::uint64_t a, std::uint64_t b,
                                    const Started& answer) {
  Answer(code, a, b, answer.refusal);
  return answer;
}

Started World::ActionsFacet::Transfer(const TransferSpec& transfer) {
  const std::uint64_t how = std::uint64_t{transfer.from.value & 0xffffffu} |
                            std::uint64_t{transfer.to.value & 0xffffffu} << 24 |
                            static_cast<std::uint64_t>(transfer.from_tier) << 48 |
                            static_cast<std::uint64_t>(transfer.to_tier) << 49 |
                            std::uint64_t{transfer.blocking} << 50 |
                            std::uint64_t{transfer.live} << 51 | std::uint64_t{transfer.keep} << 52;
  const std::uint64_t what = transfer.request.value | std::uint64_t{transfer.weights.value} << 32;
  return Answer(DecisionCode::kTransfer, what, how, operations_->Transfer(transfer));
}

Refusal World::ActionsFacet::CancelOperation(OpId operation) {
  return Answer(DecisionCode::kCancelOperation, operation.word(), 0,
                operations_->Cancel(operation));
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
  return Answer(DecisionCode::kLoad, device.value, model.value, operations_->Load(device, model));
}

Started World::ActionsFacet::Unload(DeviceId device, ModelId model) {
  return Answer(DecisionCode::kUnload, device.value, model.value,
                operations_->Unload(device, model));
}

Refusal World::ActionsFacet::Scale(std::uint32_t devices) {
  return Answer(DecisionCode::kScale, devices, 0, fleet_->Scale(devices));
}

Refusal World::ActionsFacet::SetRole(DeviceId device, DeviceRole role) {
  return Answer(DecisionCode::kSetRole, device.value, static_cast<std::uint64_t>(role),
                fleet_->SetRole(device, role));
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

std::optional<Duration> World::ServicesFacet::TransferTime(DeviceId from, DeviceId to,
                                                           std::uint32_t blocks) const {
  if (from.value >= drivers_->size() || to.value >= drivers_->size()) return std::nullopt;
  const Link link = operations_->LinkOf(from, to);
  if (!link.exists()) return std::nullopt;
  return link.TimeOf(blocks * (*drivers_)[to.value]->info().block_bytes);
}

std::optional<Duration> World::ServicesFacet::LoadTime(DeviceId device, ModelId model) const {
  if (device.value >= drivers_->size() || model.value >= core_->models) return std::nullopt;
  const Link link = (*drivers_)[device.value]->info().load_link;
  if (!link.exists()) return std::nullopt;
  return link.TimeOf(operations_->BytesOf(model));
}

std::optional<std::uint32_t> World::ServicesFacet::OutputLength(RequestId request) const {
  if (lengths_ == nullptr || !core_->requests.live(request.value)) return std::nullopt;
  return lengths_->Predict(request, core_->requests.fate(request.value).limit_tokens);
}

}  // namespace schedtwin
