#include "policies/runtime/world.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"
#include "policies/runtime/fleet.h"
#include "policies/runtime/operations.h"
#include "policies/runtime/reports.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world_facets.h"

namespace schedtwin {
std::uint32_t World::SmallerLimit(std::uint32_t a, std::uint32_t b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

World::World(const WorldOptions& options, Policy* policy, TimeSource* time_source,
             std::span<const DeviceSetup> devices, std::span<RequestSource* const> sources,
             Recorder* recorder, RecordWants wants)
    : options_(options),
      policy_(policy),
      time_source_(time_source),
      core_(std::make_unique<RunCore>()),
      clock_facet_(std::make_unique<ClockFacet>(core_.get())) {
  SCHEDTWIN_CHECK(!devices.empty() && devices.size() < kMaxEntities &&
                  sources.size() < kMaxEntities);
  core_->recorder = recorder;
  core_->wants = recorder == nullptr ? RecordWants{} : wants;
  core_->tie_seed = options.tie_seed;
  core_->prefix_cache = options.prefix_cache;
  const bool identify_blocks = options.identify_blocks || options.prefix_cache;
  if (identify_blocks) core_->requests.KeepTexts(options.isolate_tenants);
  core_->journal.Attach(recorder, core_->wants.log);
  core_->turns.Reset(static_cast<std::uint32_t>(devices.size()), options.tie_seed);
  for (RequestSource* source : sources) core_->sources.push_back({.source = source});
  core_->open_sources = static_cast<std::uint32_t>(sources.size());
  views_.resize(devices.size());
  clocks_.resize(devices.size());
  inbox_.resize(devices.size());
  reply_events_.resize(devices.size());
  decisions_.resize(devices.size());
  ids_.resize(sources.size());
  SCHEDTWIN_CHECK(options.models.size() <= 64 && options.devices_at_start <= devices.size());
  if (!options.models.empty()) core_->models = static_cast<std::uint32_t>(options.models.size());
  kind_ = devices[0].port->info().kind;
  core_->kind = kind_;
  for (std::uint32_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo info = devices[i].port->info();
    SCHEDTWIN_CHECK(info.kind == kind_);
    DeviceView& view = views_[i];
    view.id = {i};
    view.queue_depth = info.queue_depth;
    view.total_blocks = info.total_blocks;
    view.block_tokens = info.block_tokens;
    view.max_step_tokens = info.max_step_tokens;
    view.max_model_len_tokens = info.max_model_len_tokens;
    view.host_blocks = info.host_blocks;
    max_model_len_tokens_ = SmallerLimit(max_model_len_tokens_, info.max_model_len_tokens);
    const std::uint64_t held_tokens = std::uint64_t{info.total_blocks} * info.block_tokens;
    max_model_len_tokens_ =
        SmallerLimit(max_model_len_tokens_,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(held_tokens, 0xffffffffu)));
    max_step_tokens_ = SmallerLimit(max_step_tokens_, info.max_step_tokens);
    drivers_.push_back(std::make_unique<DeviceDriver>(core_.get(), devices[i], this, &view,
                                                      &clocks_[i], identify_blocks));
    memory_facets_.push_back(&drivers_.back()->memory());
    cache_facets_.push_back(&drivers_.back()->memory());
  }
  operations_ = std::make_unique<Operations>(core_.get(), drivers_, views_, options.models);
  core_->operations = operations_.get();
  fleet_ = std::make_unique<Fleet>(core_.get(), drivers_, views_, operations_.get(), &options_);
  reports_ =
      std::make_unique<Reports>(core_.get(), views_, options.report_interval, options.report_delay);
  actions_facet_ =
      std::make_unique<ActionsFacet>(core_.get(), &drivers_, operations_.get(), fleet_.get());
  services_facet_ =
      std::make_unique<ServicesFacet>(core_.get(), &drivers_, operations_.get(), options.lengths);
  clock_ = clock_facet_.get();
  actions_ = actions_facet_.get();
  services_ = services_facet_.get();
  memories_ = memory_facets_;
  caches_ = cache_facets_;
  devices_ = views_;
  standing_clocks_ = clocks_.data();
  window_ = core_->requests.window();
  seed_ = options.seed;
}

World::~World() = default;

RunSummary World::Run() {
  policy_->OnStart(*this);
  AfterCallback();
  for (std::uint32_t i = 0; i < core_->sources.size(); ++i) PullSource(i);
  return Loop();
}

RunSummary World::Loop() {
  for (;;) {
    if (failed_device_.valid()) {
      return Summary(RunResult::kFailed,
                     "device " + std::to_string(failed_device_.value) + " failed");
    }
    if (Finished()) return Summary(RunResult::kFinished, "");
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      return Summary(RunResult::kInterrupted, "stopped from outside");
    }
    // Turns are due before the first instant only: of devices that OnStart has poked.
    const Time next = core_->turns.empty() ? core_->events.NextTime() : core_->now;
    if (next.infinite() && !time_source_->MayWake()) {
      return Summary(RunResult::kStalled, "nothing is planned; " + StallDetail());
    }
    if (next > kLastInstant && !next.infinite()) {
      return Summary(RunResult::kStalled, "time has passed 146 years; " + StallDetail());
    }
    LatchAll(time_source_->Advance(next));
    if (!RunInstant()) {
      return Summary(RunResult::kLivelocked,
                     "more than " + std::to_string(options_.max_callbacks_per_instant) +
                         " callbacks at " + std::to_string(core_->now.ns()) + " ns; " +
                         StallDetail());
    }
    if (idle_timers_ > options_.max_idle_timers) {
      if (core_->progress == progress_seen_ && OnlyTimersPlanned()) {
        return Summary(RunResult::kStalled, "only timers fire; " + StallDetail());
      }
      idle_timers_ = 0;
    }
    if (core_->idle_steps > options_.max_idle_steps) {
      return Summary(RunResult::kStalled, "steps and operations end, but get no request on (" +
                                              std::to_string(core_->preemptions) +
                                              " preemptions); " + StallDetail());
    }
  }
}

