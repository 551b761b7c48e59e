// What happens to requests beside their work: they are cancelled, held, continued, served by
// another variant; and what the policy's thread costs, what devices report, and how a run ends that
// gets no request on. Steps take 10 ns, operations 25.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/timed_run.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Link kLink = {Duration::Nanos(1), 1'000'000'000};

RequestSpec Leaving(RequestSpec request, std::int64_t ns) {
  request.leaves = Time::Nanos(ns);
  return request;
}
RequestSpec Due(RequestSpec request, std::int64_t ns) {
  request.deadline = Time::Nanos(ns);
  return request;
}

// ---- Cancelling ----

/// What request 0 is in when its client leaves, at 45: it was prefilled from 1 to 11.
struct Situation {
  const char* name;
  std::int64_t at;  ///< when `come` brings it there
  std::function<void(Context&)> come;
  std::uint32_t output = 1;  ///< what it has made by then

  friend void PrintTo(const Situation& situation, std::ostream* out) { *out << situation.name; }
};

void Swap(Context& context) {
  EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kSwap), Refusal::kNone);
}
void JoinAndRun(Context& context) {
  EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
  EXPECT_TRUE(context.actions().Launch({.device = {0}, .standing = true, .max_steps = 9}).ok());
}

const Situation kSituations[] = {
    {"Computed", 40, [](Context&) {}},
    {"Preempted", 40,
     [](Context& context) { context.actions().Preempt({0}, PreemptMode::kRecompute); }},
    {"Reserved", 40, [](Context& context) { context.memory({0}).Reserve({0}, 40); }},
    {"Running", 40, [](Context& context) { LaunchOne(context, {0}, {0}); }},
    {"RunningManySteps", 30,
     [](Context& context) { LaunchOne(context, {0}, {0}, {.max_steps = 9}); }, 2},
    {"Queued", 40,
     [](Context& context) {
       LaunchOne(context, {0}, {1});
       LaunchOne(context, {0}, {0});
     }},
    {"RunningAndQueued", 40,
     [](Context& context) {
       LaunchOne(context, {0}, {0});
       LaunchOne(context, {0}, {0});
     }},
    {"Standing", 40,
     [](Context& context) { EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone); }},
    {"StandingAndRunning", 30, JoinAndRun, 2},
    {"Moving", 40, Swap},
    {"OnTheHost", 12, Swap},
    {"Held", 12,
     [](Context& context) {
       context.actions().HoldResponse({0});
       LaunchOne(context, {0}, {0}, {.max_steps = 9});
     },
     4},
};

class CancelTest : public testing::TestWithParam<Situation> {
 protected:
  /// Runs request 0, with four tokens to make, into the situation, and looks at the end of it.
  void Run(EndReason reason) {
    timed.run.device.host_blocks = 8;
    timed.run.device.queue_depth = 3;
    timed.run.device.host_link = kLink;
    timed.LaunchAt(1, 0);
    timed.At(GetParam().at, GetParam().come);
    timed.At(46, [](Context& context) {  // a step in flight may still name it
      if (context.live({0})) {
        EXPECT_EQ(context.request({0}).state(), RequestState::kEnded);
      }
    });
    timed.At(120, [](Context& context) {
      const std::uint32_t other = context.request({1}).owned_blocks();
      EXPECT_EQ(BooksOf(context, 0), (Books{100 - other, 0, 8}));
      EXPECT_EQ(context.device({0}).standing, 0u);
      EXPECT_TRUE(context.device({0}).idle());
    });
    timed.EndAllAt(121, 2);
    const std::uint32_t output = GetParam().name == std::string("Held") ? 4 : 40;
    const RunSummary summary =
        timed.Run({Leaving(TokenRequest(0, 8, output), 45), TokenRequest(0, 8, 9)});
    EXPECT_EQ(summary.ended[static_cast<int>(reason)], reason == EndReason::kTimedOut ? 2u : 1u);
    EXPECT_THAT(timed.Told(), testing::Contains("45 cancel 0 client").Times(1));
    const RequestRecord& record = *timed.run.recorder.Find(0);
    EXPECT_EQ(record.reason, reason);
    EXPECT_EQ(record.end, Time::Nanos(45));
    EXPECT_EQ(record.output_tokens, GetParam().output) << "a step in flight makes nothing for it";
  }
  TimedRun timed;
};

