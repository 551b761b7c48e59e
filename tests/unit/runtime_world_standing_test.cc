// World, the standing set: who is in which step; and that many steps in one plan, standing or
// listed, do what as many plans of one step do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/world.h"
#include "tests/support/mini_batch.h"
#include "tests/support/one_device.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

constexpr DeviceId kDevice = {0};

// ---- Standing set ----

TEST(WorldStanding, JoinedInTheMiddleOfAPlanCountsFromTheNextStep) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value < 2) LaunchOne(context, request);
    if (request.value == 2) {  // at 25, inside the first standing step
      EXPECT_EQ(context.actions().Join(kDevice, {1}), Refusal::kNone);
      EXPECT_EQ(context.request({1}).output_tokens(), 1u);
      context.actions().Finish({2}, EndReason::kRejected);
    }
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.end != Time::Nanos(20)) return;
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kNone);
    context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.now() > Time::Nanos(20) && context.device(kDevice).standing > 0) {
      context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
    }
  };
  run.Run(&policy, {TokenRequest(0, 4, 5), TokenRequest(0, 4, 3), TokenRequest(25, 4, 1)});
  EXPECT_EQ(run.recorder.Find(0)->last_token, Time::Nanos(60));
  EXPECT_EQ(run.recorder.Find(1)->last_token, Time::Nanos(50));
  EXPECT_EQ(run.fakes[0].steps.at(2).members.size(), 1u);
  EXPECT_EQ(run.fakes[0].steps.at(3).members.size(), 2u);
}

TEST(WorldStanding, AStepInFlightStillMakesTheTokenOfWhoLeaves) {
  TestRun run;
  ScriptedPolicy policy;
  ServeFirst(&policy, [](Context& context) {
    if (context.request({0}).state() != RequestState::kStanding) {
      context.actions().Join(kDevice, {0});
    }
    context.actions().Launch({.device = kDevice, .standing = true});
  });
  const auto serve = policy.on_arrival;
  policy.on_arrival = [serve](Context& context, RequestId request) {
    serve(context, request);
    if (request.value == 0) return;
    EXPECT_EQ(context.actions().Leave(kDevice, {0}), Refusal::kNone);
    const RequestView view = context.request({0});
    EXPECT_EQ(view.output_tokens(), 1u);
    EXPECT_EQ(view.known_tokens(), 6u) << "promised";
    EXPECT_TRUE(view.in_flight());
    context.actions().Finish(request, EndReason::kRejected);
  };
  run.Run(&policy, {TokenRequest(0, 4, 2), TokenRequest(15, 4, 1)});
  EXPECT_EQ(run.recorder.Find(0)->reason, EndReason::kCompleted);
  EXPECT_EQ(run.recorder.Find(0)->last_token, Time::Nanos(20));
}

// Whoever is still to be run by a plan that names it cannot be run by the set as well.
TEST(WorldStanding, WhoAPlanStillNamesCannotJoin) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  int asked = 0;
  ServeFirst(&policy, [&](Context& context) {
    if (context.device(kDevice).depth_left() < 2) return;
    LaunchOne(context, {0}, {.max_steps = 2});
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kDuplicateEntry) << "it goes on";
    LaunchOne(context, {0});
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kDuplicateEntry) << "and is queued";
    ++asked;
    context.clock().Arm(context.now() + Duration::Nanos(1), 1);
  });
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 7)});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(asked, 2);
}

TEST(WorldStanding, WhoIsInAPlanThatWasCutMayJoin) {
  TestRun run;
  ScriptedPolicy policy;
  PlanId plan;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(15), 1); };
  ServeFirst(&policy, [&](Context& context) {
    if (context.device(kDevice).standing > 0) {
      context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
    } else {
      plan = LaunchOne(context, {0}, {.max_steps = 100});
    }
  });
  policy.on_timer = [&](Context& context, std::uint64_t) {
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kDuplicateEntry);
    EXPECT_EQ(context.actions().Abort(plan, AbortAt::kStep), Refusal::kNone);
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kNone) << "this step is its last";
  };
  run.Run(&policy, {TokenRequest(0, 4, 5)});
  EXPECT_THAT(
      std::vector<std::string>(policy.seen.begin() + 4, policy.seen.end()),
      ElementsAre("15 timer 1", "20 done 0 cut 1", "20 slot 0", "50 done 0 finish 3", "50 slot 0"));
}

// What does not fit when it is launched may fit when its turn comes.
TEST(WorldStanding, AQueuedPlanNeedsItsMemoryWhenItStarts) {
  for (const bool freed : {false, true}) {
    TestRun run;
    run.device.queue_depth = 2;
    run.device.total_blocks = 3;
    ScriptedPolicy policy;
    policy.on_arrival = [](Context& context, RequestId request) {
      if (request.value == 1) LaunchOne(context, {0});
    };
    policy.on_plan_done = [&](Context& context, const PlanDone& done) {
      if (done.why == PlanEnd::kMemory) context.actions().Finish({1}, EndReason::kTimedOut);
      if (done.end != Time::Nanos(10)) return;
      context.memory(kDevice).Reserve({1}, 8);
      LaunchOne(context, {1});
      EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kNone);
      EXPECT_GT(context.memory(kDevice).StandingGrowth(), context.device(kDevice).free_blocks);
      EXPECT_TRUE(
          context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 9}).ok());
    };
    policy.on_slot_free = [](Context& context, DeviceId) {
      if (context.device(kDevice).standing == 0 || !context.device(kDevice).idle()) return;
      context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 9});
    };
    // The prefill behind which it waits finishes its request, or does not.
    run.Run(&policy, {TokenRequest(0, 4, 4), TokenRequest(0, 8, freed ? 1 : 2)});
    const auto memory = std::find(policy.seen.begin(), policy.seen.end(), "20 done 0 memory 0");
    EXPECT_EQ(memory == policy.seen.end(), freed);
    EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(50));
  }
}

