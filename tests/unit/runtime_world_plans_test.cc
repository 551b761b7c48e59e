// World, plans from launch to end: why they end, windows, late binding, queues deeper than one.
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

// ---- Why plans end ----

TEST(WorldPlanEnd, WhenItsStepsAreDoneOrARequestFinishes) {
  TestRun run;
  ScriptedPolicy policy;
  ServeFirst(&policy, [](Context& context) { LaunchOne(context, {0}, {.max_steps = 3}); });
  run.Run(&policy, {TokenRequest(0, 4, 6)});
  // One token of the prefill, three of a plan that ran its course, two of one that was too long.
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 arrival 0", "10 done 0 steps 1", "10 slot 0",
                          "40 done 0 steps 3", "40 slot 0", "60 done 0 finish 2", "60 slot 0"));
  EXPECT_EQ(run.recorder.Find(0)->output_tokens, 6u);
  EXPECT_EQ(run.recorder.Find(0)->first_start, Time::Nanos(0));
  EXPECT_EQ(run.recorder.Find(0)->first_token, Time::Nanos(10));
  EXPECT_EQ(run.recorder.Find(0)->last_token, Time::Nanos(60));
}

TEST(WorldPlanEnd, PlanDoneTellsWhatWasRun) {
  TestRun run;
  ScriptedPolicy policy;
  std::vector<std::uint32_t> finished;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value < 2) return;
    const Entry entries[] = {ReservedEntry(context, {2}), ReservedEntry(context, {1}),
                             ReservedEntry(context, {0})};
    context.actions().Launch({.device = kDevice, .entries = entries});
  };
  policy.on_plan_done = [&](Context& context, const PlanDone& done) {
    for (const RequestId id : done.finished) {
      finished.push_back(id.value);
      EXPECT_EQ(context.request(id).state(), RequestState::kEnded) << "still to be looked at";
    }
    if (done.start > Time::Nanos(0)) return;
    ASSERT_EQ(done.entries.size(), 3u);
    EXPECT_EQ(done.entries[0].request.value, 2u) << "as launched";
    EXPECT_EQ(done.end, Time::Nanos(10));
    LaunchOne(context, {1});
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 5, 2), TokenRequest(0, 6, 1)});
  EXPECT_THAT(finished, ElementsAre(0, 2, 1)) << "by id";
}

TEST(WorldPlanEnd, AtTheBoundaryWhereThePolicyCuts) {
  TestRun run;
  ScriptedPolicy policy;
  PlanId plan;
  ServeFirst(&policy,
             [&](Context& context) { plan = LaunchOne(context, {0}, {.max_steps = 100}); });
  const auto serve = policy.on_arrival;
  policy.on_arrival = [&, serve](Context& context, RequestId request) {
    serve(context, request);
    if (request.value == 0) return;
    EXPECT_EQ(context.actions().Abort(plan, AbortAt::kStep), Refusal::kNone);
    context.actions().Finish(request, EndReason::kRejected);
  };
  // The second arrives inside a step, the third at the very instant of a boundary.
  run.Run(&policy, {TokenRequest(0, 4, 8), TokenRequest(25, 4, 1), TokenRequest(50, 4, 1)});
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 arrival 0", "10 done 0 steps 1", "10 slot 0",
                          "25 arrival 1", "30 done 0 cut 2", "30 slot 0", "50 arrival 2",
                          "50 done 0 cut 2", "50 slot 0", "80 done 0 finish 3", "80 slot 0"));
}

TEST(WorldPlanEnd, BeforeAStepWhoseBlocksDoNotFit) {
  for (const bool standing : {false, true}) {
    TestRun run;
    run.device.total_blocks = 3;  // 12 tokens; the request will need 4 + 7
    ScriptedPolicy policy;
    ServeFirst(&policy, [&](Context& context) {
      if (context.now() == Time::Nanos(10)) context.memory(kDevice).Reserve({1}, 4);
      if (standing) {
        if (context.device(kDevice).standing == 0) context.actions().Join(kDevice, {0});
        context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
      } else {
        LaunchOne(context, {0}, {.max_steps = 100});
      }
    });
    policy.on_plan_done = [](Context& context, const PlanDone& done) {
      if (done.why == PlanEnd::kMemory) {
        EXPECT_EQ(context.device(kDevice).free_blocks, 0u);
        context.actions().Finish({1}, EndReason::kRejected);
      }
    };
    run.Run(&policy, {TokenRequest(0, 4, 7), TokenRequest(0, 4, 1)});
    // 4 tokens of prompt fill a block, four decodes another; the third block is the other
    // request's.
    EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 arrival 0", "0 arrival 1",
                                         "10 done 0 steps 1", "10 slot 0", "50 done 0 memory 4",
                                         "50 slot 0", "70 done 0 finish 2", "70 slot 0"))
        << "standing " << standing;
  }
}