INSTANTIATE_TEST_SUITE_P(In, CancelTest, testing::ValuesIn(kSituations),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(CancelTest, IsEndedByTheRuntime) {
  timed.policy.on_cancel = [](Context& context, RequestId request, CancelBy) {
    EXPECT_TRUE(context.live(request)) << "until this returns";
  };
  Run(EndReason::kCancelled);
}

TEST_P(CancelTest, IsEndedByThePolicyForAReasonOfItsOwn) {
  timed.policy.on_cancel = [](Context& context, RequestId request, CancelBy) {
    EXPECT_EQ(context.actions().Finish(request, EndReason::kTimedOut), Refusal::kNone);
  };
  Run(EndReason::kTimedOut);
}

TEST(Cancel, LeavesATransactionAsItWas) {
  TimedRun timed;
  timed.policy.on_cancel = [](Context& context, RequestId, CancelBy) {
    context.memory({0}).Begin();
    EXPECT_TRUE(context.memory({0}).Reserve({1}, 40));
  };
  timed.At(6, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{100, 0, 0})); });
  timed.EndAllAt(7, 2);
  const RunSummary summary = timed.Run({Leaving(TokenRequest(0, 8, 2), 5), TokenRequest(0, 8, 2)});
  EXPECT_EQ(summary.refusals[static_cast<int>(Refusal::kBadArgument)], 1u);
}

TEST(Cancel, DeadlinesCancelOnlyWhereTheRunSaysSo) {
  for (const bool cancel : {false, true}) {
    TimedRun timed;
    timed.run.options.deadlines_cancel = cancel;
    timed.LaunchAt(1, 0, 0);
    timed.Run({Due(TokenRequest(0, 8, 1), 5)});
    const RequestRecord& record = *timed.run.recorder.Find(0);
    EXPECT_EQ(record.reason, cancel ? EndReason::kTimedOut : EndReason::kCompleted);
    EXPECT_EQ(record.end, Time::Nanos(cancel ? 5 : 11));
  }
}

TEST(Cancel, TheEarlierOfClientAndDeadlineCounts) {
  TimedRun timed;
  timed.run.options.deadlines_cancel = true;
  timed.Run({Due(Leaving(TokenRequest(0, 8, 1), 9), 5), Due(Leaving(TokenRequest(0, 8, 1), 6), 8),
             Due(Leaving(TokenRequest(0, 8, 1), 7), 7)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "0 arrival 1", "0 arrival 2", "5 cancel 0 deadline",
                          "6 cancel 1 client", "7 cancel 2 client"));
}

TEST(Cancel, WhoIsServedInTimeHearsNothing) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.Run({Leaving(TokenRequest(0, 8, 1), 12)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 finish 1"));
}

TEST(Cancel, TheLastTokenAtTheInstantOfLeavingIsInTime) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.Run({Leaving(TokenRequest(0, 8, 1), 11)});
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kCompleted);
}

TEST(Cancel, WhoHasLeftBeforeArrivingArrivesAndGoes) {
  TimedRun timed;
  timed.Run({Leaving(TokenRequest(10, 8, 1), 5)});
  EXPECT_THAT(timed.Told(), ElementsAre("10 arrival 0", "10 cancel 0 client"));
}

TEST(Cancel, OneThatIsToComeIsNoStall) {
  TimedRun timed;
  timed.run.options.max_idle_timers = 10;
  timed.policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(1), 0); };
  timed.policy.on_timer = [](Context& context, std::uint64_t) {
    if (context.live({0})) context.clock().Arm(context.now() + Duration::Nanos(1), 0);
  };
  const RunSummary summary = timed.run.Run(&timed.policy, {Leaving(TokenRequest(0, 8, 1), 1000)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.last_end, Time::Nanos(1000));
}

