// RandomPolicy: a policy that does anything: legal, illegal and senseless actions at random, for as
// long as its run lasts; and RandomShape, the run that a seed stands for: devices, queues, memory,
// faults, traffic. The same seed does the same again. It checks what it reads as it goes. One
// thread; used once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_RANDOM_POLICY_H_
#define SCHEDTWIN_TESTS_SUPPORT_RANDOM_POLICY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "policies/api/policy.h"
#include "policies/api/rng.h"
#include "policies/runtime/world.h"
#include "tests/support/test_run.h"

namespace schedtwin {

/// What kind of run a seed stands for.
struct RandomShape {
  bool one_shot = false;
  bool with_kv = true;
  bool identify = false;
  bool clears_up = true;  ///< gives all up after a while; else the run may stall, or is stopped
  std::uint32_t devices = 1;
  std::uint32_t depth = 1;
  std::uint32_t total_blocks = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t max_step_tokens = 0;
  std::uint32_t sense = 50;  ///< percent of actions that mean well
  std::uint64_t tie_seed = 0;
  bool real_clock = false;  ///< wakes early and late, as a clock that does not jump
  std::uint32_t host_blocks = 0;
  std::uint32_t start_devices = 0;
  bool links = false;
  std::vector<ModelInfo> models;
  std::vector<Fault> faults;
  Duration report_interval, report_delay, decision_cost;
  bool deadlines = false;
  bool cached = false;  ///< blocks are found by their text
  bool isolate = false;

  static RandomShape Of(std::uint64_t seed) {
    Rng rng(seed, "shape");
    RandomShape shape;
    shape.one_shot = rng.Below(6) == 0;
    shape.with_kv = !shape.one_shot && rng.Below(8) != 0;
    shape.identify = shape.with_kv && rng.Below(2) == 0;
    shape.clears_up = rng.Below(5) != 0;
    shape.devices = 1 + rng.Below(3);
    shape.depth = 1 + rng.Below(3);
    constexpr std::uint32_t kBlockTokens[] = {1, 3, 4, 16};
    shape.block_tokens = shape.with_kv ? kBlockTokens[rng.Below(4)] : 0;
    shape.total_blocks = shape.with_kv ? (20 + rng.Below(60)) / shape.block_tokens + 2 : 0;
    shape.max_step_tokens = rng.Below(3) == 0 ? 16 + rng.Below(32) : 0;
    shape.sense = rng.Below(101);
    shape.tie_seed = rng.Below(4) == 0 ? 1 + rng.Below(100) : 0;
    shape.real_clock = rng.Below(3) == 0;
    shape.links = rng.Below(4) != 0;
    shape.host_blocks = shape.with_kv && rng.Below(2) == 0 ? rng.Below(40) : 0;
    if (shape.devices > 1 && rng.Below(3) == 0) shape.start_devices = 1 + rng.Below(2);
    if (rng.Below(4) == 0) shape.models = {{"small", 10}, {"middle", 20}, {"large", 40}};
    for (std::uint32_t i = rng.Below(2) == 0 ? 0 : 1 + rng.Below(3); i > 0; --i) {
      Fault fault;
      fault.device = {rng.Below(shape.devices)};
      fault.at = Time::Nanos(rng.Below(900));
      if (rng.Below(6) != 0) fault.until = fault.at + Duration::Nanos(rng.Below(200));
      fault.loses_requests = rng.Below(2) == 0;
      shape.faults.push_back(fault);
    }
    if (rng.Below(3) == 0) shape.report_interval = Duration::Nanos(20 + rng.Below(200));
    shape.report_delay = Duration::Nanos(rng.Below(2) * rng.Below(100));
    if (rng.Below(4) == 0) shape.decision_cost = Duration::Nanos(1 + rng.Below(9));
    shape.deadlines = rng.Below(2) == 0;
    Rng cache(seed, "cache shape");
    shape.cached = shape.with_kv && cache.Below(3) == 0;
    shape.isolate = cache.Below(4) == 0;
    return shape;
  }

