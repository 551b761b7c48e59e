#include "policies/fifo/fifo.h"

#include <algorithm>
#include <array>
#include <memory>

namespace schedtwin {
namespace {

constexpr std::array<ParameterSpec, 2> kParameters = {kStandingSetParameter, kPlanStepsParameter};

constexpr PolicyInfo kInfo = {
    .name = "fifo",
    .summary = "First come, first served, one request at a time on each device, no batching.",
    .source = "M/G/n with first-come-first-served service; Kleinrock, Queueing Systems I, 1975",
    .one_shot = true,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Fifo>(parameters);
    }};

}  // namespace

const PolicyInfo& FifoInfo() { return kInfo; }

void Fifo::OnStart(Context& context) {
  serving_.resize(context.devices().size());
  idle_.AddAll(context);
}

void Fifo::OnArrival(Context& context, RequestId request) {
  waiting_.PushBack(request);
  idle_.WakeOne(context);
}

void Fifo::OnCancel(Context&, RequestId request, CancelBy) {
  waiting_.Remove(request);
  std::replace(serving_.begin(), serving_.end(), request, RequestId{});
}

void Fifo::OnPlanDone(Context& context, const PlanDone& done) {
  RequestId& serving = serving_[done.device.value];
  if (done.why == PlanEnd::kFailed && serving.valid()) {
    waiting_.PushFront(serving);
    serving = RequestId{};
    idle_.WakeOne(context);
  }
  if (!done.finished.empty()) serving = RequestId{};
}

void Fifo::OnSlotFree(Context& context, DeviceId device) {
  RequestId& serving = serving_[device.value];
  if (!serving.valid()) {
    if (waiting_.empty()) {
      idle_.Add(device);
      return;
    }
    serving = waiting_.front();
    waiting_.PopFront();
  }
  Serve(context, device, serving);
}

void Fifo::Serve(Context& context, DeviceId device, RequestId request) {
  const RequestView view = context.request(request);
  const bool decodes = view.phase() == Phase::kDecode && context.device(device).total_blocks > 0;
  if (decodes && mode_.standing_set) {
    if (view.state() != RequestState::kStanding) context.actions().Join(device, request);
    context.actions().Launch({.device = device, .standing = true, .max_steps = mode_.plan_steps});
    return;
  }
  context.memory(device).Reserve(request, view.scheduled_tokens() + view.next_tokens());
  const Entry entry{request, view.next_tokens()};
  context.actions().Launch(
      {.device = device, .entries = {&entry, 1}, .max_steps = decodes ? mode_.plan_steps : 1});
}

}  // namespace schedtwin