// ---- Held responses ----

Refusal Hold(Context& context) { return context.actions().HoldResponse({0}); }
Refusal Free(Context& context) { return context.actions().ReleaseResponse({0}); }

TEST(HeldResponse, FinishesForTheDeviceAndEndsWhenItIsReleased) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) { EXPECT_EQ(Hold(context), Refusal::kNone); });
  timed.policy.on_plan_done = [](Context&, const PlanDone& done) {
    EXPECT_EQ(done.why, PlanEnd::kFinish);
    EXPECT_THAT(done.finished, ElementsAre(RequestId{0}));
  };
  timed.At(12, [](Context& context) {
    EXPECT_TRUE(context.live({0}));
    EXPECT_EQ(ProgressOf(context, 0).state, RequestState::kHeld);
    EXPECT_EQ(ProgressOf(context, 0).output, 1u);
    EXPECT_EQ(ProgressOf(context, 0).owned, 0u);
    EXPECT_EQ(BooksOf(context, 0), (Books{100, 0, 0}));
    const Entry entry{{0}, 1};
    EXPECT_EQ(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).refusal,
              Refusal::kEnded);
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kEnded);
    EXPECT_EQ(context.actions().Route({0}, {0}), Refusal::kEnded);
    EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kEnded);
    EXPECT_EQ(Hold(context), Refusal::kEnded);
    EXPECT_FALSE(context.memory({0}).Reserve({0}, 4));
  });
  timed.At(20, [](Context& context) {
    EXPECT_EQ(Free(context), Refusal::kNone);
    EXPECT_EQ(Free(context), Refusal::kUnknownRequest);
  });
  timed.Run({TokenRequest(0, 8, 1)});
  const RequestRecord& record = *timed.run.recorder.Find(0);
  EXPECT_EQ(record.reason, EndReason::kCompleted);
  EXPECT_EQ(record.last_token, Time::Nanos(11));
  EXPECT_EQ(record.end, Time::Nanos(20));
}

TEST(HeldResponse, ReleasedBeforeItFinishesItEndsAsEver) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) {
    EXPECT_EQ(Free(context), Refusal::kBadArgument) << "is not held";
    EXPECT_EQ(Hold(context), Refusal::kNone);
    EXPECT_EQ(Hold(context), Refusal::kNone);
    EXPECT_EQ(Free(context), Refusal::kNone);
  });
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(11));
}

TEST(HeldResponse, MayBeHeldAndFinishedWhileItsKvMoves) {
  TimedRun timed;
  timed.run.device.host_blocks = 8;
  timed.run.device.host_link = kLink;
  timed.LaunchAt(1, 0);
  timed.At(12, Swap);
  timed.At(13, [](Context& context) {
    EXPECT_EQ(Hold(context), Refusal::kNone);
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kCached), Refusal::kNone) << "holds nobody";
  });
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kCached);
}

TEST(HeldResponse, PolicyMayEndItForAnotherReason) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) { Hold(context); });
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kCompleted), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kTimedOut), Refusal::kNone);
  });
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kTimedOut);
}

TEST(HeldResponse, IsNotLostWithADevice) {
  const Fault fault[] = {{{0}, Time::Nanos(15), Time::Nanos(16), true}};
  TimedRun timed;
  timed.run.options.faults = fault;
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) { Hold(context); });
  timed.At(20, [](Context& context) { EXPECT_EQ(Free(context), Refusal::kNone); });
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kCompleted);
}

TEST(HeldResponse, ForgottenItIsAStall) {
  TimedRun timed;
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) { Hold(context); });
  const RunSummary summary = timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_EQ(summary.detail,
            "nothing is planned; 1 requests live, the oldest is 0 (8 prompt tokens, 1 made); "
            "device 0 has 100 of 100 blocks free and 0 plans queued");
}

