// World, the loop: what comes when. Order at equal times, pokes, timers, wakes of a real clock, and
// the ways in which a run ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policies/runtime/journal.h"
#include "policies/runtime/world.h"
#include "tests/support/mini_batch.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The events at `now`, without the time in front.
std::vector<std::string> At(const ScriptedPolicy& policy, std::int64_t now) {
  std::vector<std::string> events;
  const std::string prefix = std::to_string(now) + " ";
  for (const std::string& event : policy.seen) {
    if (event.starts_with(prefix)) events.push_back(event.substr(prefix.size()));
  }
  return events;
}

/// One step that computes all that a request has to compute.
Launched LaunchOne(Context& context, DeviceId device, RequestId request,
                   bool late_binding = false) {
  const RequestView view = context.request(request);
  context.memory(device).Reserve(request, view.scheduled_tokens() + view.next_tokens());
  const Entry entry{request, view.next_tokens()};
  const Launched launched = context.actions().Launch(
      {.device = device, .entries = {&entry, 1}, .late_binding = late_binding});
  EXPECT_TRUE(launched.ok()) << static_cast<int>(launched.refusal);
  return launched;
}

/// Ends a request at once, so that a run need not serve it.
void Drop(Context& context, RequestId request) {
  context.actions().Finish(request, EndReason::kRejected);
}

// ---- Order at equal times ----

TEST(WorldOrder, DoneThenTimerThenArrivalThenPlanStartingThenSlotFree) {
  TestRun run;
  run.device.queue_depth = 2;
  run.step_time = [](const FakeStep&) { return Duration::Nanos(20); };
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(20), 7); };
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value < 2) LaunchOne(context, {0}, request, /*late_binding=*/request.value == 1);
    if (request.value == 2) Drop(context, request);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(5, 4, 1), TokenRequest(20, 4, 1)});
  EXPECT_THAT(At(policy, 20),
              ElementsAre("done 0 finish 1", "timer 7", "arrival 2", "starting", "slot 0"));
}

TEST(WorldOrder, EndsOfPlansByDeviceThenSlotsByDevice) {
  TestRun run;
  run.devices = 3;
  ScriptedPolicy policy;
  // The highest device is asked first: the order is not that of the launches.
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, {2 - request.value}, request);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1), TokenRequest(0, 4, 2)});
  EXPECT_THAT(At(policy, 10), ElementsAre("done 0 steps 1", "done 1 finish 1", "done 2 finish 1",
                                          "slot 0", "slot 1", "slot 2"));
}

TEST(WorldOrder, ArrivalsBySource) {
  TestRun run;
  ScriptedPolicy policy;
  std::vector<std::uint32_t> prompts;
  policy.on_arrival = [&](Context& context, RequestId request) {
    prompts.push_back(context.request(request).prompt_tokens());
    Drop(context, request);
  };
  // The second request of the first source is pulled last, and is due with that of the second
  // source.
  ListSource first({TokenRequest(0, 1, 1), TokenRequest(10, 2, 1)});
  ListSource second({TokenRequest(10, 3, 1)});
  run.Run(&policy, std::vector<RequestSource*>{&first, &second});
  EXPECT_THAT(prompts, ElementsAre(1, 2, 3));
  ASSERT_EQ(first.ends.size(), 2u);
  EXPECT_EQ(first.ends[1].index, 1u);
  EXPECT_EQ(second.ends.at(0).index, 0u) << "sources count their own requests";
}

TEST(WorldOrder, ATieSeedShufflesInsideAClassOnly) {
  const auto order = [](std::uint64_t tie_seed) {
    TestRun run;
    run.devices = 4;
    run.options.tie_seed = tie_seed;
    ScriptedPolicy policy;
    policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(10), 1); };
    policy.on_arrival = [](Context& context, RequestId request) {
      LaunchOne(context, {request.value}, request);
    };
    run.Run(&policy, std::vector<RequestSpec>(4, TokenRequest(0, 4, 2)));
    std::vector<std::string> events = At(policy, 10);
    EXPECT_EQ(events.at(4), "timer 1") << "no seed moves an event out of its class";
    for (std::size_t i = 5; i < 9; ++i) EXPECT_TRUE(events.at(i).starts_with("slot")) << events[i];
    return events;
  };
  const std::vector<std::string> plain = order(0);
  bool shuffled = false, slots_shuffled = false;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<std::string> events = order(seed);
    shuffled |= !std::equal(events.begin(), events.begin() + 4, plain.begin());
    slots_shuffled |= !std::equal(events.begin() + 5, events.end(), plain.begin() + 5);
    EXPECT_EQ(events, order(seed));
    EXPECT_THAT(events, testing::UnorderedElementsAreArray(plain)) << "the same events";
  }
  EXPECT_TRUE(shuffled);
  EXPECT_TRUE(slots_shuffled);
}

