#include "policies/triton_dynamic/triton_dynamic.h"

#include <algorithm>
#include <memory>
#include <string>

#include "policies/parts/batch_limit.h"

namespace schedtwin {

using triton::kNoPayload;
using triton::Payload;
using triton::PayloadId;

namespace {

constexpr Duration kPoll = Duration::Millis(500);
constexpr Duration kShortestWait = Duration::Micros(1);
constexpr std::uint32_t kNoDevice = DeviceId::kNone;

const PolicyInfo& Info() {
  static const PolicyInfo info = {
      .name = "triton_dynamic",
      .summary =
          "The dynamic batcher of Triton Inference Server: preferred sizes, queue delay and "
          "policies, priorities, growing payloads, rate limiter.",
      .source =
          "triton-inference-server/core: dynamic_batch_scheduler.cc, scheduler_utils.cc, "
          "instance_queue.cc, rate_limiter.cc (01ea7d90, 05295b70, 03e0913e)",
      .one_shot = true,
      .decoder = false,
      .parameters = triton::SettingsTable(),
      .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
        triton::Settings settings;
        triton::ReadSettings(parameters, &settings);
        return std::make_unique<TritonDynamic>(settings);
      },
      .check = [](const Parameters& parameters) -> std::string {
        triton::Settings settings;
        return triton::ReadSettings(parameters, &settings);
      }};
  return info;
}

}  // namespace

const PolicyInfo& TritonDynamicInfo() { return Info(); }

TritonDynamic::TritonDynamic(const triton::Settings& settings)
    : settings_(settings), queues_(settings) {}

void TritonDynamic::OnStart(Context& context) {
  settings_.max_batch_size = BatchLimit(context, settings_.max_batch_size);
  for (std::uint32_t& units : settings_.preferred) {
    units = std::min(units, settings_.max_batch_size);
  }
  busy_.assign(context.devices().size(), false);
  NewPayload();
  if (!settings_.rate_limit) return;
  limiter_.Start(settings_, context.devices().size());
  for (const DeviceView& device : context.devices()) {
    if (device.state == DeviceState::kUp) limiter_.Join(device.id.value, &grants_);
  }
}

void TritonDynamic::OnArrival(Context& context, RequestId request) {
  CatchUp(context);
  const RequestView view = context.request(request);
  const std::int64_t override_us =
      view.deadline().infinite() ? 0 : (view.deadline() - view.arrival()).ns() / 1'000;
  const bool queued = queues_.Enqueue(
      view.priority(),
      {.request = request, .units = view.units(), .shape = view.shape(), .enqueued = context.now()},
      override_us);
  if (queued || !settings_.fixed) queued_units_ += view.units();
  if (!queued) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  if (woken_) return;
  const bool worth_it = settings_.enforce_equal_shape || saturated_ || Stale() ||
                        queued_units_ >= next_preferred_units_;
  if (!worth_it) {
    // The batcher finds it when it looks again: at the end of its wait, or by its idle poll.
    const std::int64_t polls = (context.now() - ran_at_).ns() / kPoll.ns();
    if (!timer_.valid()) SetTimer(context, ran_at_ + kPoll * (polls + 1));
  } else if (SlotAvailable(context)) {
    Wake(context);
  } else if (!waits_for_slot_) {
    WaitForSlot(context, context.now());
  }
}

void TritonDynamic::OnCancel(Context& context, RequestId request, CancelBy) {
  CatchUp(context);
  if (const std::uint32_t units = queues_.Remove(request); units > 0) {
    queued_units_ -= units;
    return;
  }
  CancelInPayload(context, request);
  order_.Remove(context, request);
}

void TritonDynamic::CancelInPayload(Context& context, RequestId request) {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const PayloadId id = waiting_[i];
    if (!payloads_[id].Remove(request)) continue;
    if (!payloads_[id].entries.empty()) return;
    waiting_.Erase(i);
    if (id == open_) open_ = kNoPayload;
    payloads_.Free(id);
    if (settings_.rate_limit) limiter_.Remove(id, &grants_);
    LaunchGrants(context);
    Wake(context);
    return;
  }
}

void TritonDynamic::OnTimer(Context& context, std::uint64_t) {
  timer_ = TimerId{};
  if (woken_ && woken_at_ < context.now()) {
    CatchUp(context);
  } else if (waits_for_slot_ && !woken_) {
    queues_.RejectExpired(context.now(), &expired_);
    FinishExpired(context, /*counted_out=*/settings_.fixed);
    if (queues_.may_expire() && !queues_.empty()) SetTimer(context, context.now() + kPoll);
  } else {
    Wake(context);
  }
}