TEST(HeldResponse, OneShotResponsesAreHeldToo) {
  TimedRun timed;
  timed.run.device = SmallOneShot();
  timed.At(1, [](Context& context) {
    Hold(context);
    const Entry entry{{0}, 5};
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).ok());
  });
  timed.At(30, [](Context& context) { EXPECT_EQ(Free(context), Refusal::kNone); });
  timed.Run({UnitRequest(0, 5)});
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(30));
}

// ---- Parents, variants, decode devices ----

TEST(Parent, IsTheSourcesOwnRequest) {
  for (const bool two : {false, true}) {
    std::vector<RequestSpec> requests = {TokenRequest(5, 8, 1), TokenRequest(6, 8, 1),
                                         TokenRequest(7, 8, 1)};
    requests[1].parent = 0;
    requests[1].session = 44;
    requests[2].parent = 2;  // itself: none that has come before
    ListSource first(two ? std::vector<RequestSpec>{TokenRequest(5, 8, 1), TokenRequest(5, 8, 1)}
                         : requests);
    ListSource second(two ? requests : std::vector<RequestSpec>{});
    TestRun run;
    std::vector<RequestId> parents;
    ScriptedPolicy policy;
    policy.on_arrival = [&](Context& context, RequestId request) {
      const RequestView view = context.request(request);
      parents.push_back(view.parent());
      EXPECT_EQ(view.session(), view.parent().valid() ? 44u : 0u);
      context.actions().Finish(request, EndReason::kRejected);
    };
    run.Run(&policy, two ? std::vector<RequestSource*>{&first, &second}
                         : std::vector<RequestSource*>{&first});
    const RequestId none = {};
    // Of two, the second source's first request is the second of the run, or the third.
    if (two) {
      ASSERT_EQ(parents.size(), 5u);
      EXPECT_THAT(parents, ElementsAre(none, none, none, RequestId{2}, none));
    } else {
      EXPECT_THAT(parents, ElementsAre(none, RequestId{0}, none));
    }
  }
}

TEST(Variant, ServesUntilTheRequestHoldsSomething) {
  const ModelInfo models[] = {{"large", 1}, {"small", 1}};
  TimedRun timed;
  timed.run.options.models = models;
  timed.At(1, [](Context& context) {
    EXPECT_EQ(context.actions().Route({0}, {0}, {}, {2}), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Route({0}, {0}, {}, {1}), Refusal::kNone);
    EXPECT_EQ(context.request({0}).model().value, 1u);
    LaunchOne(context, {0}, {0});
    EXPECT_EQ(context.actions().Route({0}, {0}, {}, {0}), Refusal::kModelInUse);
    EXPECT_EQ(context.actions().Route({0}, {0}, {}, {1}), Refusal::kNone) << "changes nothing";
    EXPECT_EQ(context.actions().Route({0}, {0}), Refusal::kNone);
    EXPECT_EQ(context.request({0}).model().value, 1u);
  });
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->model.value, 1u);
}

TEST(DecodeDevice, IsANote) {
  TimedRun timed;
  timed.run.devices = 2;
  timed.At(1, [](Context& context) {
    EXPECT_FALSE(context.request({0}).decode_device().valid());
    EXPECT_EQ(context.actions().Route({0}, {0}, {7}), Refusal::kUnknownDevice);
    EXPECT_EQ(context.actions().Route({0}, {0}, {1}), Refusal::kNone);
    EXPECT_EQ(context.request({0}).device().value, 0u);
    EXPECT_EQ(context.request({0}).decode_device().value, 1u);
  });
  timed.LaunchAt(2, 0, 0, {});
  timed.LaunchAt(13, 0, 0, {});  // it stays where it is
  timed.Run({TokenRequest(0, 8, 2)});
}

// ---- What decisions cost ----

