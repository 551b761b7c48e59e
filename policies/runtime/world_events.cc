// What World does with each kind of event: books it, tells the policy, sees to what the policy has
// caused.
#include <algorithm>

#include "policies/api/rng.h"
#include "policies/runtime/device_driver.h"
#include "policies/runtime/fleet.h"
#include "policies/runtime/operations.h"
#include "policies/runtime/reports.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world.h"
#include "policies/runtime/world_facets.h"

namespace schedtwin {
namespace {

EndReason ReasonOf(CancelBy by) {
  switch (by) {
    case CancelBy::kClient:
      return EndReason::kCancelled;
    case CancelBy::kDeadline:
      return EndReason::kTimedOut;
    case CancelBy::kFault:
      break;
  }
  return EndReason::kFailed;
}

}  // namespace

void World::Dispatch(const Event& event) {
  switch (event.kind) {
    case EventKind::kReply:
      return DeliverReply(event.index);
    case EventKind::kTimer:
      return DeliverTimer(event.word);
    case EventKind::kArrival:
      return DeliverArrival(event.index);
    case EventKind::kPlanRetry:
      core_->journal.Event(core_->now, EventCode::kPlanOpened, event.word);
      return drivers_[event.index]->StartIfIdle();
    case EventKind::kPlanStarting:
      if (core_->plans.Find(PlanId::FromWord(event.word)) == nullptr) {
        return drivers_[event.index]->StartIfIdle();
      }
      return DeliverPlanStarting(event.index, PlanId::FromWord(event.word));
    case EventKind::kPlanDropped: {
      DeviceDriver& driver = *drivers_[event.index];
      return DeliverDone(driver, driver.DroppedDone(PlanId::FromWord(event.word)));
    }
    case EventKind::kOperation:
      return DeliverOperation(OpId::FromWord(event.word));
    case EventKind::kCacheChange:
      return DeliverCacheChange(event.index);
    case EventKind::kDeviceChange:
      core_->journal.Event(core_->now, EventCode::kDeviceChange, event.index, event.word);
      policy_->OnDeviceChange(*this, {event.index}, static_cast<DeviceChange>(event.word));
      return AfterCallback();
    case EventKind::kFault:
      return fleet_->OnFault(event.index, event.word != 0);
    case EventKind::kReportTaken:
      return reports_->Take(event.index);
    case EventKind::kReport:
      return DeliverReport(event.index);
    case EventKind::kCancel:
      return DeliverCancel(static_cast<std::uint32_t>(event.word),
                           static_cast<CancelBy>(event.index));
  }
}

// ---- Time ----

void World::CountIdle() {
  if (core_->progress == progress_seen_) {
    ++idle_timers_;
  } else {
    idle_timers_ = 0;
    progress_seen_ = core_->progress;
  }
}

void World::DeliverTimer(std::uint64_t tag) {
  core_->journal.Event(core_->now, EventCode::kTimer, tag);
  CountIdle();
  policy_->OnTimer(*this, tag);
  AfterCallback();
}

void World::DeliverCacheChange(std::uint32_t device) {
  const CacheChange change = drivers_[device]->memory().TakeCacheChange();
  core_->journal.Event(core_->now, EventCode::kCacheChange, change.device.value,
                       static_cast<std::uint64_t>(change.tier),
                       change.stored_blocks | (std::uint64_t{change.evicted_blocks} << 32));
  policy_->OnCacheChange(*this, change);
  AfterCallback();
}

void World::DeliverReport(std::uint32_t device) {
  const DeviceReport report = reports_->Receive(device);
  core_->journal.Event(core_->now, EventCode::kReport, device,
                       static_cast<std::uint64_t>(report.taken.ns()),
                       report.waiting | (std::uint64_t{report.running} << 32));
  CountIdle();
  policy_->OnReport(*this, report);
  AfterCallback();
}

// ---- Requests ----

void World::DeliverArrival(std::uint32_t source_index) {
  SourceState& source = core_->sources[source_index];
  const RequestSpec spec = source.next;
  source.pending = false;
  const bool one_shot = kind_ == ModelKind::kOneShot;
  std::uint32_t limit = spec.max_new_tokens;
  bool fits = one_shot ? spec.units > 0 && (max_step_tokens_ == 0 || spec.units <= max_step_tokens_)
                       : spec.prompt_tokens > 0 && spec.output_tokens > 0;
  fits = fits && spec.model.value < core_->models;
  if (!one_shot && max_model_len_tokens_ > 0) {
    fits = fits && spec.prompt_tokens < max_model_len_tokens_;
    limit = SmallerLimit(limit, fits ? max_model_len_tokens_ - spec.prompt_tokens : 0);
  }
  if (one_shot || limit == 0) limit = one_shot ? 0 : 0xffffffffu - spec.prompt_tokens;
  const RequestId parent = ParentOf(source_index, spec);
  const RequestId id = core_->requests.Add(spec, kind_, limit);
  window_ = core_->requests.window();
  core_->requests.cold(id.value).parent = parent;
  RequestFate& fate = core_->requests.fate(id.value);
  fate.source = source_index;
  fate.source_index = source.yielded++;
  fate.admitted = core_->now;
  if (ids_.size() > 1) ids_[source_index].push_back(id);
  first_arrival_ = std::min(first_arrival_, spec.arrival);
  ++core_->progress;
  core_->journal.Event(core_->now, EventCode::kArrival, id.value,
                       spec.prompt_tokens | (std::uint64_t{spec.units} << 32), limit);
  PlanCancel(id, spec);
  PullSource(source_index);
  if (fits) {
    policy_->OnArrival(*this, id);
  } else {
    core_->EndRequest(id.value, EndReason::kRejected, core_->now);
  }
  AfterCallback();
}

RequestId World::ParentOf(std::uint32_t source, const RequestSpec& spec) const {
  if (spec.parent >= core_->sources[source].yielded) return {};
  // With one source requests are numbered as it numbers them.
  if (ids_.size() <= 1) return {static_cast<std::uint32_t>(spec.parent)};
  return ids_[source][spec.parent];
}

void World::PlanCancel(RequestId id, const RequestSpec& spec) {
  Time when = spec.leaves;
  CancelBy by = CancelBy::kClient;
  if (options_.deadlines_cancel && spec.deadline < when) {
    when = spec.deadline;
    by = CancelBy::kDeadline;
  }
  if (when.infinite()) return;
  ++core_->cancels_to_come;
  core_->requests.fate(id.value).cancel =
      core_->Push(std::max(when, core_->now), EventClass::kCancel, 0,
                  {EventKind::kCancel, static_cast<std::uint32_t>(by), id.value});
}

void World::DeliverCancel(std::uint32_t request, CancelBy by) {
  if (by != CancelBy::kFault) --core_->cancels_to_come;
  if (!core_->requests.live(request)) return;
  core_->journal.Event(core_->now, EventCode::kCancel, request, static_cast<std::uint64_t>(by));
  ++core_->progress;
  policy_->OnCancel(*this, {request}, by);
  if (core_->open_transactions > 0) CloseTransactions();
  if (core_->requests.live(request)) {
    const std::uint32_t device = core_->requests.hot(request).device;
    if (device != DeviceId::kNone) drivers_[device]->Detach(request);
    core_->EndRequest(request, ReasonOf(by), core_->now);
  }
  AfterCallback();
}

// ---- Plans ----

void World::Turn(std::uint32_t device) {
  DeviceDriver& driver = *drivers_[device];
  if (driver.continuing() && driver.Continue()) {
    DeliverDone(driver, driver.done());  // owes a slot-free, in a turn of its own
    return;
  }
  if (core_->turns.TakeSlotFree(device)) DeliverSlotFree(device);
}

Duration World::DrawDecisionCost(std::uint32_t device) {
  const DecisionCost& cost = options_.decision_cost;
  if (cost.measured.empty()) return cost.fixed;
  // A draw of its own for each: one decision more shifts nobody else's.
  Rng rng(options_.seed, "decision cost", (std::uint64_t{device} << 40) + decisions_[device]++);
  return cost.fixed + cost.measured[rng.Below(static_cast<std::uint32_t>(cost.measured.size()))];
}

void World::DeliverSlotFree(std::uint32_t device) {
  const std::uint32_t depth_left = views_[device].depth_left();
  if (depth_left == 0) return;
  core_->journal.Event(core_->now, EventCode::kSlotFree, device, depth_left);
  const bool charged = options_.decision_cost.charges();
  const bool timed = core_->wants.steps && !charged;
  const Duration before = timed ? time_source_->ThreadTime() : Duration::Nanos(-1);
  Duration took = Duration::Nanos(-1);
  if (charged) [[unlikely]] {
    took = DrawDecisionCost(device);
    core_->Think(took);
  }
  policy_->OnSlotFree(*this, {device});
  if (before >= Duration()) took = time_source_->ThreadTime() - before;
  if (took >= Duration()) [[unlikely]]
    drivers_[device]->NoteDecision(took);
  AfterCallback();
}

void World::DeliverReply(std::uint32_t device) {
  DeviceDriver& driver = *drivers_[device];
  for (;;) {
    const DeviceReply& reply = inbox_[device];
    const bool aborted = reply.status == ReplyStatus::kAborted;
    if (reply.measured(core_->now)) [[unlikely]] {  // what a policy sees of it cannot be computed
      core_->journal.Event(core_->now, aborted ? EventCode::kStepAborted : EventCode::kStepTimes,
                           reply.plan.word(), static_cast<std::uint64_t>(reply.start.ns()),
                           static_cast<std::uint64_t>(reply.end.ns()));
    }
    if (driver.TakeLostReply()) [[unlikely]]
      return fleet_->OnLostReply(device);
    if (aborted) [[unlikely]] {
      driver.OnStepAborted(reply);
      break;
    }
    if (driver.OnStepDone(reply)) break;
    if (!AloneAtThisInstant()) {
      core_->turns.Add(device, /*slot_free=*/false);
      return;
    }
    if (driver.Continue()) break;
    // In simulation the end of the step just begun is often the next thing to happen anywhere.
    if (!core_->events.FrontIs(EventKind::kReply, device)) return;
    const Time next = core_->events.NextTime();
    if (next > kLastInstant) return;  // for the loop to see
    LatchAll(time_source_->Advance(next));
    // A real clock may have woken early, or with more than this.
    if (core_->now != next || !core_->events.PopFrontIf(EventKind::kReply, device)) return;
#ifdef SCHEDTWIN_HARDENED
    CheckInvariants();
#endif
  }
  DeliverDone(driver, driver.done());
}

void World::DeliverPlanStarting(std::uint32_t device, PlanId plan) {
  core_->journal.Event(core_->now, EventCode::kPlanStarting, plan.word());
  policy_->OnPlanStarting(*this, plan);
  AfterCallback();
  drivers_[device]->Bind(plan);
}

void World::DeliverDone(DeviceDriver& driver, const PlanDone& done) {
  const PlanId id = done.id;
  const std::uint32_t device = done.device.value;
  core_->journal.Event(core_->now, EventCode::kPlanDone, id.word(),
                       static_cast<std::uint64_t>(done.why) | (std::uint64_t{done.steps} << 8),
                       done.finished.size());
  policy_->OnPlanDone(*this, done);
  driver.Retire(id);
  core_->turns.Add(device, /*slot_free=*/true);
  AfterCallback();
}

// ---- Operations ----

void World::DeliverOperation(OpId operation) {
  OperationDone done;
  switch (operations_->Settle(operation, &done)) {
    case Operations::Settled::kTold:
      core_->journal.Event(core_->now, EventCode::kOperationDone, operation.word(),
                           static_cast<std::uint64_t>(done.kind), done.ok);
      policy_->OnOperationDone(*this, done);
      break;
    case Operations::Settled::kReady:
      fleet_->OnStarted(done.device.value);
      break;
    case Operations::Settled::kSilent:
      break;
  }
  AfterCallback();
}

}  // namespace schedtwin