TEST(WorldPlanEnd, EmptyWhenNobodyIsLeftAtABoundary) {
  for (const bool standing : {false, true}) {
    TestRun run;
    ScriptedPolicy policy;
    ServeFirst(&policy, [&](Context& context) {
      if (standing) {
        context.actions().Join(kDevice, {0});
        context.actions().Launch({.device = kDevice, .standing = true, .max_steps = 100});
      } else {
        LaunchOne(context, {0}, {.max_steps = 100});
      }
    });
    const auto serve = policy.on_arrival;
    policy.on_arrival = [serve](Context& context, RequestId request) {
      serve(context, request);
      if (request.value == 1) context.actions().Finish({0}, EndReason::kTimedOut);
    };
    policy.on_plan_done = [](Context& context, const PlanDone& done) {
      if (done.why == PlanEnd::kEmpty) context.actions().Finish({1}, EndReason::kRejected);
    };
    // The second arrives inside a step, whose token comes too late for who has been given up.
    run.Run(&policy, {TokenRequest(0, 4, 9), TokenRequest(25, 4, 1)});
    EXPECT_EQ(policy.seen.at(5), "30 done 0 empty 2") << "standing " << standing;
    EXPECT_EQ(run.recorder.Find(0)->output_tokens, 2u);
    EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(25));
  }
}

TEST(WorldPlanEnd, EmptyWhenNobodyIsLeftAtTheStart) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value < 2) LaunchOne(context, request);
    if (request.value == 2) {
      context.actions().Finish({1}, EndReason::kTimedOut);
      context.actions().Finish({2}, EndReason::kRejected);
    }
  };
  run.Run(&policy, {TokenRequest(0, 4, 2), TokenRequest(0, 4, 1), TokenRequest(5, 4, 1)});
  EXPECT_THAT(std::vector<std::string>(policy.seen.begin() + 4, policy.seen.end()),
              ElementsAre("10 done 0 steps 1", "10 done 0 empty 0", "10 slot 0"));
}

// Between the drop and its event the request may end; whatever PlanDone names can be looked at.
TEST(WorldPlanEnd, ADroppedPlanNamesNobodyWhoHasGone) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) return void(LaunchOne(context, request));
    if (request.value == 1) return;
    const Entry entries[] = {ReservedEntry(context, {1}), ReservedEntry(context, {2})};
    context.actions().Launch({.device = kDevice, .entries = entries, .latest = Time::Nanos(9)});
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.why == PlanEnd::kFinish) context.actions().Finish({1}, EndReason::kTimedOut);
    if (done.why != PlanEnd::kMissed) return;
    ASSERT_EQ(done.entries.size(), 1u);
    EXPECT_EQ(context.request(done.entries[0].request).id().value, 2u);
    context.actions().Finish({2}, EndReason::kTimedOut);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(policy.seen.at(5), "10 done 0 missed 0");
}

// ---- Windows ----

TEST(WorldWindow, StartsNoEarlierThanItsWindow) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request, {.earliest = Time::Nanos(35)});
    EXPECT_EQ(context.device(kDevice).queued, 1u);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.at(0).start, Time::Nanos(35));
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 arrival 0", "45 done 0 finish 1", "45 slot 0"));
}

TEST(WorldWindow, AtItsLastInstantAPlanStillStarts) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request, {.latest = Time::Nanos(10)});
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.size(), 2u);
}

TEST(WorldWindow, MissedPlansAreDroppedAndTheirPromisesTakenBack) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    const Time latest = request.value == 0 ? Time::Infinite() : Time::Nanos(9);
    LaunchOne(context, request, {.latest = latest});
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.why != PlanEnd::kMissed) return;
    const RequestView view = context.request({1});
    EXPECT_EQ(done.steps, 0u);
    EXPECT_EQ(done.entries.size(), 1u);
    EXPECT_TRUE(done.finished.empty());
    EXPECT_EQ(view.next_tokens(), 4u);
    EXPECT_EQ(view.known_tokens(), 4u);
    EXPECT_FALSE(view.in_flight());
    EXPECT_EQ(view.owned_blocks(), 1u) << "its blocks stay";
    LaunchOne(context, {1});
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 arrival 0", "0 arrival 1", "10 done 0 finish 1",
                          "10 done 0 missed 0", "10 slot 0", "20 done 0 finish 1", "20 slot 0"));
}