bool World::RunInstant() {
  callbacks_ = 0;
  for (;;) {
    if (callbacks_ > options_.max_callbacks_per_instant) return false;
    std::uint32_t device = 0;
    if (core_->events.NextTime() <= core_->now) {
      Dispatch(core_->events.Pop());
    } else if (core_->turns.Pop(&device)) {
      Turn(device);
    } else {
      return true;
    }
#ifdef SCHEDTWIN_HARDENED
    CheckInvariants();
#endif
  }
}

void World::LatchAll(Time now) {
  SCHEDTWIN_CHECK(now >= core_->now);
  core_->LatchNow(now);
  clock_facet_->Latch(now);
  if (core_->events.NextTime() < now) core_->events.Latch(now);
  if (core_->waiting_sources == 0 || !time_source_->MayWake()) return;
  for (std::uint32_t i = 0; i < core_->sources.size(); ++i) {
    if (core_->sources[i].waiting) PullSource(i);  // it may be what has woken the clock
  }
}

bool World::AloneAtThisInstant() const {
  return core_->turns.empty() && core_->events.NextTime() > core_->now;
}

void World::AfterCallback() {
  ++callbacks_;
  if (core_->open_transactions > 0) [[unlikely]]
    CloseTransactions();
  for (std::size_t i = 0; i < core_->to_start.size(); ++i) {
    drivers_[core_->to_start[i]]->StartIfIdle();
  }
  core_->to_start.clear();
  fleet_->RemoveDrained();
  core_->requests.Reclaim();
  while (!core_->pull_again.empty()) {
    const std::uint32_t source = core_->pull_again.back();
    core_->pull_again.pop_back();
    if (core_->sources[source].waiting) PullSource(source);
  }
}

void World::CloseTransactions() {
  for (const std::unique_ptr<DeviceDriver>& driver : drivers_) driver->memory().CloseTransactions();
}

void World::PullSource(std::uint32_t index) {
  SourceState& source = core_->sources[index];
  core_->waiting_sources -= source.waiting ? 1 : 0;
  source.waiting = false;
  switch (source.source->Next(&source.next)) {
    case Pull::kRequest:
      source.pending = true;
      core_->Push(std::max(source.next.arrival, core_->now), EventClass::kArrival, index,
                  {EventKind::kArrival, index, 0});
      return;
    case Pull::kLater:
      source.waiting = true;
      ++core_->waiting_sources;
      return;
    case Pull::kDry:
      source.dry = true;
      --core_->open_sources;
      return;
  }
}

bool World::OnlyTimersPlanned() const {
  if (time_source_->MayWake()) return false;
  if (operations_->pending() > 0 || fleet_->changes_to_come()) return false;
  if (core_->cancels_to_come > 0) return false;
  for (const SourceState& source : core_->sources) {
    if (source.pending) return false;
  }
  for (const DeviceView& view : views_) {
    if (view.queued > 0) return false;
  }
  return true;
}

bool World::Finished() const {
  return core_->requests.live_requests() == 0 && core_->open_sources == 0;
}

void World::Post(const DeviceReply& reply, Time due) {
  const std::uint32_t device = reply.device.value;
  if (reply.status == ReplyStatus::kFailed) [[unlikely]] {
    failed_device_ = reply.device;
    return;
  }
  if (reply.kind == ReplyKind::kOperationDone) [[unlikely]] {
    operations_->OnReply(reply, due);
    return;
  }
  if (reply.status == ReplyStatus::kAborted) [[unlikely]]
    core_->events.Cancel(reply_events_[device]);
  inbox_[device] = reply;  // one step at a time is in flight on a device
  reply_events_[device] =
      core_->Push(due, EventClass::kDone, device, {EventKind::kReply, device, 0});
}

}  // namespace schedtwin
