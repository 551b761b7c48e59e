// The contract, in each world: plans from launch to end. Every reason why one ends, the window, the
// standing set, queues of two and three, late binding; amend, withdraw, abort.
#include <map>
#include <tuple>

#include "tests/conformance/contract_testing.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

constexpr Duration kSlow = Duration::Millis(10);  ///< of a layer, so that a step is met running

class ContractPlans : public testing::TestWithParam<TestWorld> {};

/// Keeps why plans have ended, those of the Server included.
class Planner : public Server {
 public:
  void OnPlanDone(Context& context, const PlanDone& done) override {
    EXPECT_LE(done.start, done.end);
    EXPECT_LE(done.end, context.now());
    EXPECT_FALSE(context.actions().Withdraw(done.id) == Refusal::kNone) << "it has ended";
    ended[done.id.word()] = done.why;
    steps[done.id.word()] = done.steps;
  }
  PlanEnd EndOf(PlanId id) const { return ended.at(id.word()); }
  std::uint32_t StepsOf(PlanId id) const { return steps.at(id.word()); }

  std::map<std::uint64_t, PlanEnd> ended;
  std::map<std::uint64_t, std::uint32_t> steps;
};

TEST_P(ContractPlans, APlanEndsWithItsStepsOrWithARequest) {
  struct Scenario final : Planner {
    void OnSlotFree(Context& context, DeviceId device) override {
      EXPECT_EQ(context.actions().Launch({.device = device}).refusal, Refusal::kEmptyPlan);
      EXPECT_EQ(context.actions().Launch({.device = kNoDevice}).refusal, Refusal::kUnknownDevice);
      if (CanRun(context, {0}, device)) plans.push_back(LaunchOne(context, device, {0}));
    }
    std::vector<PlanId> plans;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 2)});
  ASSERT_EQ(played.policy->plans.size(), 2u);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[0]), PlanEnd::kSteps);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[1]), PlanEnd::kFinish);
}

TEST_P(ContractPlans, APlanKeepsToItsWindow) {
  struct Scenario final : Planner {
    void OnSlotFree(Context& context, DeviceId device) override {
      if (plan.valid()) return Planner::OnSlotFree(context, device);
      Plan asked = {.device = device};
      const Entry entry = {{0}, 8};
      EXPECT_TRUE(context.memory(device).Reserve({0}, 8));
      asked.entries = {&entry, 1};
      asked.earliest = opens = context.now() + Duration::Millis(3);
      asked.latest = context.now() + Duration::Millis(2);
      EXPECT_EQ(context.actions().Launch(asked).refusal, Refusal::kBadWindow);
      asked.latest = Time::Infinite();
      plan = context.actions().Launch(asked).id;
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Planner::OnPlanDone(context, done);
      if (done.id == plan) started = done.start;
    }
    PlanId plan;
    Time opens, started;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 3)});
  EXPECT_GE(played.policy->started, played.policy->opens);
}

/// Launches a slow step of request 0 and behind it one of request 1; then calls Behind at once.
class BehindASlowStep : public Planner {
 public:
  void OnSlotFree(Context& context, DeviceId device) override {
    if (ahead.valid()) return Planner::OnSlotFree(context, device);
    EXPECT_EQ(context.device(device).depth_left(), 2u);
    ahead = LaunchOne(context, device, {0});
    EXPECT_EQ(context.device(device).depth_left(), 1u);
    const Entry entry = {{1}, context.request({1}).next_tokens()};
    EXPECT_TRUE(context.memory(device).Reserve({1}, entry.tokens));
    Plan plan = {.device = device, .entries = {&entry, 1}};
    Shape(context, &plan);
    behind = context.actions().Launch(plan).id;
    EXPECT_EQ(context.actions().Launch(plan).refusal, Refusal::kQueueFull);
    At(context, 1);
  }
  void OnTimer(Context& context, std::uint64_t) override { Behind(context); }
  virtual void Shape(Context&, Plan*) {}
  virtual void Behind(Context&) {}

  PlanId ahead, behind;
};

struct SlowQueue : TwoWorlds {
  SlowQueue() {
    device.queue_depth = 2;
    layer_pause = kSlow;
  }
};