// The one behind it would decode what was never prefilled.
TEST(WorldWindow, AMissedPlanTakesWithItWhatWasPromisedOnTopOfIt) {
  TestRun run;
  run.device.queue_depth = 3;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) return void(LaunchOne(context, request));
    LaunchOne(context, request, {.latest = Time::Nanos(9)});
    LaunchOne(context, request);
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.why != PlanEnd::kEmpty) return;
    EXPECT_EQ(context.request({1}).next_tokens(), 4u);
    EXPECT_EQ(context.request({1}).known_tokens(), 4u);
    context.actions().Finish({1}, EndReason::kTimedOut);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 5)});
  EXPECT_THAT(
      std::vector<std::string>(policy.seen.begin() + 3, policy.seen.end()),
      ElementsAre("10 done 0 finish 1", "10 done 0 missed 0", "10 done 0 empty 0", "10 slot 0"));
}

TEST(WorldWindow, AnAmendedWindowActsAtOnce) {
  TestRun run;
  ScriptedPolicy policy;
  PlanId plan;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(15), 1); };
  policy.on_arrival = [&](Context& context, RequestId request) {
    plan = LaunchOne(context, request, {.earliest = Time::Nanos(50)});
  };
  policy.on_timer = [&](Context& context, std::uint64_t) {
    const Entry same{{0}, 4};
    EXPECT_TRUE(context.actions().Amend(plan, {.device = kDevice, .entries = {&same, 1}}).ok());
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.at(0).start, Time::Nanos(15));
}

// ---- Late binding, amend, withdraw ----

TEST(WorldLateBinding, APlanCanBeAmendedInPlanStarting) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  PlanId late;
  policy.on_arrival = [&](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, request);
    if (request.value == 1) late = LaunchOne(context, request, {.late_binding = true});
  };
  policy.on_plan_starting = [&](Context& context, PlanId plan) {
    EXPECT_EQ(plan, late);
    const Entry entries[] = {{{1}, 4}, ReservedEntry(context, {2})};
    const Launched amended = context.actions().Amend(plan, {.device = kDevice, .entries = entries});
    EXPECT_TRUE(amended.ok());
    EXPECT_EQ(amended.id, plan) << "the plan keeps its id";
    EXPECT_EQ(context.request({1}).known_tokens(), 5u) << "promised once, not twice";
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(1, 4, 1), TokenRequest(2, 6, 1)});
  ASSERT_EQ(run.fakes[0].steps.size(), 2u);
  EXPECT_EQ(run.fakes[0].steps[1].entries.size(), 2u);
  EXPECT_EQ(run.fakes[0].steps[1].start, Time::Nanos(10));
  EXPECT_THAT(std::vector<std::string>(policy.seen.begin() + 4, policy.seen.end()),
              ElementsAre("10 done 0 finish 1", "10 starting", "10 slot 0", "20 done 0 finish 1",
                          "20 slot 0"));
}

TEST(WorldLateBinding, WithAWindowItIsRaisedWhenTheWindowOpens) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request, {.earliest = Time::Nanos(30), .late_binding = true});
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 arrival 0", "30 starting",
                                       "40 done 0 finish 1", "40 slot 0"));
}

TEST(WorldLateBinding, WithdrawnInPlanStartingTheNextOneRuns) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request, {.late_binding = request.value == 0});
  };
  policy.on_plan_starting = [](Context& context, PlanId plan) {
    EXPECT_EQ(context.actions().Withdraw(plan), Refusal::kNone);
    EXPECT_FALSE(context.request({0}).in_flight());
    context.actions().Finish({0}, EndReason::kRejected);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.size(), 1u);
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 arrival 0", "0 arrival 1", "0 starting",
                                       "10 done 0 finish 1", "10 slot 0"));
}