void TritonDynamic::OnSlotFree(Context& context, DeviceId device) {
  CatchUp(context);
  if (woken_ || waits_for_slot_) Run(context, context.now());
  bool launched = false;
  if (settings_.rate_limit) {
    if (!busy_[device.value]) limiter_.Release(device.value, &grants_);
    if (context.device(device).state == DeviceState::kUp) {
      limiter_.Join(device.value, &grants_);
    } else {
      limiter_.Away(device.value, &grants_);
    }
    launched = LaunchGrants(context);
  } else {
    launched = Dispatch(context, context.now());
  }
  if (launched) Run(context, context.now());
}

void TritonDynamic::OnPlanDone(Context& context, const PlanDone& done) {
  CatchUp(context);
  busy_[done.device.value] = false;
  if (done.why == PlanEnd::kFailed) PutBack(context, done);
  order_.Send(context);
}

void TritonDynamic::PutBack(Context& context, const PlanDone& done) {
  if (done.entries.empty()) return;
  const PayloadId id = payloads_.New();
  for (const Entry& entry : done.entries) {
    const RequestView view = context.request(entry.request);
    payloads_[id].Add(entry.request, entry.tokens, view.shape(), view.arrival());
  }
  waiting_.PushFront(id);
  if (settings_.rate_limit) limiter_.PutBack(id, &grants_);
  LaunchGrants(context);
  Wake(context);
}

void TritonDynamic::OnDeviceChange(Context& context, DeviceId device, DeviceChange) {
  CatchUp(context);
  const bool up = context.device(device).state == DeviceState::kUp;
  if (up || busy_[device.value] || !settings_.rate_limit) return;
  limiter_.Away(device.value, &grants_);
  LaunchGrants(context);
}

// ---- The batcher ----

// Nothing is launched while all instances are busy: then the batcher's look at this instant can
// wait until something else happens, or until the shortest wait that could follow from it is over.
void TritonDynamic::Wake(Context& context) {
  woken_ = true;
  woken_at_ = context.now();
  const std::uint32_t idle = FirstIdle(context);
  if (idle != kNoDevice) {
    context.actions().Poke({idle});
  } else {
    SetTimer(context, context.now() + kShortestWait);
  }
}

void TritonDynamic::CatchUp(Context& context) {
  if (woken_ && woken_at_ < context.now()) Run(context, woken_at_);
}

void TritonDynamic::Run(Context& context, Time now) {
  woken_ = false;
  waits_for_slot_ = false;
  ran_at_ = now;
  for (;;) {
    if (saturated_ || Stale()) NewPayload();
    if (queues_.empty()) {
      CancelTimer(context);
      return;
    }
    if (!SlotAvailable(context)) {
      WaitForSlot(context, now);
      return;
    }
    const triton::PassResult pass =
        triton::RunBatchingPass(settings_, payloads_[open_], now, &queues_, &expired_);
    const bool any_expired = !expired_.empty();
    FinishExpired(context, /*counted_out=*/true);
    if (pass.has_next_preferred) next_preferred_units_ = pass.next_preferred_units;
    if (pass.wait > Duration()) {
      SetTimer(context, now + pass.wait);
      return;
    }
    payloads_[open_].misfit |= pass.misfit;
    saturated_ |= pass.saturated || (settings_.fixed && pass.misfit);
    if (pass.take == 0 && !saturated_ && !any_expired) {
      // Upstream looks again and again until an instance takes the payload.
      WaitForSlot(context, now);
      return;
    }
    if (pass.take > 0) Commit(context, pass.take);
    Dispatch(context, now);
  }
}

void TritonDynamic::NewPayload() {
  saturated_ = false;
  next_preferred_units_ = 0;
  if (open_ != kNoPayload && !open_waits_) return;  // it is new
  open_ = payloads_.New();
  open_waits_ = false;
}

/// The open payload grows no more: an instance has taken it.
bool TritonDynamic::Stale() const { return open_ == kNoPayload || payloads_[open_].closed; }

bool TritonDynamic::SlotAvailable(const Context& context) const {
  if (!settings_.prefetches()) return FirstIdle(context) != kNoDevice;
  const auto up = static_cast<std::size_t>(
      std::count_if(context.devices().begin(), context.devices().end(),
                    [](const DeviceView& device) { return device.state == DeviceState::kUp; }));
  // With the rate limiter payloads wait there, and not in the instances' queue.
  return (settings_.rate_limit ? 0 : waiting_.size()) < 2 * up;
}