// ---- Poke ----

TEST(WorldPoke, OneSlotFreeAfterAllElseThatIsDueNow) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    EXPECT_EQ(context.actions().Poke({0}), Refusal::kNone);
    if (request.value == 0) context.clock().Arm(context.now(), 9);
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    for (std::uint32_t id = 0; id < 3; ++id) Drop(context, {id});
  };
  run.Run(&policy, {TokenRequest(10, 4, 1), TokenRequest(10, 4, 1), TokenRequest(10, 4, 1)});
  EXPECT_THAT(At(policy, 10),
              ElementsAre("arrival 0", "timer 9", "arrival 1", "arrival 2", "slot 0"));
}

TEST(WorldPoke, AtTheStartTheSlotIsFreeAtTheStart) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.actions().Poke({0}); };
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  run.Run(&policy, {TokenRequest(100, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "0 slot 0", "100 arrival 0"));
}

TEST(WorldPoke, GivesNoSlotWhereNoneIsFree) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, {0}, request);
    if (request.value == 1) {
      context.actions().Poke({0});
      Drop(context, request);
    }
  };
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(5, 4, 1)});
  EXPECT_THAT(At(policy, 5), ElementsAre("arrival 1"));
  EXPECT_THAT(At(policy, 10), ElementsAre("done 0 finish 1", "slot 0"));
}

// ---- Timers ----

TEST(WorldTimers, FireInOrderOfTimeThenOfArming) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) {
    context.clock().Arm(Time::Nanos(20), 1);
    context.clock().Arm(Time::Nanos(10), 2);
    context.clock().Arm(Time::Nanos(10), 3);
  };
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  run.Run(&policy, {TokenRequest(30, 4, 1)});
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "10 timer 2", "10 timer 3", "20 timer 1", "30 arrival 0"));
}

TEST(WorldTimers, ArmedForThePastFireNow) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId) { context.clock().Arm(Time::Nanos(3), 1); };
  policy.on_timer = [](Context& context, std::uint64_t) { Drop(context, {0}); };
  run.Run(&policy, {TokenRequest(30, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "30 arrival 0", "30 timer 1"));
}

TEST(WorldTimers, OneDueAtThisInstantCanStillBeCancelled) {
  TestRun run;
  ScriptedPolicy policy;
  TimerId second, own;
  policy.on_start = [&](Context& context) {
    own = context.clock().Arm(Time::Nanos(10), 1);
    second = context.clock().Arm(Time::Nanos(10), 2);
  };
  policy.on_timer = [&](Context& context, std::uint64_t) {
    EXPECT_FALSE(context.clock().Cancel(own)) << "it has fired";
    EXPECT_TRUE(context.clock().Cancel(second));
    EXPECT_FALSE(context.clock().Cancel(second)) << "only once";
    EXPECT_FALSE(context.clock().Rearm(second, Time::Nanos(15)));
  };
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  run.Run(&policy, {TokenRequest(30, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "10 timer 1", "30 arrival 0"));
}

TEST(WorldTimers, RearmMovesAPendingTimerAndNoOther) {
  TestRun run;
  ScriptedPolicy policy;
  TimerId second;
  policy.on_start = [&](Context& context) {
    context.clock().Arm(Time::Nanos(10), 1);
    second = context.clock().Arm(Time::Nanos(10), 2);
  };
  policy.on_timer = [&](Context& context, std::uint64_t tag) {
    const bool pending = tag == 1;
    EXPECT_EQ(context.clock().Rearm(second, Time::Nanos(20)), pending);
  };
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  run.Run(&policy, {TokenRequest(30, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "10 timer 1", "20 timer 2", "30 arrival 0"));
}

// ---- Wakes of a clock that does not jump ----

TEST(WorldWake, WhatALateWakeCollectsIsSimultaneous) {
  TestRun run;
  ScriptedPolicy policy;
  TimerId last;
  policy.on_start = [&](Context& context) {
    context.clock().Arm(Time::Nanos(20), 1);
    last = context.clock().Arm(Time::Nanos(25), 2);
  };
  policy.on_timer = [&](Context& context, std::uint64_t) {
    EXPECT_TRUE(context.clock().Cancel(last)) << "collected, but not delivered yet";
  };
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  ManualTimeSource time;
  time.advance = [](Time) { return Time::Nanos(50); };
  run.time = &time;
  run.Run(&policy, {TokenRequest(10, 4, 1)});
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "50 timer 1", "50 arrival 0"));
  EXPECT_EQ(run.recorder.requests.at(0).arrival, Time::Nanos(10)) << "latency is from the schedule";
  EXPECT_EQ(run.recorder.requests.at(0).admitted, Time::Nanos(50));
}