TEST(WorldLateBinding, ARefusedAmendLeavesThePlanAsItWas) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [&](Context& context, RequestId request) {
    const PlanId plan = LaunchOne(context, request);
    if (request.value == 0) return;
    const Entry wrong{{1}, 99};
    const Launched amended =
        context.actions().Amend(plan, {.device = kDevice, .entries = {&wrong, 1}});
    EXPECT_EQ(amended.refusal, Refusal::kWrongTokens);
    EXPECT_EQ(context.request({1}).known_tokens(), 5u);
    EXPECT_EQ(context.request({1}).scheduled_tokens(), 4u);
    EXPECT_TRUE(context.request({1}).in_flight());
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.at(1).entries.at(0).tokens, 4u);
}

TEST(WorldLateBinding, APlanAmendedToBindLateAsksAtItsStart) {
  for (const bool late : {false, true}) {
    TestRun run;
    run.device.queue_depth = 2;
    ScriptedPolicy policy;
    policy.on_arrival = [late](Context& context, RequestId request) {
      const PlanId plan = LaunchOne(context, request, {.late_binding = !late});
      const Entry same{request, 4};
      const Plan amended{.device = kDevice, .entries = {&same, 1}, .late_binding = late};
      EXPECT_TRUE(context.actions().Amend(plan, amended).ok());
    };
    run.Run(&policy, {TokenRequest(0, 4, 1)});
    EXPECT_EQ(policy.seen.at(2), late ? "0 starting" : "10 done 0 finish 1");
  }
}

// Promises are kept in the order of the queue.
TEST(WorldLateBinding, AmendCannotSlipARequestInFrontOfAPlanThatNamesIt) {
  TestRun run;
  run.device.queue_depth = 3;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value < 2) return;
    LaunchOne(context, {0});
    const PlanId middle = LaunchOne(context, {1});
    LaunchOne(context, {2});
    const Entry entry = ReservedEntry(context, {2});
    EXPECT_EQ(context.actions().Amend(middle, {.device = kDevice, .entries = {&entry, 1}}).refusal,
              Refusal::kBadArgument);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.fakes[0].steps.size(), 3u);
}

// Between launch and amend the request lost what the plan built on: that promise must not come
// back.
TEST(WorldLateBinding, ARefusedAmendDoesNotReviveAPreemptedEntry) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [&](Context& context, RequestId request) {
    const PlanId plan = LaunchOne(context, request);
    if (request.value == 0) return;
    EXPECT_EQ(context.actions().Preempt({1}, PreemptMode::kRecompute), Refusal::kNone);
    const Launched amended = context.actions().Amend(plan, {.device = kDevice});
    EXPECT_EQ(amended.refusal, Refusal::kEmptyPlan);
    EXPECT_EQ(context.request({1}).scheduled_tokens(), 0u);
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.why == PlanEnd::kEmpty) LaunchOne(context, {1});
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(run.fakes[0].steps.size(), 2u);
}

// ---- Queues deeper than one ----

TEST(WorldQueue, CountersIncludeWhatPlansInFlightPromise) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, request);
    const RequestView prefilling = context.request(request);
    EXPECT_EQ(prefilling.known_tokens(), 5u);
    EXPECT_EQ(prefilling.scheduled_tokens(), 4u);
    EXPECT_EQ(prefilling.output_tokens(), 0u) << "made and seen";
    EXPECT_EQ(prefilling.phase(), Phase::kDecode);
    LaunchOne(context, request);
    EXPECT_EQ(context.request(request).known_tokens(), 6u);
    EXPECT_EQ(context.request(request).scheduled_tokens(), 5u);
    EXPECT_EQ(context.device(kDevice).queued, 2u);
    EXPECT_EQ(context.device(kDevice).depth_left(), 0u);
  };
  run.Run(&policy, {TokenRequest(0, 4, 2)});
  ASSERT_EQ(run.fakes[0].steps.size(), 2u);
  EXPECT_EQ(run.fakes[0].steps[1].start, Time::Nanos(10)) << "back to back";
  EXPECT_EQ(run.fakes[0].steps[1].entries.at(0).context_tokens, 4u);
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 arrival 0", "10 done 0 steps 1", "10 slot 0",
                                       "20 done 0 finish 1", "20 slot 0"));
}

TEST(WorldQueue, WhoFinishesInTheFirstPlanIsDroppedFromTheSecond) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  std::size_t entries_left = 0;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) return;
    for (int plan = 0; plan < 2; ++plan) {
      const Entry entries[] = {ReservedEntry(context, {0}), ReservedEntry(context, {1})};
      EXPECT_TRUE(context.actions().Launch({.device = kDevice, .entries = entries}).ok());
    }
  };
  policy.on_plan_done = [&](Context&, const PlanDone& done) { entries_left = done.entries.size(); };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 2)});
  EXPECT_EQ(run.fakes[0].steps.at(1).entries.size(), 1u);
  EXPECT_EQ(entries_left, 1u);
  EXPECT_EQ(run.recorder.Find(0)->output_tokens, 1u);
  EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(10));
}