TEST(WorldStanding, WhoseLastListedTokenIsInFlightMayJoin) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request);
    // The plan starts when this callback has returned; the set must not run ahead of it.
    EXPECT_EQ(context.actions().Join(kDevice, request), Refusal::kDuplicateEntry);
    context.clock().Arm(context.now(), 1);
  };
  policy.on_timer = [](Context& context, std::uint64_t) {
    EXPECT_EQ(context.actions().Join(kDevice, {0}), Refusal::kNone);
    context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
  };
  run.Run(&policy, {TokenRequest(0, 4, 4)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 arrival 0", "0 timer 1", "10 done 0 steps 1",
                                       "10 slot 0", "40 done 0 finish 3", "40 slot 0"));
}

TEST(WorldStanding, NobodyJoinsAPlanThatIsFull) {
  TestRun run;
  run.device.max_step_tokens = 4;
  ScriptedPolicy policy;
  int asked = 0;
  policy.on_slot_free = [](Context& context, DeviceId) {
    for (std::uint32_t id = 0; id < 5 && context.live({id}); ++id) {
      const RequestView view = context.request({id});
      if (view.phase() == Phase::kPrefill) return void(LaunchOne(context, {id}));
      if (view.state() == RequestState::kWaiting && id < 4) context.actions().Join(kDevice, {id});
    }
    context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
    context.clock().Arm(context.now() + Duration::Nanos(15), 1);
  };
  policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke(kDevice); };
  policy.on_timer = [&](Context& context, std::uint64_t) {
    if (!context.live({4}) || !context.live({0})) return;
    EXPECT_EQ(context.device(kDevice).standing, 4u);
    EXPECT_EQ(context.actions().Join(kDevice, {4}), Refusal::kBatchTooLarge);
    EXPECT_EQ(context.actions().Leave(kDevice, {0}), Refusal::kNone);
    EXPECT_EQ(context.actions().Join(kDevice, {4}), Refusal::kNone);
    context.actions().Finish({0}, EndReason::kTimedOut);
    ++asked;
  };
  run.Run(&policy, std::vector<RequestSpec>(5, TokenRequest(0, 4, 8)));
  EXPECT_EQ(asked, 1);
  for (const FakeStep& step : run.fakes[0].steps) EXPECT_LE(step.tokens(), 4u);
}

// ---- Many steps in one plan, standing or listed: the same outcome ----

struct Outcome {
  std::uint64_t digest;
  std::uint64_t preemptions;
  std::uint64_t ends[8];
};

Outcome RunMiniBatch(std::uint64_t seed, bool standing, std::uint32_t max_steps, bool identify) {
  Rng rng(seed, "mini batch test");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  for (int i = 0; i < 40; ++i) {
    at += 10 * rng.Below(8) + (rng.Below(3) == 0 ? 5 : 0);  // mostly exactly at a boundary
    requests.push_back(TokenRequest(at, 1 + rng.Below(20), 1 + rng.Below(30)));
  }
  TestRun run;
  run.device.total_blocks = 16;
  run.options.identify_blocks = identify;
  MiniBatch policy(standing, max_steps);
  const RunSummary summary = run.Run(&policy, requests);
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 40u);
  for (const RequestRecord& record : run.recorder.requests) {
    EXPECT_EQ(record.output_tokens, requests[record.id.value].output_tokens);
  }
  Outcome outcome{summary.outcome_digest, summary.preemptions, {}};
  std::copy(std::begin(policy.ends), std::end(policy.ends), std::begin(outcome.ends));
  return outcome;
}

TEST(WorldMultiStep, ChangesNothingOfTheOutcome) {
  std::uint64_t preemptions = 0, cuts = 0, memory = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Outcome plain = RunMiniBatch(seed, false, 1, false);
    preemptions += plain.preemptions;
    for (const bool standing : {false, true}) {
      for (const std::uint32_t max_steps : {1u, 3u, 1000u}) {
        const Outcome other = RunMiniBatch(seed, standing, max_steps, seed % 2 == 0);
        EXPECT_EQ(other.digest, plain.digest)
            << "seed " << seed << ", standing " << standing << ", steps " << max_steps;
        EXPECT_EQ(other.preemptions, plain.preemptions);
        cuts += other.ends[static_cast<int>(PlanEnd::kCut)];
        memory += other.ends[static_cast<int>(PlanEnd::kMemory)];
      }
    }
  }
  // The workloads reach what makes the difference.
  EXPECT_GT(preemptions, 20u);
  EXPECT_GT(cuts, 100u);
  EXPECT_GT(memory, 20u);
}

}  // namespace
}  // namespace schedtwin