TEST(DecisionCost, DelaysWhatWasLaunched) {
  TestRun run;
  run.devices = 2;
  run.options.decision_cost.fixed = Duration::Nanos(7);
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    context.actions().Poke({request.value});
  };
  policy.on_slot_free = [](Context& context, DeviceId device) {
    const RequestId request = {device.value};
    if (!context.live(request)) return;
    LaunchOne(context, device, request, {.max_steps = context.now() > Time() ? 9u : 1u});
  };
  run.Run(&policy, {TokenRequest(0, 8, 3), TokenRequest(0, 4, 1)});
  ASSERT_EQ(run.recorder.steps.size(), 4u);
  const auto expect = [&](std::size_t i, std::uint32_t device, std::int64_t start,
                          std::int64_t decision_ns) {
    EXPECT_EQ(run.recorder.steps[i].device.value, device) << i;
    EXPECT_EQ(run.recorder.steps[i].start, Time::Nanos(start)) << i;
    EXPECT_EQ(run.recorder.steps[i].end, Time::Nanos(start + 10)) << i;
    EXPECT_EQ(run.recorder.steps[i].decision_ns, decision_ns) << i;
  };
  expect(0, 0, 7, 7);
  expect(1, 1, 14, 7);   // the thread is one
  expect(2, 0, 24, 7);   // 17, and 7
  expect(3, 0, 34, -1);  // a plan that goes on is no decision
}

TEST(DecisionCost, IsDrawnFromWhatWasMeasuredByTheSeed) {
  const Duration measured[] = {Duration::Nanos(3), Duration::Nanos(11), Duration::Nanos(40)};
  const auto delays = [&](std::uint64_t seed, std::uint64_t* digest) {
    TestRun run;
    run.options.seed = seed;
    run.options.decision_cost = {Duration::Nanos(100), measured};
    ScriptedPolicy policy;
    policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke({0}); };
    policy.on_slot_free = [](Context& context, DeviceId device) {
      if (context.live({0})) LaunchOne(context, device, {0});
    };
    *digest = run.Run(&policy, {TokenRequest(0, 8, 40)}).outcome_digest;
    std::vector<std::int64_t> found;
    Time before;
    for (const StepRecord& step : run.recorder.steps) {
      EXPECT_EQ((step.start - before).ns(), step.decision_ns);
      found.push_back(step.decision_ns);
      before = step.end;
    }
    return found;
  };
  std::uint64_t first = 0, again = 0, other = 0;
  const std::vector<std::int64_t> found = delays(1, &first);
  EXPECT_EQ(found.size(), 40u);
  EXPECT_EQ(std::set<std::int64_t>(found.begin(), found.end()),
            (std::set<std::int64_t>{103, 111, 140}));
  EXPECT_EQ(delays(1, &again), found);
  EXPECT_EQ(again, first);
  EXPECT_NE(delays(2, &other), found);
  EXPECT_NE(other, first);
}

// ---- Reports ----

TEST(Report, IsWhatTheDeviceWroteNotWhatIsTrueWhenItComes) {
  TimedRun timed;
  timed.run.device.queue_depth = 2;
  timed.run.options.report_interval = Duration::Nanos(20);
  timed.run.options.report_delay = Duration::Nanos(25);
  timed.At(15, [](Context& context) {
    context.actions().Route({1}, {0});
    context.actions().Route({2}, {0});
    EXPECT_TRUE(context.memory({0}).Reserve({2}, 8)) << "has blocks, nothing computed";
    context.actions().SetRole({0}, DeviceRole::kPrefill);
    LaunchOne(context, {0}, {0});
  });
  std::vector<DeviceReport> reports;
  timed.policy.on_report = [&](Context& context, const DeviceReport& report) {
    EXPECT_EQ(context.now() - report.taken, Duration::Nanos(25));
    reports.push_back(report);
  };
  timed.EndAllAt(70, 4);
  timed.Run(
      {TokenRequest(0, 8, 1), TokenRequest(0, 5, 1), TokenRequest(0, 6, 1), TokenRequest(0, 7, 1)});
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].id.value, 0u);
  EXPECT_EQ(reports[0].taken, Time::Nanos(20));
  EXPECT_EQ(reports[0].state, DeviceState::kUp);
  EXPECT_EQ(reports[0].role, DeviceRole::kPrefill);
  EXPECT_EQ(reports[0].waiting, 2u) << "request 3 is bound to none";
  EXPECT_EQ(reports[0].waiting_tokens, 11u);
  EXPECT_EQ(reports[0].running, 1u);
  EXPECT_EQ(reports[0].queued, 1u);
  EXPECT_EQ(reports[0].free_blocks, 96u);
  EXPECT_EQ(reports[0].total_blocks, 100u);
  EXPECT_EQ(reports[1].taken, Time::Nanos(40));
  EXPECT_EQ(reports[1].running, 0u);
  EXPECT_EQ(reports[1].queued, 0u);
  EXPECT_EQ(reports[1].free_blocks, 98u);
}