TEST(WorldWake, RepliesOfOneWakeComeByDevice) {
  TestRun run;
  run.devices = 2;
  run.MakeDevices();
  for (FakeDevice& fake : run.fakes) fake.hold = true;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(100), 1); };
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, {request.value}, request);
  };
  ManualTimeSource time;
  time.may_wake = true;
  // Device 1 wrote its message first; both are found in the same wake, long before the timer.
  time.advance = [&](Time next) {
    if (run.fakes[1].held() == 0) return next;
    run.fakes[1].Release(Time::Nanos(40));
    run.fakes[0].Release(Time::Nanos(45));
    return Time::Nanos(50);
  };
  run.time = &time;
  run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_THAT(At(policy, 50),
              ElementsAre("done 0 finish 1", "done 1 finish 1", "slot 0", "slot 1"));
  EXPECT_EQ(run.recorder.Find(1)->last_token, Time::Nanos(40)) << "each carries its own stamp";
}

TEST(WorldWake, WakingTooEarlyChangesNothing) {
  const auto run = [](TimeSource* time) {
    TestRun test;
    test.time = time;
    MiniBatch policy(/*standing=*/true, /*max_steps=*/100);
    std::vector<RequestSpec> requests;
    for (std::uint32_t i = 0; i < 20; ++i) requests.push_back(TokenRequest(37 * i, 5 + i, 3 + i));
    const RunSummary summary = test.Run(&policy, requests);
    EXPECT_EQ(summary.result, RunResult::kFinished);
    return std::pair(summary.decision_digest, summary.outcome_digest);
  };
  ManualTimeSource early;
  Time last;
  early.advance = [&](Time next) {  // half the way at a time
    last = last + (next - last + Duration::Nanos(1)) / 2;
    return last;
  };
  EXPECT_EQ(run(&early), run(nullptr));
}

// A clock that wakes late must not make a step longer than its device says.
TEST(WorldWake, WakingTooLateKeepsTheStampsOfSteps) {
  TestRun run;
  ManualTimeSource late;
  late.advance = [](Time next) { return next + Duration::Nanos(3); };
  run.time = &late;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    EXPECT_EQ(done.end, Time::Nanos(13));
    EXPECT_EQ(context.now(), Time::Nanos(16));
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(run.recorder.Find(0)->last_token, Time::Nanos(13));
  EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(13));
  EXPECT_EQ(run.recorder.steps.at(0).end, Time::Nanos(13));
  EXPECT_EQ(summary.last_end, Time::Nanos(13));
  // What the policy was told beyond the time of the callback is in the log.
  bool told = false;
  for (const LogRecord& line : run.recorder.log) {
    told |= line.kind == static_cast<std::uint8_t>(LineKind::kEvent) &&
            line.code == static_cast<std::uint8_t>(EventCode::kStepTimes) && line.b == 3 &&
            line.c == 13;
  }
  EXPECT_TRUE(told);
}

// A client of a live run: nothing now, something later.
class LateSource final : public RequestSource {
 public:
  Pull Next(RequestSpec* out) override {
    if (!ready) return Pull::kLater;
    if (given_) return Pull::kDry;
    given_ = true;
    *out = TokenRequest(70, 4, 1);
    return Pull::kRequest;
  }
  bool ready = false;

 private:
  bool given_ = false;
};

TEST(WorldWake, ASourceThatWaitedIsAskedWhenTheClockWakes) {
  TestRun run;
  LateSource source;
  ManualTimeSource time;
  time.may_wake = true;
  int wakes = 0;
  time.advance = [&](Time next) {
    source.ready = ++wakes == 5;
    return next.infinite() ? Time::Nanos(20 * wakes) : next;
  };
  run.time = &time;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  source.ready = false;
  EXPECT_EQ(run.Run(&policy, std::vector<RequestSource*>{&source}).result, RunResult::kFinished);
  EXPECT_THAT(policy.seen, ElementsAre("0 start", "100 arrival 0"));
}

// ---- Ends ----

TEST(WorldEnd, WithoutWorkAtOnce) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(10), 1); };
  const RunSummary summary = run.Run(&policy, std::vector<RequestSpec>{});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(summary.requests, 0u);
  EXPECT_THAT(policy.seen, ElementsAre("0 start")) << "a timer keeps no run alive";
}

TEST(WorldEnd, WhenSourcesAreDryAndNobodyLives) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) {
      LaunchOne(context, {0}, request);
    } else {
      Drop(context, request);
    }
    context.clock().Arm(Time::Nanos(1000), 1);
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(3, 4, 1), TokenRequest(7, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(summary.detail, "");
  EXPECT_EQ(summary.requests, 2u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 1u);
  EXPECT_EQ(summary.first_arrival, Time::Nanos(3));
  EXPECT_EQ(summary.last_end, Time::Nanos(13));
  EXPECT_EQ(summary.steps, 1u);
}

