#include "policies/runtime/world.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world_facets.h"

namespace schedtwin {
namespace {

// Later than this the run ends: sums of times stay far from overflow.
constexpr Time kLastInstant = Time::Nanos(std::int64_t{1} << 62);

std::uint32_t SmallerLimit(std::uint32_t a, std::uint32_t b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

}  // namespace

World::World(const WorldOptions& options, Policy* policy, TimeSource* time_source,
             std::span<const DeviceSetup> devices, std::span<RequestSource* const> sources,
             Recorder* recorder, RecordWants wants)
    : options_(options),
      policy_(policy),
      time_source_(time_source),
      core_(std::make_unique<RunCore>()),
      clock_facet_(std::make_unique<ClockFacet>(core_.get())),
      actions_facet_(std::make_unique<ActionsFacet>(core_.get(), &drivers_)),
      services_facet_(std::make_unique<ServicesFacet>(core_.get(), &drivers_, options.lengths)) {
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
    max_model_len_tokens_ = SmallerLimit(max_model_len_tokens_, info.max_model_len_tokens);
    const std::uint64_t held_tokens = std::uint64_t{info.total_blocks} * info.block_tokens;
    max_model_len_tokens_ =
        SmallerLimit(max_model_len_tokens_,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(held_tokens, 0xffffffffu)));
    max_step_tokens_ = SmallerLimit(max_step_tokens_, info.max_step_tokens);
    drivers_.push_back(std::make_unique<DeviceDriver>(
        core_.get(), devices[i].port, this, &view, &clocks_[i], devices[i].model, identify_blocks));
    memory_facets_.push_back(&drivers_.back()->memory());
    cache_facets_.push_back(&drivers_.back()->memory());
  }
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

void World::Dispatch(const Event& event) {
  switch (event.kind) {
    case EventKind::kReply:
      DeliverReply(event.index);
      return;
    case EventKind::kTimer:
      core_->journal.Event(core_->now, EventCode::kTimer, event.word);
      if (core_->progress == progress_seen_) {
        ++idle_timers_;
      } else {
        idle_timers_ = 0;
        progress_seen_ = core_->progress;
      }
      policy_->OnTimer(*this, event.word);
      AfterCallback();
      return;
    case EventKind::kArrival:
      DeliverArrival(event.index);
      return;
    case EventKind::kPlanStarting:
    case EventKind::kPlanRetry: {
      const PlanId plan = PlanId::FromWord(event.word);
      if (event.kind == EventKind::kPlanRetry) {
        core_->journal.Event(core_->now, EventCode::kPlanOpened, event.word);
      }
      if (event.kind == EventKind::kPlanStarting && core_->plans.Find(plan) != nullptr) {
        DeliverPlanStarting(event.index, plan);
      } else {
        drivers_[event.index]->StartIfIdle();
      }
      return;
    }
    case EventKind::kPlanDropped: {
      DeviceDriver& driver = *drivers_[event.index];
      DeliverDone(driver, driver.DroppedDone(PlanId::FromWord(event.word)));
      return;
    }
    case EventKind::kCacheChange: {
      const CacheChange change = drivers_[event.index]->memory().TakeCacheChange();
      core_->journal.Event(core_->now, EventCode::kCacheChange, change.device.value,
                           static_cast<std::uint64_t>(change.tier),
                           change.stored_blocks | (std::uint64_t{change.evicted_blocks} << 32));
      policy_->OnCacheChange(*this, change);
      AfterCallback();
      return;
    }
  }
}

void World::Turn(std::uint32_t device) {
  DeviceDriver& driver = *drivers_[device];
  if (driver.continuing() && driver.Continue()) {
    DeliverDone(driver, driver.done());  // owes a slot-free, in a turn of its own
    return;
  }
  if (!core_->turns.TakeSlotFree(device)) return;
  const std::uint32_t depth_left = views_[device].depth_left();
  if (depth_left == 0) return;
  core_->journal.Event(core_->now, EventCode::kSlotFree, device, depth_left);
  policy_->OnSlotFree(*this, {device});
  AfterCallback();
}

void World::DeliverArrival(std::uint32_t source_index) {
  SourceState& source = core_->sources[source_index];
  const RequestSpec spec = source.next;
  source.pending = false;
  const bool one_shot = kind_ == ModelKind::kOneShot;
  std::uint32_t limit = spec.max_new_tokens;
  bool fits = one_shot ? spec.units > 0 && (max_step_tokens_ == 0 || spec.units <= max_step_tokens_)
                       : spec.prompt_tokens > 0 && spec.output_tokens > 0;
  if (!one_shot && max_model_len_tokens_ > 0) {
    fits = fits && spec.prompt_tokens < max_model_len_tokens_;
    limit = SmallerLimit(limit, fits ? max_model_len_tokens_ - spec.prompt_tokens : 0);
  }
  if (one_shot || limit == 0) limit = one_shot ? 0 : 0xffffffffu - spec.prompt_tokens;
  const RequestId id = core_->requests.Add(spec, kind_, limit);
  window_ = core_->requests.window();
  RequestFate& fate = core_->requests.fate(id.value);
  fate.source = source_index;
  fate.source_index = source.yielded++;
  fate.admitted = core_->now;
  first_arrival_ = std::min(first_arrival_, spec.arrival);
  ++core_->progress;
  core_->journal.Event(core_->now, EventCode::kArrival, id.value,
                       spec.prompt_tokens | (std::uint64_t{spec.units} << 32), limit);
  PullSource(source_index);
  if (fits) {
    policy_->OnArrival(*this, id);
  } else {
    core_->EndRequest(id.value, EndReason::kRejected, core_->now);
  }
  AfterCallback();
}

void World::DeliverReply(std::uint32_t device) {
  DeviceDriver& driver = *drivers_[device];
  for (;;) {
    const DeviceReply& reply = inbox_[device];
    if (reply.measured(core_->now)) [[unlikely]] {  // what a policy sees of it cannot be computed
      core_->journal.Event(core_->now, EventCode::kStepTimes, reply.plan.word(),
                           static_cast<std::uint64_t>(reply.start.ns()),
                           static_cast<std::uint64_t>(reply.end.ns()));
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

void World::LatchAll(Time now) {
  SCHEDTWIN_CHECK(now >= core_->now);
  core_->now = now;
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

void World::AfterCallback() {
  ++callbacks_;
  if (core_->open_transactions > 0) [[unlikely]] {
    for (const std::unique_ptr<DeviceDriver>& driver : drivers_) {
      driver->memory().CloseTransactions();
    }
  }
  for (std::size_t i = 0; i < core_->to_start.size(); ++i) {
    drivers_[core_->to_start[i]]->StartIfIdle();
  }
  core_->to_start.clear();
  core_->requests.Reclaim();
  while (!core_->pull_again.empty()) {
    const std::uint32_t source = core_->pull_again.back();
    core_->pull_again.pop_back();
    if (core_->sources[source].waiting) PullSource(source);
  }
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
  if (reply.status != ReplyStatus::kOk) [[unlikely]] {
    failed_device_ = reply.device;
    return;
  }
  inbox_[device] = reply;  // one step at a time is in flight on a device
  core_->Push(due, EventClass::kDone, device, {EventKind::kReply, device, 0});
}

std::string World::StallDetail() const {
  std::string detail = std::to_string(core_->requests.live_requests()) + " requests live";
  const std::uint32_t oldest = core_->requests.OldestLive();
  if (oldest != RequestId::kNone) {
    const RequestView view = request({oldest});
    detail += ", the oldest is " + std::to_string(oldest) + " (" +
              std::to_string(view.prompt_tokens()) + " prompt tokens, " +
              std::to_string(view.output_tokens()) + " made)";
  }
  const DeviceView& device = views_[0];
  return detail + "; device 0 has " + std::to_string(device.free_blocks) + " of " +
         std::to_string(device.total_blocks) + " blocks free and " + std::to_string(device.queued) +
         " plans queued";
}

RunSummary World::Summary(RunResult result, std::string detail) {
  RunSummary summary;
  summary.result = result;
  summary.detail = std::move(detail);
  summary.requests = core_->requests.added();
  std::copy(std::begin(core_->ended), std::end(core_->ended), std::begin(summary.ended));
  summary.events = core_->journal.events();
  summary.steps = core_->steps;
  summary.preemptions = core_->preemptions;
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    summary.refusals[i] = core_->journal.refused(static_cast<Refusal>(i));
  }
  summary.outcome_digest = core_->outcome.value();
  summary.decision_digest = core_->journal.digest();
  summary.first_arrival = first_arrival_.infinite() ? Time() : first_arrival_;
  summary.last_end = core_->last_end;
  return summary;
}

void World::CheckInvariants() const {
  std::vector<std::uint64_t> owned(drivers_.size(), 0);
  std::vector<std::uint32_t> standing(drivers_.size(), 0);
  core_->requests.ForEachLive([&](std::uint32_t id) {
    const RequestHot& hot = core_->requests.hot(id);
    const RequestView view = request({id});
    SCHEDTWIN_CHECK(view.known_tokens() >= view.scheduled_tokens());
    SCHEDTWIN_CHECK(view.output_tokens() <= core_->requests.fate(id).limit_tokens);
    if (hot.device == DeviceId::kNone) {
      SCHEDTWIN_CHECK(hot.owned_blocks == 0 && hot.state != RequestState::kStanding);
      return;
    }
    DeviceDriver& driver = *drivers_[hot.device];
    const bool member = hot.state == RequestState::kStanding;
    standing[hot.device] += member;
    const std::uint32_t blocks = member ? driver.standing().OwnedBlocks(id) : hot.owned_blocks;
    owned[hot.device] += blocks;
    const KvPool& pool = driver.memory().pool();
    if (pool.identifies()) SCHEDTWIN_CHECK(pool.BlockTable(id).size() == blocks);
    if (views_[hot.device].total_blocks > 0) {
      SCHEDTWIN_CHECK(std::uint64_t{blocks} * views_[hot.device].block_tokens >=
                      view.scheduled_tokens());
    }
  });
  for (std::size_t i = 0; i < drivers_.size(); ++i) {
    const KvPool& pool = drivers_[i]->memory().pool();
    pool.CheckInvariants();
    SCHEDTWIN_CHECK(pool.cache() != nullptr ||
                    pool.total_blocks() == pool.free_blocks() + pool.fenced_blocks() + owned[i]);
    SCHEDTWIN_CHECK(views_[i].cached_blocks == pool.cached_blocks());
    SCHEDTWIN_CHECK(standing[i] == drivers_[i]->standing().size());
    SCHEDTWIN_CHECK(views_[i].free_blocks == pool.free_blocks());
    SCHEDTWIN_CHECK(views_[i].fenced_blocks == pool.fenced_blocks());
  }
}

}  // namespace schedtwin