TEST(Report, ComesFromEveryDeviceOnTheGrid) {
  TimedRun timed;
  timed.run.devices = 3;
  timed.run.options.devices_at_start = 2;
  timed.run.options.report_interval = Duration::Nanos(20);
  std::map<std::uint32_t, DeviceState> states;
  timed.policy.on_report = [&](Context&, const DeviceReport& report) {
    states[report.id.value] = report.state;
  };
  timed.EndAllAt(41, 1);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "20 report 0 of 20", "20 report 1 of 20",
                                        "20 report 2 of 20", "40 report 0 of 40",
                                        "40 report 1 of 40", "40 report 2 of 40"));
  EXPECT_EQ(states[1], DeviceState::kUp);
  EXPECT_EQ(states[2], DeviceState::kOff);
}

TEST(Report, NeverComesUnlessTheRunSaysSo) {
  TimedRun timed;
  timed.EndAllAt(100'000, 1);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0"));
}

// ---- Runs that get nowhere ----

const char kNobodyServed[] =
    "1 requests live, the oldest is 0 (8 prompt tokens, 0 made); device 0 has 100 of 100 blocks "
    "free and 0 plans queued";

TEST(NoProgress, ReportsAloneAreAStall) {
  TestRun run;
  run.options.report_interval = Duration::Nanos(20);
  run.options.max_idle_timers = 50;
  ScriptedPolicy policy;
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_EQ(summary.detail, std::string("only timers fire; ") + kNobodyServed);
}

TEST(NoProgress, ComputingTheSameForEverIsAStall) {
  TestRun run;
  run.options.max_idle_steps = 50;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke({0}); };
  policy.on_slot_free = [](Context& context, DeviceId) {
    context.actions().Preempt({0}, PreemptMode::kRecompute);
    EXPECT_TRUE(context.memory({0}).Reserve({0}, 8));
    const Entry half{{0}, 4};
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = {&half, 1}}).ok());
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_EQ(summary.steps, 52u) << "the first has computed something";
  EXPECT_EQ(summary.detail,
            "steps and operations end, but get no request on (52 preemptions); 1 requests live, "
            "the oldest is 0 "
            "(8 prompt tokens, 0 made); device 0 has 98 of 100 blocks free and 1 plans queued");
}

TEST(NoProgress, StartingOverIsNoStallWhileTokensCome) {
  TestRun run;
  run.options.max_idle_steps = 3;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke({0}); };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (!context.live({0})) return;
    context.actions().Preempt({0}, PreemptMode::kRecompute);
    LaunchOne(context, {0}, {0});
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 40)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.preemptions, 39u);
}