TEST(WorldQueue, ChunksOfOnePromptQueueBehindOneAnother) {
  TestRun run;
  run.device.queue_depth = 3;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    context.memory(kDevice).Reserve(request, 10);
    for (const std::uint32_t tokens : {4u, 4u, 2u}) {
      const Entry entry{request, tokens};
      EXPECT_EQ(context.request(request).phase(), Phase::kPrefill);
      EXPECT_TRUE(context.actions().Launch({.device = kDevice, .entries = {&entry, 1}}).ok());
    }
    EXPECT_EQ(context.request(request).known_tokens(), 11u);
  };
  run.Run(&policy, {TokenRequest(0, 10, 1)});
  EXPECT_EQ(run.recorder.Find(0)->first_token, Time::Nanos(30)) << "only the last chunk makes one";
  EXPECT_EQ(run.recorder.steps.at(2).prefill_tokens, 2u);
}

TEST(WorldQueue, WithdrawTakesBackTheLatestPromise) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    const PlanId first = LaunchOne(context, request, {.earliest = Time::Nanos(5)});
    const PlanId second = LaunchOne(context, request);
    EXPECT_EQ(context.actions().Withdraw(first), Refusal::kBadArgument) << "the second rests on it";
    EXPECT_EQ(context.actions().Withdraw(second), Refusal::kNone);
    EXPECT_EQ(context.request(request).known_tokens(), 5u);
    EXPECT_EQ(context.actions().Withdraw(first), Refusal::kNone);
    EXPECT_EQ(context.request(request).known_tokens(), 4u);
    EXPECT_EQ(context.request(request).next_tokens(), 4u);
    EXPECT_EQ(context.device(kDevice).queued, 0u);
    EXPECT_EQ(context.actions().Withdraw(first), Refusal::kUnknownPlan);
    LaunchOne(context, request);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(10));
}

// The other plan's token is computed first on the device, so it has the shorter context.
TEST(WorldQueue, AMultiStepPlanKnowsItsContextBesideAQueuedOne) {
  TestRun run;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  ServeFirst(&policy, [](Context& context) {
    if (context.device(kDevice).depth_left() < 2) return;
    LaunchOne(context, {0}, {.max_steps = 3});
    LaunchOne(context, {0});
  });
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 9)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  for (std::size_t i = 1; i < run.fakes[0].steps.size(); ++i) {
    EXPECT_EQ(run.fakes[0].steps[i].entries.at(0).context_tokens, 3 + i);
  }
}

// ---- What a device is told of an entry ----

TEST(WorldEntry, SaysWhichEntriesDecodeAndSample) {
  TestRun run;
  ScriptedPolicy policy;
  // Two pieces of a prompt of four, a decode; then, preempted, all six tokens again in three
  // pieces, of which only the last decodes; a decode.
  const std::vector<std::uint32_t> sizes = {3, 1, 1, 4, 1, 1, 1};
  std::size_t next = 0;
  const auto launch = [&](Context& context) {
    if (next == 3) {
      EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kNone);
    }
    const Entry entry{{0}, sizes.at(next++)};
    context.memory(kDevice).Reserve({0}, 8);
    EXPECT_TRUE(context.actions().Launch({.device = kDevice, .entries = {&entry, 1}}).ok());
  };
  policy.on_arrival = [&](Context& context, RequestId) { launch(context); };
  policy.on_slot_free = [&](Context& context, DeviceId) {
    if (context.live({0})) launch(context);
  };
  run.Run(&policy, {TokenRequest(0, 4, 4)});
  std::vector<std::string> told;
  for (const FakeStep& step : run.fakes[0].steps) {
    const DeviceCommand& entry = step.entries.at(0);
    told.push_back(std::to_string(entry.context_tokens) + "+" + std::to_string(entry.tokens) +
                   (entry.decode ? " decodes" : "") + (entry.samples ? " samples" : ""));
  }
  EXPECT_THAT(told, ElementsAre("0+3", "3+1 samples", "4+1 decodes samples", "0+4", "4+1",
                                "5+1 decodes samples", "6+1 decodes samples"));
}

}  // namespace
}  // namespace schedtwin
