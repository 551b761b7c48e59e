#include "policies/immediate/immediate.h"

#include <algorithm>
#include <memory>

namespace schedtwin {
namespace {

constexpr PolicyInfo kInfo = {
    .name = "immediate",
    .summary = "Launches every request alone, on arrival, on the least queued device.",
    .source = "a server without a batcher",
    .one_shot = true,
    .decoder = false,
    .parameters = {},
    .create = [](const Parameters&) -> std::unique_ptr<Policy> {
      return std::make_unique<Immediate>();
    }};

}  // namespace

const PolicyInfo& ImmediateInfo() { return kInfo; }

void Immediate::OnArrival(Context& context, RequestId request) {
  const auto least = std::min_element(context.devices().begin(), context.devices().end(),
                                      [](const DeviceView& a, const DeviceView& b) {
                                        return a.up() != b.up() ? a.up() : a.queued < b.queued;
                                      });
  if (waiting_.empty() && least->depth_left() > 0) {
    Launch(context, least->id, request);
  } else {
    waiting_.PushBack(request);
  }
}

void Immediate::OnCancel(Context&, RequestId request, CancelBy) { waiting_.Remove(request); }

void Immediate::OnPlanDone(Context& context, const PlanDone& done) {
  if (done.why != PlanEnd::kFailed) return;
  waiting_.PutBack(done.entries);
  for (const DeviceView& device : context.devices()) {
    if (device.depth_left() > 0) context.actions().Poke(device.id);
  }
}

void Immediate::OnSlotFree(Context& context, DeviceId device) {
  if (waiting_.empty()) return;
  const RequestId request = waiting_.front();
  waiting_.PopFront();
  Launch(context, device, request);
}

void Immediate::Launch(Context& context, DeviceId device, RequestId request) {
  const Entry entry{request, context.request(request).units()};
  context.actions().Launch({.device = device, .entries = {&entry, 1}});
}

}  // namespace schedtwin