const std::vector<RequestSpec> kTwo = {TokenRequest(0, 8, 2), TokenRequest(0, 20, 2)};

TEST_P(ContractPlans, APlanThatComesTooLateIsMissed) {
  struct Scenario final : BehindASlowStep {
    void Shape(Context& context, Plan* plan) override {
      plan->latest = context.now() + Duration::Millis(1);
    }
  };
  SlowQueue run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kTwo);
  EXPECT_EQ(played.policy->EndOf(played.policy->behind), PlanEnd::kMissed);
  EXPECT_EQ(played.policy->StepsOf(played.policy->behind), 0u);
}

TEST_P(ContractPlans, APlanWithNothingLeftIsEmpty) {
  struct Scenario final : BehindASlowStep {
    void Behind(Context& context) override {
      EXPECT_EQ(context.actions().Finish({1}, EndReason::kRejected), Refusal::kNone);
    }
  };
  SlowQueue run;
  const auto played = Play<Scenario>(run, GetParam(), kTwo);
  EXPECT_EQ(played.policy->EndOf(played.policy->behind), PlanEnd::kEmpty);
  EXPECT_EQ(run.recorder.Find(0)->reason, EndReason::kCompleted);
}

TEST_P(ContractPlans, APlanIsWithdrawnUntilItStarts) {
  struct Scenario final : BehindASlowStep {
    void Behind(Context& context) override {
      EXPECT_EQ(context.actions().Withdraw(ahead), Refusal::kAlreadyStarted);
      EXPECT_EQ(context.actions().Withdraw(behind), Refusal::kNone);
      EXPECT_EQ(context.actions().Withdraw(behind), Refusal::kUnknownPlan);
      EXPECT_FALSE(context.request({1}).in_flight());
      EXPECT_EQ(context.request({1}).scheduled_tokens(), 0u) << "its promise is taken back";
    }
  };
  SlowQueue run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kTwo);
  EXPECT_EQ(played.policy->ended.count(played.policy->behind.word()), 0u);
}

TEST_P(ContractPlans, APlanIsAmendedUntilItStarts) {
  struct Scenario final : BehindASlowStep {
    void Behind(Context& context) override {
      const Entry chunk = {{1}, 5};
      const Plan shorter = {.device = kFirst, .entries = {&chunk, 1}};
      EXPECT_EQ(context.actions().Amend(ahead, shorter).refusal, Refusal::kAlreadyStarted);
      EXPECT_EQ(context.actions().Amend(PlanId{}, shorter).refusal, Refusal::kUnknownPlan);
      const Launched amended = context.actions().Amend(behind, shorter);
      EXPECT_EQ(amended.refusal, Refusal::kNone);
      EXPECT_EQ(amended.id, behind);
      EXPECT_EQ(context.request({1}).scheduled_tokens(), 5u);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      BehindASlowStep::OnPlanDone(context, done);
      if (done.id == behind) tokens = done.entries[0].tokens;
    }
    std::uint32_t tokens = 0;
  };
  SlowQueue run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kTwo);
  EXPECT_EQ(played.policy->tokens, 5u);
  EXPECT_EQ(played.policy->EndOf(played.policy->behind), PlanEnd::kSteps);
}

TEST_P(ContractPlans, LateBindingAsksJustBeforeTheStart) {
  struct Scenario final : BehindASlowStep {
    void Shape(Context&, Plan* plan) override { plan->late_binding = true; }
    void OnPlanStarting(Context& context, PlanId plan) override {
      EXPECT_EQ(plan, behind);
      EXPECT_EQ(ended.count(ahead.word()), 1u) << "its turn has come";
      const Entry both[] = {{{0}, 1}, {{1}, 20}};
      EXPECT_TRUE(context.memory(kFirst).Reserve({0}, 9));
      EXPECT_EQ(context.actions().Amend(plan, {.device = kFirst, .entries = both}).refusal,
                Refusal::kNone);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      BehindASlowStep::OnPlanDone(context, done);
      if (done.id == behind) entries = done.entries.size();
    }
    std::size_t entries = 0;
  };
  SlowQueue run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kTwo);
  EXPECT_EQ(played.policy->entries, 2u);
}