  DeviceInfo Device() const {
    DeviceInfo device = one_shot ? SmallOneShot() : SmallDecoder();
    device.queue_depth = depth;
    device.total_blocks = total_blocks;
    device.block_tokens = block_tokens;
    device.max_step_tokens = max_step_tokens;
    device.host_blocks = host_blocks;
    device.block_bytes = 64;
    device.layers = 4;
    if (!models.empty()) device.weights_bytes = 45;
    if (links) {
      device.host_link = device.peer_link =
          device.load_link = {Duration::Nanos(3), 100'000'000'000};
    }
    return device;
  }

  WorldOptions Options(std::uint64_t seed) const {
    WorldOptions options;
    options.seed = seed;
    options.identify_blocks = identify;
    options.prefix_cache = cached;
    options.isolate_tenants = isolate;
    options.tie_seed = tie_seed;
    options.max_callbacks_per_instant = 2000;
    options.max_idle_timers = 1000;
    options.max_idle_steps = 1000;
    options.devices_at_start = start_devices;
    options.models = models;
    options.faults = faults;
    options.report_interval = report_interval;
    options.report_delay = report_delay;
    options.decision_cost.fixed = decision_cost;
    options.deadlines_cancel = deadlines;
    return options;
  }

  std::vector<RequestSpec> Requests(std::uint64_t seed) const {
    Rng rng(seed, "requests");
    std::vector<RequestSpec> requests;
    std::int64_t at = 0;
    for (std::uint32_t i = 8 + rng.Below(12); i > 0; --i) {
      at += rng.Below(3) == 0 ? 0 : 10 * rng.Below(6);
      RequestSpec spec = one_shot ? UnitRequest(at, rng.Below(10))
                                  : TokenRequest(at, rng.Below(24), rng.Below(16));
      if (rng.Below(4) == 0) spec.max_new_tokens = 1 + rng.Below(8);
      if (rng.Below(8) == 0) spec.leaves = spec.arrival + Duration::Nanos(rng.Below(300));
      if (rng.Below(6) == 0) spec.deadline = spec.arrival + Duration::Nanos(rng.Below(400));
      if (!models.empty()) spec.model = {rng.Below(10) == 0 ? rng.Below(4) : rng.Below(2)};
      if (!requests.empty() && rng.Below(5) == 0) {
        spec.parent = rng.Below(static_cast<std::uint32_t>(requests.size()));
      }
      requests.push_back(spec);
    }
    if (cached) GiveTexts(seed, &requests);
    return requests;
  }

  static void GiveTexts(std::uint64_t seed, std::vector<RequestSpec>* requests) {
    static constexpr ContentSegment kTexts[][3] = {{{1, 9}, {2, 7}, {3, 30}},
                                                   {{1, 9}, {2, 3}, {4, 30}},
                                                   {{1, 9}, {2, 7}, {7, 9}},
                                                   {{1, 20}, {0, 3}, {2, 8}},
                                                   {{5, 4}, {5, 4}, {5, 16}}};
    Rng rng(seed, "texts");
    for (RequestSpec& spec : *requests) {
      if (rng.Below(5) > 0) spec.content = kTexts[rng.Below(5)];
      if (rng.Below(2) == 0) spec.output_content = 7;
      spec.tenant = rng.Below(2);
      spec.adapter = rng.Below(8) == 0;
    }
  }
};

class RandomPolicy final : public Policy {
 public:
  /// `run` may be null: then the books are not checked.
  RandomPolicy(const RandomShape& shape, std::uint64_t seed, TestRun* run)
      : shape_(shape), rng_(seed, "random policy"), run_(run) {}