TEST(WorldEnd, AClosedSourceIsAskedAgainWhenItsRequestEnds) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  ClosedSource source(TokenRequest(5, 4, 1), 3, Duration::Nanos(7));
  const RunSummary summary = run.Run(&policy, std::vector<RequestSource*>{&source});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  ASSERT_EQ(run.recorder.requests.size(), 3u);
  EXPECT_EQ(run.recorder.requests[1].arrival, Time::Nanos(22));  // 5 + a step of 10 + 7
  EXPECT_EQ(run.recorder.requests[2].end, Time::Nanos(49));
}

TEST(WorldEnd, AClosedSourceGoesOnAfterARejection) {
  TestRun run;
  run.device.max_model_len_tokens = 8;
  ScriptedPolicy policy;
  ClosedSource source(TokenRequest(5, 8, 1), 3, Duration::Nanos(7));
  const RunSummary summary = run.Run(&policy, std::vector<RequestSource*>{&source});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 3u);
}

TEST(WorldEnd, NothingPlannedIsAStall) {
  TestRun run;
  ScriptedPolicy policy;
  const RunSummary summary = run.Run(&policy, {TokenRequest(3, 4, 1), TokenRequest(7, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_THAT(summary.detail, HasSubstr("2 requests live"));
  EXPECT_THAT(summary.detail, HasSubstr("the oldest is 0"));
}

/// Re-arms a timer for ever, every `period`.
void Tick(ScriptedPolicy* policy, Duration period) {
  policy->on_start = [](Context& context) { context.clock().Arm(context.now(), 1); };
  policy->on_timer = [period](Context& context, std::uint64_t) {
    context.clock().Arm(context.now() + period, 1);
  };
}

TEST(WorldEnd, OnlyTimersIsAStall) {
  TestRun run;
  run.options.max_idle_timers = 1000;
  ScriptedPolicy policy;
  Tick(&policy, Duration::Nanos(1));
  const RunSummary summary = run.Run(&policy, {TokenRequest(3, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_THAT(summary.detail, HasSubstr("only timers fire"));
  EXPECT_LT(policy.seen.size(), 1100u);
}

TEST(WorldEnd, TimersWhileAnArrivalIsStillToComeAreNoStall) {
  TestRun run;
  run.options.max_idle_timers = 1000;
  ScriptedPolicy policy;
  Tick(&policy, Duration::Nanos(1));
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(5000, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
}

TEST(WorldEnd, TimersWhileALongStepRunsAreNoStall) {
  TestRun run;
  run.options.max_idle_timers = 1000;
  run.step_time = [](const FakeStep&) { return Duration::Nanos(5000); };
  ScriptedPolicy policy;
  Tick(&policy, Duration::Nanos(1));
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
}

TEST(WorldEnd, ATimerThatRearmsForNowIsALivelock) {
  TestRun run;
  run.options.max_callbacks_per_instant = 1000;
  ScriptedPolicy policy;
  Tick(&policy, Duration::Nanos(0));
  const RunSummary summary = run.Run(&policy, {TokenRequest(3, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kLivelocked);
  EXPECT_THAT(summary.detail, HasSubstr("more than 1000 callbacks at 0 ns"));
}

TEST(WorldEnd, ASlotThatPokesItselfIsALivelock) {
  TestRun run;
  run.options.max_callbacks_per_instant = 1000;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke({0}); };
  policy.on_slot_free = [](Context& context, DeviceId device) { context.actions().Poke(device); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(3, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kLivelocked);
  EXPECT_THAT(summary.detail, HasSubstr("at 3 ns"));
}

TEST(WorldEnd, ManyCallbacksSpreadOverInstantsAreNoLivelock) {
  TestRun run;
  run.options.max_callbacks_per_instant = 50;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { Drop(context, request); };
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 400; ++i) requests.push_back(TokenRequest(i / 40, 4, 1));
  EXPECT_EQ(run.Run(&policy, requests).result, RunResult::kFinished);
}

TEST(WorldEnd, CanBeStoppedFromOutside) {
  TestRun run;
  std::atomic<bool> stop = false;
  run.options.stop = &stop;
  ScriptedPolicy policy;
  policy.on_arrival = [&](Context& context, RequestId request) {
    if (request.value == 2) stop = true;
    Drop(context, request);
  };
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(TokenRequest(i, 4, 1));
  const RunSummary summary = run.Run(&policy, requests);
  EXPECT_EQ(summary.result, RunResult::kInterrupted);
  EXPECT_EQ(summary.requests, 3u);
}

}  // namespace
}  // namespace schedtwin