TEST_P(ContractPlans, AQueueOfThreePromisesTokensToCome) {
  struct Scenario final : Planner {
    void OnSlotFree(Context& context, DeviceId device) override {
      if (plans++ > 0) return Planner::OnSlotFree(context, device);
      for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(context.device(device).depth_left(), 3 - i);
        EXPECT_EQ(context.request({0}).known_tokens(), 8 + i);
        LaunchOne(context, device, {0});
      }
      EXPECT_EQ(context.request({0}).scheduled_tokens(), 10u);
    }
    int plans = 0;
  };
  TwoWorlds run;
  run.device.queue_depth = 3;
  PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 6)});
}

/// Prefills request 0, and then decodes it in the standing set.
class Standing : public Planner {
 public:
  void OnSlotFree(Context& context, DeviceId device) override {
    if (!context.live({0})) return Planner::OnSlotFree(context, device);
    const RequestView view = context.request({0});
    if (view.state() == RequestState::kWaiting && view.phase() == Phase::kPrefill) {
      EXPECT_EQ(context.actions().Join(device, {0}), Refusal::kNotDecoding);
      EXPECT_EQ(context.actions().Leave(device, {0}), Refusal::kNotStanding);
      LaunchOne(context, device, {0});
      return;
    }
    if (view.state() == RequestState::kWaiting) {
      EXPECT_EQ(context.actions().Join(device, {0}), Refusal::kNone);
    }
    const Launched launched =
        context.actions().Launch({.device = device, .standing = true, .max_steps = 100});
    if (!launched.ok()) return Stuck(context, launched);
    plans.push_back(launched.id);
    At(context, plans.size());
  }
  virtual void Stuck(Context&, const Launched&) { ADD_FAILURE() << "refused"; }

  std::vector<PlanId> plans;  ///< on the set
};

TEST_P(ContractPlans, AStandingPlanIsCutAtAStep) {
  struct Scenario final : Standing {
    void OnTimer(Context& context, std::uint64_t tag) override {
      if (tag > 1) return;
      EXPECT_EQ(context.actions().Abort(PlanId{}, AbortAt::kStep), Refusal::kUnknownPlan);
      EXPECT_EQ(context.actions().Abort(plans[0], AbortAt::kStep), Refusal::kNone);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Standing::OnPlanDone(context, done);
      if (done.why != PlanEnd::kCut) return;
      EXPECT_EQ(context.request({0}).output_tokens(), 2u) << "its step has counted";
      EXPECT_EQ(context.actions().Leave(kFirst, {0}), Refusal::kNone);
      EXPECT_EQ(context.device(kFirst).standing, 0u);
    }
  };
  TwoWorlds run;
  run.layer_pause = kSlow;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 6)});
  ASSERT_EQ(played.policy->plans.size(), 2u);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[0]), PlanEnd::kCut);
  EXPECT_EQ(played.policy->StepsOf(played.policy->plans[0]), 1u);
  EXPECT_EQ(played.policy->StepsOf(played.policy->plans[1]), 4u);
}

TEST_P(ContractPlans, AStandingPlanEndsWhereMemoryDoes) {
  struct Scenario final : Standing {
    void OnArrival(Context& context, RequestId request) override {
      if (request.value == 1) HoldBack(request);
      Standing::OnArrival(context, request);
      if (request.value == 1) {
        EXPECT_TRUE(context.memory(kFirst).Reserve(request, 32));  // all but one block of three
      }
    }
    void Stuck(Context& context, const Launched& launched) override {
      EXPECT_EQ(launched.refusal, Refusal::kNoMemory);
      EXPECT_EQ(context.memory(kFirst).StandingGrowth(), 1u);
      EXPECT_TRUE(context.memory(kFirst).Release({1}));
      ServeAgain(context, {1});
    }
  };
  TwoWorlds run;
  run.device.total_blocks = 3;
  const auto played =
      PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 12, 10), TokenRequest(0, 8, 2)});
  ASSERT_EQ(played.policy->plans.size(), 2u);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[0]), PlanEnd::kMemory);
  EXPECT_EQ(played.policy->StepsOf(played.policy->plans[0]), 4u) << "the block is full";
}