  void OnStart(Context& context) override {
    context.clock().Arm(Time::Nanos(1500), kClearUp);
    context.clock().Arm(Time::Nanos(7), kTick);
    if (Percent(20)) Act(context);
  }
  void OnArrival(Context& context, RequestId request) override {
    arrived_ = std::max(arrived_, request.value + 1);
    EXPECT_TRUE(unseen_.insert(request.value).second) << "arrived twice";
    const RequestView view = context.request(request);
    EXPECT_TRUE(!view.parent().valid() || view.parent().value < request.value);
    Callback(context);
    if (cleared_ && view.state() != RequestState::kEnded) {
      context.actions().Finish(request, EndReason::kTimedOut);
    }
  }
  void OnCancel(Context& context, RequestId request, CancelBy) override {
    EXPECT_TRUE(context.live(request));
    Callback(context);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    EXPECT_LE(done.start, done.end);
    EXPECT_LE(done.end, context.now());
    ++operations;
    if (done.ok && done.request.valid()) {
      EXPECT_TRUE(context.live(done.request));
      if (done.kind != OperationKind::kStage && context.live(done.request)) {
        EXPECT_EQ(context.request(done.request).device(), done.device);
      }
    }
    Callback(context);
  }
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override {
    if (change == DeviceChange::kFailed) {
      EXPECT_EQ(context.device(device).queued, 0u);
    }
    ++changes;
    Callback(context);
  }
  void OnReport(Context& context, const DeviceReport& report) override {
    EXPECT_LE(report.taken + shape_.report_delay, context.now());
    Callback(context);
  }
  void OnTimer(Context& context, std::uint64_t tag) override {
    Callback(context);
    if (tag == kTick && (!cleared_ || !shape_.clears_up) && context.now() < Time::Nanos(4000)) {
      context.actions().Poke({rng_.Below(shape_.devices)});
      context.clock().Arm(context.now() + Duration::Nanos(13), kTick);
    }
    if (tag != kClearUp || !shape_.clears_up) return;
    cleared_ = true;
    for (std::uint32_t id = 0; id < arrived_; ++id) {
      if (context.live({id})) context.actions().Finish({id}, EndReason::kTimedOut);
    }
  }
  void OnSlotFree(Context& context, DeviceId device) override {
    EXPECT_GT(context.device(device).depth_left(), 0u);
    Callback(context);
    if (Percent(shape_.sense)) Serve(context, device);
  }
  void OnPlanStarting(Context& context, PlanId plan) override {
    plans_.push_back(plan);
    Callback(context);
  }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    std::uint32_t before = 0;
    for (const RequestId id : done.finished) {
      const RequestState state = context.request(id).state();
      EXPECT_TRUE(state == RequestState::kEnded || state == RequestState::kHeld);
      EXPECT_LE(before, id.value) << "in order of id";
      before = id.value;
    }
    for (const Entry& entry : done.entries) EXPECT_TRUE(context.live(entry.request));
    EXPECT_LE(done.start, done.end);
    Callback(context);
  }

  void OnCacheChange(Context& context, const CacheChange& change) override {
    EXPECT_GT(change.stored_blocks + change.evicted_blocks, 0u);
    Callback(context);
  }

  std::uint64_t callbacks() const { return callbacks_; }
  std::uint64_t operations = 0;
  std::uint64_t changes = 0;
  std::uint64_t adopted() const { return adopted_; }

 private:
  static constexpr std::uint64_t kTick = 998;  ///< keeps slots coming
  static constexpr std::uint64_t kClearUp = 999;

  bool Percent(std::uint32_t percent) { return rng_.Below(100) < percent; }

  void Callback(Context& context) {
    if (run_ != nullptr) run_->world->CheckInvariants();
    CheckViews(context);
    if (++callbacks_ > 3000) stop = true;
    if (cleared_) return;
    for (std::uint32_t actions = rng_.Below(5); actions > 0; --actions) Act(context);
  }

  /// What must be true of what a policy reads, whatever it has done.
  void CheckViews(const Context& context) {
    for (std::uint32_t id = 0; id < arrived_; ++id) {
      if (!context.live({id})) continue;
      const RequestView view = context.request({id});
      ASSERT_LE(view.scheduled_tokens(), view.known_tokens()) << id;
      const bool over = view.state() == RequestState::kEnded || view.state() == RequestState::kHeld;
      if (shape_.one_shot || over) continue;
      const bool idle = !view.device().valid() || context.device(view.device()).idle();
      if (view.in_flight() || (view.state() == RequestState::kStanding && !idle)) {
        ASSERT_GE(view.known_tokens(), view.prompt_tokens() + view.output_tokens()) << id;
      } else {
        ASSERT_EQ(view.known_tokens(), view.prompt_tokens() + view.output_tokens()) << id;
      }
    }
  }