TEST(NoProgress, CuttingEveryStepIsAStall) {
  TestRun run;
  run.options.max_idle_steps = 50;
  ScriptedPolicy policy;
  PlanId plan;
  policy.on_arrival = [](Context& context, RequestId) { context.actions().Poke({0}); };
  std::uint32_t cuts = 0;
  policy.on_slot_free = [&](Context& context, DeviceId) {
    if (++cuts > 500) {
      context.actions().Finish({0}, EndReason::kRejected);
      return;
    }
    plan = LaunchOne(context, {0}, {0});
    context.clock().Arm(context.now() + Duration::Nanos(5), 0);
  };
  policy.on_timer = [&](Context& context, std::uint64_t) {
    context.actions().Abort(plan, AbortAt::kNow);
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 1)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_THAT(summary.detail,
              testing::StartsWith("steps and operations end, but get no request on"));
}

TEST(NoProgress, MovingKvForEverIsAStall) {
  TestRun run;
  run.device.host_blocks = 8;
  run.device.host_link = kLink;
  run.options.max_idle_steps = 50;
  ScriptedPolicy policy;
  std::uint32_t moves = 0;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone&) { Swap(context); };
  policy.on_operation_done = [&](Context& context, const OperationDone& done) {
    if (++moves > 500) {
      context.actions().Finish({0}, EndReason::kRejected);
    } else if (done.kind == OperationKind::kSwapOut) {
      TransferSpec in;
      in.request = {0};
      in.from = in.to = {0};
      in.from_tier = Tier::kHost;
      EXPECT_EQ(context.actions().Transfer(in).refusal, Refusal::kNone);
    } else {
      Swap(context);
    }
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 9)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_LT(moves, 60u);
}

// ---- Ties ----

/// Ends by prompt, of four requests that arrive at one instant from a source each. `by_order`: they
/// are served in the order of arrival; else the shortest first.
std::map<std::uint32_t, std::int64_t> Ends(std::uint64_t tie_seed, bool by_order) {
  std::vector<ListSource> lists;
  for (std::uint32_t i = 1; i <= 4; ++i) lists.push_back(ListSource({TokenRequest(0, 4 * i, 1)}));
  std::vector<RequestSource*> sources;
  for (ListSource& list : lists) sources.push_back(&list);
  TestRun run;
  run.options.tie_seed = tie_seed;
  run.step_time = [](const FakeStep& step) {
    return Duration::Nanos(static_cast<std::int64_t>(step.tokens()));
  };
  ScriptedPolicy policy;
  std::vector<std::pair<std::uint32_t, RequestId>> waiting;
  policy.on_arrival = [&](Context& context, RequestId request) {
    waiting.push_back({context.request(request).prompt_tokens(), request});
    context.actions().Poke({0});
  };
  policy.on_slot_free = [&](Context& context, DeviceId device) {
    if (waiting.empty()) return;
    if (!by_order) std::sort(waiting.begin(), waiting.end());
    LaunchOne(context, device, waiting.front().second);
    waiting.erase(waiting.begin());
  };
  run.Run(&policy, sources);
  std::map<std::uint32_t, std::int64_t> ends;
  for (const RequestRecord& record : run.recorder.requests) {
    ends[record.prompt_tokens] = record.end.ns();
  }
  return ends;
}

TEST(Ties, ShuffledTheyMatterToWhoDependsOnThem) {
  const std::map<std::uint32_t, std::int64_t> shortest_first = {
      {4, 4}, {8, 12}, {12, 24}, {16, 40}};
  std::set<std::map<std::uint32_t, std::int64_t>> by_order;
  for (std::uint64_t tie_seed = 0; tie_seed < 8; ++tie_seed) {
    EXPECT_EQ(Ends(tie_seed, /*by_order=*/false), shortest_first) << tie_seed;
    by_order.insert(Ends(tie_seed, /*by_order=*/true));
    EXPECT_EQ(Ends(tie_seed, /*by_order=*/true), Ends(tie_seed, /*by_order=*/true));
  }
  EXPECT_EQ(Ends(0, /*by_order=*/true), shortest_first) << "in the order of the sources";
  EXPECT_GT(by_order.size(), 3u);
}

}  // namespace
}  // namespace schedtwin
