#include "policies/runtime/reports.h"

#include <algorithm>

namespace schedtwin {

Reports::Reports(RunCore* core, std::span<const DeviceView> views, Duration interval,
                 Duration delay)
    : core_(core), views_(views), interval_(interval), delay_(delay), on_their_way_(views.size()) {
  if (interval_ <= Duration()) return;
  for (std::uint32_t i = 0; i < views_.size(); ++i) PlanNext(i, Time() + interval_);
}

void Reports::PlanNext(std::uint32_t device, Time when) {
  core_->Push(when, EventClass::kReport, device, {EventKind::kReportTaken, device, 0});
}

void Reports::Take(std::uint32_t device) {
  const DeviceView& view = views_[device];
  DeviceReport report;
  report.id = {device};
  report.taken = core_->now;
  report.state = view.state;
  report.role = view.role;
  report.queued = view.queued;
  report.free_blocks = view.free_blocks;
  report.total_blocks = view.total_blocks;
  core_->requests.ForEachLive([&](std::uint32_t id) {
    const RequestHot& hot = core_->requests.hot(id);
    if (hot.device != device || hot.state == RequestState::kHeld) return;
    if (hot.scheduled_tokens > 0) {
      ++report.running;
    } else {
      ++report.waiting;
      report.waiting_tokens += hot.known_tokens - hot.scheduled_tokens;
      report.waiting_blocks += BlocksFor(hot.known_tokens, view.block_tokens);
      report.preempted += core_->requests.cold(id).preemptions > 0;
    }
  });
  on_their_way_[device].push_back(report);
  core_->journal.Event(core_->now, EventCode::kReportTaken, device);
  core_->Push(core_->now + delay_, EventClass::kReport, device, {EventKind::kReport, device, 0});
  // On the grid, however late this one was; a run that is slower than that skips some.
  const std::int64_t next = core_->now.ns() / interval_.ns() + 1;
  PlanNext(device, Time::Nanos(next * interval_.ns()));
}

DeviceReport Reports::Receive(std::uint32_t device) {
  const DeviceReport report = on_their_way_[device].front();
  on_their_way_[device].pop_front();
  return report;
}

}  // namespace schedtwin