  DeviceId AnyDevice() {
    return Percent(97) ? DeviceId{rng_.Below(shape_.devices)} : DeviceId{shape_.devices};
  }
  RequestId AnyRequest() {
    if (Percent(2)) return RequestId{};
    return {rng_.Below(arrived_ + 1)};
  }
  PlanId AnyPlan() {
    if (plans_.empty() || Percent(3)) return PlanId{};
    return plans_[plans_.size() - 1 -
                  rng_.Below(
                      std::min<std::uint32_t>(4, static_cast<std::uint32_t>(plans_.size())))];
  }
  std::uint32_t AnyTokens() {
    if (Percent(1)) return 0xffffffffu - rng_.Below(20);
    return rng_.Below(30);
  }

  void Act(Context& context) {
    if (shape_.cached && Percent(20)) return Caches(context);
    switch (rng_.Below(16)) {
      case 0:
      case 1:
        return Launch(context, AnyDevice());
      case 2:
        return Amend(context);
      case 3:
        context.actions().Withdraw(AnyPlan());
        return;
      case 4:
        context.actions().Abort(AnyPlan(), AnyAbort());
        return;
      case 5:
      case 6:
        context.actions().Join(AnyDevice(), AnyRequest());
        return;
      case 7:
        context.actions().Leave(AnyDevice(), AnyRequest());
        return;
      case 8:
        if (Percent(30)) Preempt(context);
        return;
      case 9:
        if (Percent(3)) context.actions().Finish(AnyRequest(), EndReason(rng_.Below(6)));
        return;
      case 10:
        return Memories(context);
      case 11:
        return Timers(context);
      case 12:
        if (Percent(60)) context.actions().Poke(AnyDevice());
        return;
      case 13:
        return Others(context);
      case 14:
        return Move(context);
      case 15:
        return Place(context);
    }
  }

  AbortAt AnyAbort() {
    if (Percent(60)) return AbortAt::kStep;
    return Percent(50) ? AbortAt::kLayer : AbortAt::kNow;
  }

  Tier AnyTier() { return Percent(50) ? Tier::kDevice : Tier::kHost; }

  /// KV from here to there.
  void Move(Context& context) {
    if (!operations_.empty() && Percent(15)) {
      context.actions().CancelOperation(
          operations_[rng_.Below(static_cast<std::uint32_t>(operations_.size()))]);
      return;
    }
    TransferSpec spec;
    spec.request = AnyRequest();
    spec.from = AnyDevice();
    spec.to = AnyDevice();
    spec.from_tier = AnyTier();
    spec.to_tier = AnyTier();
    spec.blocking = Percent(25);
    spec.live = Percent(25);
    spec.keep = Percent(25);
    if (context.live(spec.request) && Percent(shape_.sense)) {
      const RequestView view = context.request(spec.request);
      spec.from = view.device();
      spec.from_tier = view.tier();
      if (spec.from_tier == Tier::kHost) spec.to_tier = Tier::kDevice;
    }
    const Started started = context.actions().Transfer(spec);
    if (started.refusal == Refusal::kNone) operations_.push_back(started.id);
  }

  /// What is where.
  void Place(Context& context) {
    Actions& actions = context.actions();
    const ModelId model = {rng_.Below(4)};
    switch (rng_.Below(8)) {
      case 0:
      case 1:
        operations_.push_back(actions.Load(AnyDevice(), model).id);
        return;
      case 2:
        operations_.push_back(actions.Unload(AnyDevice(), model).id);
        return;
      case 3:
        if (Percent(30)) actions.Scale(rng_.Below(shape_.devices + 2));
        return;
      case 4:
        actions.SetRole(AnyDevice(), DeviceRole(rng_.Below(3)));
        return;
      case 5:
        actions.HoldResponse(AnyRequest());
        return;
      case 6:
        actions.ReleaseResponse(AnyRequest());
        return;
      case 7:
        operations_.push_back(
            actions.Transfer({.weights = model, .from = AnyDevice(), .to = AnyDevice()}).id);
        return;
    }
  }