void TritonDynamic::WaitForSlot(Context& context, Time now) {
  waits_for_slot_ = true;
  if (queues_.may_expire()) {
    SetTimer(context, now + kPoll);
  } else {
    CancelTimer(context);
  }
}

void TritonDynamic::FinishExpired(Context& context, bool counted_out) {
  for (const triton::Expired& expired : expired_) {
    if (counted_out) queued_units_ -= expired.units;
    context.actions().Finish(expired.request, EndReason::kTimedOut);
  }
  expired_.clear();
}

void TritonDynamic::Commit(Context& context, std::size_t requests) {
  Payload& payload = payloads_[open_];
  for (std::size_t i = 0; i < requests; ++i) {
    const triton::Queued next = queues_.PopFront();
    queued_units_ -= next.units;
    payload.Add(next.request, next.units, next.shape, next.enqueued);
    if (settings_.preserve_ordering) order_.Reserve(context, next.request);
  }
  if (open_waits_) return;
  open_waits_ = true;
  waiting_.PushBack(open_);
  if (settings_.rate_limit) limiter_.Enqueue(open_, &grants_);
  LaunchGrants(context);
}

void TritonDynamic::SetTimer(Context& context, Time when) {
  if (timer_.valid() && context.clock().Rearm(timer_, when)) return;
  timer_ = context.clock().Arm(when, 0);
}

void TritonDynamic::CancelTimer(Context& context) {
  if (timer_.valid()) context.clock().Cancel(timer_);
  timer_ = TimerId{};
}

// ---- Instances ----

bool TritonDynamic::Idle(const Context& context, std::uint32_t device) const {
  return !busy_[device] && context.device({device}).state == DeviceState::kUp;
}

std::uint32_t TritonDynamic::FirstIdle(const Context& context) const {
  for (std::uint32_t device = 0; device < busy_.size(); ++device) {
    if (Idle(context, device)) return device;
  }
  return kNoDevice;
}

/// Idle instances take what waits. With the rate limiter it is given to them.
bool TritonDynamic::Dispatch(Context& context, Time now) {
  if (settings_.rate_limit) return false;
  bool any = false;
  while (!waiting_.empty()) {
    const std::uint32_t device = FirstIdle(context);
    if (device == kNoDevice) return any;
    const PayloadId id = waiting_.PopFront();
    MergeWaiting(&payloads_[id], now);
    Launch(context, device, id);
    any = true;
  }
  return any;
}

void TritonDynamic::MergeWaiting(Payload* payload, Time now) {
  if (settings_.max_queue_delay == Duration() || settings_.max_batch_size == 1) return;
  while (!payload->misfit && !waiting_.empty()) {
    const PayloadId next_id = waiting_.front();
    Payload& next = payloads_[next_id];
    if (next.misfit || now - next.oldest_enqueue <= settings_.max_queue_delay) return;
    // Upstream marks it as executing before it knows whether it fits.
    if (!settings_.fixed) next.closed = true;
    if (payload->units + next.units > settings_.max_batch_size) return;
    if (settings_.enforce_equal_shape && payload->shape != next.shape) return;
    payload->Merge(next);
    waiting_.PopFront();
    if (next_id == open_) open_ = kNoPayload;
    payloads_.Free(next_id);
  }
}

bool TritonDynamic::LaunchGrants(Context& context) {
  const bool any = !grants_.empty();
  for (std::size_t i = 0; i < grants_.size(); ++i) {
    const triton::RateLimiter::Grant grant = grants_[i];
    std::size_t at = 0;
    while (waiting_[at] != grant.payload) ++at;
    waiting_.Erase(at);
    Launch(context, grant.instance, grant.payload);
  }
  grants_.clear();
  return any;
}

void TritonDynamic::Launch(Context& context, std::uint32_t device, PayloadId payload) {
  if (payload == open_) open_ = kNoPayload;
  const std::vector<Entry>& entries = payloads_[payload].entries;
  busy_[device] = context.actions().Launch({.device = {device}, .entries = entries}).ok();
  if (!busy_[device]) {
    // Nothing would ever run them: they are for another model than this instance's, or too large.
    for (const Entry& entry : entries) {
      order_.Remove(context, entry.request);
      context.actions().Finish(entry.request, EndReason::kRejected);
    }
    if (settings_.rate_limit) limiter_.Release(device, &grants_);
  }
  payloads_.Free(payload);
  // A slot that was to be told of is taken.
  if (woken_) SetTimer(context, context.now() + kShortestWait);
}

}  // namespace schedtwin