TEST_P(ContractPlans, APausedMemberKeepsItsBlocks) {
  struct Scenario final : Standing {
    void OnTimer(Context& context, std::uint64_t tag) override {
      if (tag > 1) return;
      EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kPause), Refusal::kNone);
      EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kPause), Refusal::kNotStanding);
      EXPECT_EQ(context.request({0}).state(), RequestState::kWaiting);
      EXPECT_GT(context.request({0}).owned_blocks(), 0u);
    }
  };
  TwoWorlds run;
  run.layer_pause = kSlow;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 20, 6)});
  ASSERT_EQ(played.policy->plans.size(), 2u);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[0]), PlanEnd::kEmpty);
  EXPECT_EQ(played.summary.preemptions, 1u);
}

class ContractAbort : public testing::TestWithParam<std::tuple<TestWorld, AbortAt>> {};

TEST_P(ContractAbort, TheStepMakesNothingAndIsRunAgain) {
  struct Scenario final : Standing {
    explicit Scenario(AbortAt at) : where(at) {}
    void OnTimer(Context& context, std::uint64_t tag) override {
      if (tag > 1) return;
      EXPECT_EQ(context.actions().Abort(plans[0], where), Refusal::kNone);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Standing::OnPlanDone(context, done);
      if (done.why != PlanEnd::kAborted) return;
      EXPECT_EQ(context.device(kFirst).standing, 0u) << "the set is dissolved";
      EXPECT_EQ(context.request({0}).output_tokens(), 1u);
      EXPECT_EQ(context.request({0}).scheduled_tokens(), 20u);
    }
    AbortAt where;
  };
  TwoWorlds run;
  run.layer_pause = kSlow;
  const auto [world, where] = GetParam();
  const auto played = PlayThrough<Scenario>(run, world, {TokenRequest(0, 20, 4)}, where);
  ASSERT_EQ(played.policy->plans.size(), 2u);
  EXPECT_EQ(played.policy->EndOf(played.policy->plans[0]), PlanEnd::kAborted);
  EXPECT_EQ(played.policy->StepsOf(played.policy->plans[0]), 0u);
  EXPECT_EQ(played.policy->StepsOf(played.policy->plans[1]), 3u);
}

TEST_P(ContractPlans, APlanFailsWithItsDevice) {
  struct Scenario final : Planner {
    void OnSlotFree(Context& context, DeviceId device) override {
      if (!CanRun(context, {0}, device)) return;
      last = LaunchOne(context, device, {0});
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Planner::OnPlanDone(context, done);
      if (done.why != PlanEnd::kFailed) return;
      ++failed;
      EXPECT_EQ(context.request({0}).owned_blocks(), 0u);
      EXPECT_EQ(context.request({0}).scheduled_tokens(), 0u);
      EXPECT_FALSE(context.device(kFirst).up());
      EXPECT_EQ(context.actions().Launch({.device = kFirst}).refusal, Refusal::kDeviceDown);
    }
    void OnDeviceChange(Context&, DeviceId device, DeviceChange change) override {
      EXPECT_EQ(device, kFirst);
      changes.push_back(change);
    }
    PlanId last;
    int failed = 0;
    std::vector<DeviceChange> changes;
  };
  const Fault faults[] = {
      {kFirst, Time() + Duration::Millis(50), Time() + Duration::Millis(80), false}};
  TwoWorlds run;
  run.options.faults = faults;
  run.layer_pause = Duration::Millis(20);
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 20, 4)});
  EXPECT_EQ(played.policy->failed, 1);
  EXPECT_THAT(played.policy->changes, ElementsAre(DeviceChange::kFailed, DeviceChange::kRecovered));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContractPlans, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         WorldName);
std::string AbortName(const testing::TestParamInfo<ContractAbort::ParamType>& info) {
  const auto [world, where] = info.param;
  return testing::PrintToString(world) + (where == AbortAt::kNow ? "_now" : "_layer");
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContractAbort,
                         testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                                          testing::Values(AbortAt::kNow, AbortAt::kLayer)),
                         AbortName);

}  // namespace
}  // namespace schedtwin