  void Preempt(Context& context) {
    constexpr PreemptMode kModes[] = {PreemptMode::kRecompute, PreemptMode::kPause,
                                      PreemptMode::kSwap, PreemptMode::kSwapBlocking};
    context.actions().Preempt(AnyRequest(), kModes[rng_.Below(4)]);
  }

  void Others(Context& context) {
    switch (rng_.Below(4)) {
      case 0:
        context.actions().Route(AnyRequest(), AnyDevice(), Percent(80) ? DeviceId{} : AnyDevice(),
                                Percent(90) ? ModelId{} : ModelId{rng_.Below(4)});
        return;
      case 1:
        context.services().TransferTime(AnyDevice(), AnyDevice(), rng_.Below(100));
        context.services().LoadTime(AnyDevice(), {rng_.Below(4)});
        return;
      case 2:
        context.actions().Note("a note");
        return;
      case 3:
        context.services().Predict(MakePlan(context, AnyDevice()));
        return;
    }
  }

  void Memories(Context& context) {
    Memory& memory = context.memory({rng_.Below(shape_.devices)});
    std::vector<MemoryMark> marks;
    const bool transaction = Percent(30);
    for (std::uint32_t i = transaction ? 1 + rng_.Below(6) : 1; i > 0; --i) {
      if (transaction && Percent(30)) marks.push_back(memory.Begin());
      if (Percent(70)) {
        const RequestId request = AnyRequest();
        std::uint32_t tokens = AnyTokens();
        if (context.live(request) && Percent(70)) tokens = context.request(request).known_tokens();
        memory.Reserve(request, tokens);
      } else if (Percent(50)) {
        memory.Release(AnyRequest());
      }
      if (transaction && Percent(10)) Act(context);  // mostly refused in here
    }
    // Closed in any order, with any mark, or not at all.
    while (!marks.empty()) {
      const std::size_t at =
          Percent(80) ? marks.size() - 1 : rng_.Below(static_cast<std::uint32_t>(marks.size()));
      if (Percent(50))
        memory.Rollback(marks[at]);
      else if (Percent(80))
        memory.Commit(marks[at]);
      marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (Percent(2)) memory.Rollback(MemoryMark{rng_.Below(5)});
  }

  void Caches(Context& context) {
    const DeviceId device = {rng_.Below(shape_.devices)};
    Cache& cache = context.cache(device);
    const RequestId request = AnyRequest();
    switch (rng_.Below(6)) {
      case 0:
        context.actions().Pin(request, Percent(40));
        return;
      case 1:
        if (Percent(30)) context.actions().Evict(AnyDevice(), rng_.Below(5));
        return;
      default: {
        const std::uint32_t hit = cache.HitTokens(request);
        const std::uint32_t hit_free = cache.HitFreeBlocks(request);
        const std::uint32_t free = context.device(device).free_blocks;
        const std::uint32_t adopted = cache.Adopt(request, AnyTokens());
        adopted_ += adopted;
        EXPECT_LE(adopted, hit);
        EXPECT_LE(free - context.device(device).free_blocks, hit_free);
        return;
      }
    }
  }

  void Timers(Context& context) {
    Clock& clock = context.clock();
    const Time when = Time::Nanos(context.now().ns() - 5 + rng_.Below(60));
    if (timers_.empty() || Percent(30)) {
      if (Percent(30)) timers_.push_back(clock.Arm(when, rng_.Below(10)));
      return;
    }
    const TimerId timer = timers_[rng_.Below(static_cast<std::uint32_t>(timers_.size()))];
    if (Percent(50)) {
      clock.Rearm(timer, when);
    } else {
      clock.Cancel(timer);
    }
  }

  /// Entries of all kinds, kept in `entries_` until the next call.
  Plan MakePlan(Context& context, DeviceId device) {
    entries_.clear();
    Plan plan{.device = device, .standing = Percent(40)};
    const bool decodes = Percent(40);
    for (std::uint32_t i = rng_.Below(5); i > 0; --i) {
      const RequestId request = AnyRequest();
      if (!context.live(request) || !Percent(85)) {
        entries_.push_back({request, AnyTokens()});
        continue;
      }
      const RequestView view = context.request(request);
      if (decodes && view.phase() != Phase::kDecode) continue;
      std::uint32_t tokens = view.next_tokens();
      if (!shape_.one_shot && tokens > 1 && Percent(40)) tokens = 1 + rng_.Below(tokens);
      if (device.value < shape_.devices && Percent(80)) {
        context.memory(device).Reserve(request, view.scheduled_tokens() + tokens);
      }
      entries_.push_back({request, tokens});
    }
    plan.entries = entries_;
    if (decodes || Percent(10)) plan.max_steps = rng_.Below(7);
    if (Percent(10)) plan.padding_tokens = rng_.Below(4);
    if (Percent(15)) plan.earliest = Time::Nanos(context.now().ns() - 10 + rng_.Below(60));
    if (Percent(15)) plan.latest = Time::Nanos(context.now().ns() - 5 + rng_.Below(60));
    plan.late_binding = Percent(25);
    return plan;
  }

  void Launch(Context& context, DeviceId device) {
    const Launched launched = context.actions().Launch(MakePlan(context, device));
    if (launched.ok()) plans_.push_back(launched.id);
  }

  void Amend(Context& context) {
    const DeviceId device = AnyDevice();
    context.actions().Amend(AnyPlan(), MakePlan(context, device));
  }

  /// Means well: joins who decodes, and launches the set or what is to be computed.
  void Serve(Context& context, DeviceId device) {
    if (cleared_) return;
    entries_.clear();
    for (std::uint32_t id = 0; id < arrived_; ++id) {
      if (!context.live({id})) continue;
      const RequestView view = context.request({id});
      if (view.state() == RequestState::kHeld) context.actions().ReleaseResponse({id});
      if (view.state() != RequestState::kWaiting || view.in_flight()) continue;
      if (view.tier() == Tier::kHost && view.device() == device) {
        const Started back = context.actions().Transfer({.request = {id},
                                                         .from = device,
                                                         .to = device,
                                                         .from_tier = Tier::kHost,
                                                         .to_tier = Tier::kDevice});
        if (back.refusal == Refusal::kNone) operations_.push_back(back.id);
        continue;
      }
      if (!context.device(device).loaded(view.model())) continue;
      if (view.device().valid() && view.device() != device) continue;
      if (!shape_.one_shot && view.phase() == Phase::kDecode && Percent(60) &&
          context.actions().Join(device, {id}) == Refusal::kNone) {
        continue;
      }
      if (shape_.cached && Percent(60)) adopted_ += context.cache(device).Adopt({id}, 0xffffffffu);
      if (context.memory(device).Reserve({id}, view.scheduled_tokens() + view.next_tokens())) {
        entries_.push_back({{id}, view.next_tokens()});
      }
      if (entries_.size() == 3) break;
    }
    const Launched launched =
        context.actions().Launch({.device = device,
                                  .entries = entries_,
                                  .standing = !shape_.one_shot,
                                  .max_steps = entries_.empty() ? 1 + rng_.Below(6) : 1});
    if (launched.ok()) plans_.push_back(launched.id);
  }

 public:
  std::atomic<bool> stop = false;

 private:
  RandomShape shape_;
  Rng rng_;
  TestRun* run_;
  std::vector<PlanId> plans_;
  std::vector<TimerId> timers_;
  std::vector<OpId> operations_;
  std::vector<Entry> entries_;
  std::set<std::uint32_t> unseen_;
  std::uint32_t arrived_ = 0;
  std::uint64_t callbacks_ = 0;
  std::uint64_t adopted_ = 0;  ///< tokens
  bool cleared_ = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_RANDOM_POLICY_H_
