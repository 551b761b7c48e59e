// Plans that are cut: at once, at the end of a layer (the fake device takes a nanosecond for the
// rest of it), at a step. A step that is cut makes nothing, and all is as it was before it. Steps
// take 10 ns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/timed_run.h"

namespace schedtwin {
namespace {

using testing::Contains;
using testing::ElementsAre;

/// One device of 100 blocks of four tokens, with a queue of three. Requests arrive at 0; request 0
/// has a prompt of eight tokens.
class AbortTest : public testing::Test {
 protected:
  AbortTest() { timed.run.device.queue_depth = 3; }

  /// Launches at `ns`, and keeps the plan in `plan`.
  void Launch(std::int64_t ns, std::uint32_t request, std::uint32_t max_steps = 1) {
    timed.At(ns, [=, this](Context& context) {
      plan = LaunchOne(context, {0}, {request}, {.max_steps = max_steps});
    });
  }
  /// Requests `ids`, prefilled from 1 to 11, join at 12, and the set runs for up to nine steps.
  void LaunchStanding(const std::vector<std::uint32_t>& ids) {
    timed.At(1, [=](Context& context) {
      std::vector<Entry> entries;
      for (const std::uint32_t id : ids) entries.push_back(ReservedEntry(context, {0}, {id}));
      EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = entries}).ok());
    });
    timed.At(12, [=, this](Context& context) {
      for (const std::uint32_t id : ids) {
        EXPECT_EQ(context.actions().Join({0}, {id}), Refusal::kNone);
      }
      const Plan set = {.device = {0}, .standing = true, .max_steps = 9};
      const Launched launched = context.actions().Launch(set);
      EXPECT_TRUE(launched.ok());
      plan = launched.id;
    });
  }
  void Abort(std::int64_t ns, AbortAt where, Refusal answer = Refusal::kNone) {
    timed.At(ns, [=, this](Context& context) {
      EXPECT_EQ(context.actions().Abort(plan, where), answer);
    });
  }
  void Expect(std::int64_t ns, std::uint32_t request, Progress progress) {
    timed.At(ns, [=](Context& context) {
      EXPECT_EQ(ProgressOf(context, request), progress) << "request " << request << " at " << ns;
    });
  }

  PlanId plan;
  TimedRun timed;
};

// ---- Listed requests ----

TEST_F(AbortTest, PrefillCutNowHasComputedNothing) {
  Launch(1, 0);
  Abort(5, AbortAt::kNow);
  timed.policy.on_plan_done = [](Context&, const PlanDone& done) {
    if (done.why != PlanEnd::kAborted) return;
    EXPECT_EQ(done.start, Time::Nanos(1));
    EXPECT_EQ(done.end, Time::Nanos(5));
    EXPECT_EQ(done.entries.size(), 1u);
  };
  Expect(6, 0, {RequestState::kWaiting, 8, 0, 0, 2});
  timed.At(6, [](Context& context) {
    EXPECT_TRUE(context.device({0}).idle());
    EXPECT_FALSE(context.request({0}).in_flight());
  });
  Launch(6, 0);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "5 done 0 aborted 0", "16 done 0 finish 1"));
  EXPECT_THAT(timed.policy.seen, Contains("5 slot 0"));
  const RequestRecord& record = *timed.run.recorder.Find(0);
  EXPECT_EQ(record.first_token, Time::Nanos(16));
  EXPECT_EQ(record.preemptions, 0u);
  ASSERT_EQ(timed.run.recorder.steps.size(), 1u) << "a step that was cut is none";
}

TEST_F(AbortTest, AtALayerItTakesTheRestOfTheLayer) {
  Launch(1, 0);
  Abort(5, AbortAt::kLayer);
  timed.At(5, [](Context& context) {
    EXPECT_TRUE(context.request({0}).in_flight()) << "until the device has answered";
  });
  Expect(7, 0, {RequestState::kWaiting, 8, 0, 0, 2});
  timed.EndAllAt(8, 1);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "6 done 0 aborted 0"));
}

TEST_F(AbortTest, AtAStepTheStepCounts) {
  Launch(1, 0);
  Launch(12, 0, 9);
  Abort(25, AbortAt::kStep);
  timed.EndAllAt(50, 1);
  timed.Run({TokenRequest(0, 8, 20)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "32 done 0 cut 2"));
  EXPECT_EQ(timed.run.recorder.Find(0)->output_tokens, 3u);
}

TEST_F(AbortTest, OnlyStepOfAPlanIsDoneIfItIsCutAtAStep) {
  Launch(1, 0);
  Abort(5, AbortAt::kStep);
  timed.EndAllAt(50, 1);
  timed.Run({TokenRequest(0, 8, 20)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1"));
}

TEST_F(AbortTest, DecodesKeepTheStepsThatAreDone) {
  Launch(1, 0);
  Launch(12, 0, 9);
  Abort(35, AbortAt::kNow);  // in the third step
  Expect(36, 0, {RequestState::kWaiting, 11, 10, 3, 3});
  timed.EndAllAt(50, 1);
  timed.Run({TokenRequest(0, 8, 20)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "35 done 0 aborted 2"));
  EXPECT_EQ(timed.run.recorder.Find(0)->last_token, Time::Nanos(32));
}

TEST_F(AbortTest, CutAtTheBoundaryItselfIsACutAtAStep) {
  Launch(1, 0);
  Launch(12, 0, 9);
  Abort(22, AbortAt::kNow);  // the first step is booked, the second not begun
  timed.EndAllAt(50, 1);
  timed.Run({TokenRequest(0, 8, 20)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "22 done 0 cut 1"));
}

TEST_F(AbortTest, ChunksKeepWhatEarlierStepsComputed) {
  timed.At(1, [this](Context& context) {
    EXPECT_TRUE(context.memory({0}).Reserve({0}, 8));
    const Entry first{{0}, 5}, second{{0}, 3};
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = {&first, 1}}).ok());
    plan = context.actions().Launch({.device = {0}, .entries = {&second, 1}}).id;
  });
  Abort(15, AbortAt::kNow);
  Expect(16, 0, {RequestState::kWaiting, 8, 5, 0, 2});
  Launch(16, 0);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "15 done 0 aborted 0",
                                        "26 done 0 finish 1"));
}

TEST_F(AbortTest, PreemptedInTheStepThatIsCutIsPreemptedOnce) {
  Launch(1, 0);
  Launch(12, 0, 9);
  timed.At(25, [](Context& context) {
    EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kNone);
  });
  Abort(27, AbortAt::kNow);
  Expect(28, 0, {RequestState::kWaiting, 10, 0, 2, 0});
  Launch(28, 0);
  timed.Run({TokenRequest(0, 8, 3)});
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(38));
}

TEST_F(AbortTest, FinishedInTheStepThatIsCutItsBlocksAreFree) {
  Launch(1, 0);
  timed.At(3, [](Context& context) {
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kCancelled), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{98, 2, 0}));
  });
  Abort(5, AbortAt::kNow);
  timed.At(6, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{100, 0, 0})); });
  timed.EndAllAt(7, 2);
  timed.Run({TokenRequest(0, 8, 3), TokenRequest(0, 8, 3)});
}

// ---- Plans behind ----

TEST_F(AbortTest, PlansBehindLoseWhatRestedOnTheStep) {
  Launch(1, 0);
  timed.At(2, [](Context& context) {  // the first decode, with another one's prompt
    const Entry entries[] = {ReservedEntry(context, {0}, {0}), ReservedEntry(context, {0}, {1})};
    EXPECT_EQ(entries[0].tokens, 1u);
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = entries}).ok());
    LaunchOne(context, {0}, {0});
  });
  Abort(5, AbortAt::kNow);
  Expect(6, 0, {RequestState::kWaiting, 8, 0, 0, 3});
  timed.EndAllAt(30, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "5 done 0 aborted 0",
                                        "15 done 0 finish 1", "15 done 0 empty 0"));
}

TEST_F(AbortTest, PlanBehindOnTheSetHasNobodyLeft) {
  LaunchStanding({0});
  timed.At(13, [](Context& context) {
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .standing = true}).ok());
  });
  Abort(25, AbortAt::kNow);
  timed.EndAllAt(30, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "25 done 0 aborted 1",
                                        "25 done 0 empty 0"));
}

// ---- The standing set ----

TEST_F(AbortTest, SetIsDissolvedAndKeepsItsSteps) {
  LaunchStanding({0, 1});
  Abort(25, AbortAt::kNow);
  timed.At(26, [](Context& context) {
    EXPECT_EQ(context.device({0}).standing, 0u);
    EXPECT_EQ(context.memory({0}).StandingGrowth(), 0u);
  });
  Expect(26, 0, {RequestState::kWaiting, 10, 9, 2, 3});
  Expect(26, 1, {RequestState::kWaiting, 6, 5, 2, 2});
  timed.At(27, [](Context& context) {  // they join again as they are
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
    EXPECT_EQ(context.actions().Join({0}, {1}), Refusal::kNone);
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .standing = true, .max_steps = 9}).ok());
  });
  timed.Run({TokenRequest(0, 8, 4), TokenRequest(0, 4, 4)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "25 done 0 aborted 1", "47 done 0 finish 2"));
  EXPECT_EQ(timed.run.recorder.Find(0)->output_tokens, 4u);
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 0u);
}

TEST_F(AbortTest, SetCutAtAStepStands) {
  LaunchStanding({0});
  Abort(25, AbortAt::kStep);
  timed.At(33, [](Context& context) { EXPECT_EQ(context.device({0}).standing, 1u); });
  timed.EndAllAt(34, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "32 done 0 cut 2"));
}

TEST_F(AbortTest, SetStandsIfThePlanThatIsCutDidNotHaveIt) {
  LaunchStanding({0});
  Abort(25, AbortAt::kStep);
  Launch(33, 1);
  Abort(35, AbortAt::kNow);
  timed.At(36, [](Context& context) { EXPECT_EQ(context.device({0}).standing, 1u); });
  Expect(36, 1, {RequestState::kWaiting, 4, 0, 0, 1});
  timed.EndAllAt(37, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9)});
}

/// Requests 0 and 1 stand; at 24, in the second step, something happens; at 26 the step is cut.
TEST_F(AbortTest, WhoHasLeftInTheStepGetsNoTokenOfIt) {
  LaunchStanding({0, 1});
  timed.At(24, [](Context& context) {
    EXPECT_EQ(context.actions().Leave({0}, {1}), Refusal::kNone);
    EXPECT_EQ(ProgressOf(context, 1), (Progress{RequestState::kWaiting, 7, 6, 2, 2}));
  });
  Abort(26, AbortAt::kNow);
  Expect(27, 0, {RequestState::kWaiting, 10, 9, 2, 3});
  Expect(27, 1, {RequestState::kWaiting, 6, 5, 2, 2});
  Launch(28, 1);
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 3)});
  EXPECT_EQ(timed.run.recorder.Find(1)->reason, EndReason::kCompleted);
  EXPECT_EQ(timed.run.recorder.Find(1)->end, Time::Nanos(38));
}

TEST_F(AbortTest, WhoHasLeftAndGotAPlanOfItsOwnLosesIt) {
  LaunchStanding({0, 1});
  timed.At(24, [](Context& context) {
    EXPECT_EQ(context.actions().Leave({0}, {1}), Refusal::kNone);
    LaunchOne(context, {0}, {1});  // rests on the step
  });
  Abort(26, AbortAt::kNow);
  Expect(27, 1, {RequestState::kWaiting, 6, 5, 2, 2});
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "26 done 0 aborted 1", "26 done 0 empty 0"));
}

TEST_F(AbortTest, WhoHasJoinedInTheStepIsOutToo) {
  timed.LaunchAt(2, 2);  // behind the prompts of 0 and 1
  LaunchStanding({0, 1});
  timed.decisions.back().first = Time::Nanos(22);
  timed.At(24,
           [](Context& context) { EXPECT_EQ(context.actions().Join({0}, {2}), Refusal::kNone); });
  Abort(26, AbortAt::kNow);  // in the first step of the set
  Expect(27, 0, {RequestState::kWaiting, 9, 8, 1, 3});
  Expect(27, 2, {RequestState::kWaiting, 5, 4, 1, 1});
  timed.LaunchAt(28, 2);
  timed.EndAllAt(40, 3);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9), TokenRequest(0, 4, 2)});
  EXPECT_EQ(timed.run.recorder.Find(2)->end, Time::Nanos(38));
}

TEST_F(AbortTest, WhoHasLeftAndJoinedAgainInTheStepIsOutToo) {
  LaunchStanding({0, 1});
  timed.At(24, [](Context& context) {
    EXPECT_EQ(context.actions().Leave({0}, {1}), Refusal::kNone);
    EXPECT_EQ(context.actions().Join({0}, {1}), Refusal::kNone);
  });
  Abort(26, AbortAt::kNow);
  Expect(27, 1, {RequestState::kWaiting, 6, 5, 2, 2});
  Launch(28, 1);
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 3)});
  EXPECT_EQ(timed.run.recorder.Find(1)->end, Time::Nanos(38));
}

TEST_F(AbortTest, WhoWasPreemptedInTheStepStartsOver) {
  LaunchStanding({0, 1});
  timed.At(24, [](Context& context) {
    EXPECT_EQ(context.actions().Preempt({1}, PreemptMode::kRecompute), Refusal::kNone);
  });
  Abort(26, AbortAt::kNow);
  Expect(27, 1, {RequestState::kWaiting, 6, 0, 2, 0});
  Launch(28, 1);
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 3)});
  EXPECT_EQ(timed.run.recorder.Find(1)->end, Time::Nanos(38));
}

TEST_F(AbortTest, WhoHasEndedInTheStepIsOver) {
  LaunchStanding({0, 1});
  timed.At(24, [](Context& context) {
    EXPECT_EQ(context.actions().Finish({1}, EndReason::kCancelled), Refusal::kNone);
  });
  Abort(26, AbortAt::kNow);
  timed.At(27, [](Context& context) {
    EXPECT_FALSE(context.live({1}));
    EXPECT_EQ(BooksOf(context, 0), (Books{97, 0, 0})) << "three of request 0";
  });
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9)});
  EXPECT_EQ(timed.run.recorder.Find(1)->output_tokens, 2u);
}

TEST_F(AbortTest, MixedStepTakesBackBoth) {
  LaunchStanding({0});
  Abort(13, AbortAt::kStep);
  timed.At(23, [this](Context& context) {
    const Entry entry = ReservedEntry(context, {0}, {1});
    const Plan mixed = {.device = {0}, .entries = {&entry, 1}, .standing = true};
    plan = context.actions().Launch(mixed).id;
  });
  Abort(25, AbortAt::kNow);
  Expect(26, 0, {RequestState::kWaiting, 10, 9, 2, 3});
  Expect(26, 1, {RequestState::kWaiting, 4, 0, 0, 1});
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9)});
}

TEST_F(AbortTest, EntryThatJoinedTheSetInItsStepIsOutAgain) {
  Launch(1, 0);
  timed.At(5, [](Context& context) {  // its first token is promised: it decodes
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
  });
  Abort(7, AbortAt::kNow);
  Expect(8, 0, {RequestState::kWaiting, 8, 0, 0, 2});
  timed.At(8, [](Context& context) { EXPECT_EQ(context.device({0}).standing, 0u); });
  Launch(9, 0);
  timed.Run({TokenRequest(0, 8, 1)});
}

// ---- Answers ----

TEST_F(AbortTest, RefusesWhatDoesNotRun) {
  Launch(1, 0);
  timed.At(2, [this](Context& context) {
    const PlanId queued = LaunchOne(context, {0}, {1});
    EXPECT_EQ(context.actions().Abort(queued, AbortAt::kNow), Refusal::kUnknownPlan);
    EXPECT_EQ(context.actions().Abort({}, AbortAt::kNow), Refusal::kUnknownPlan);
    const MemoryMark mark = context.memory({0}).Begin();
    EXPECT_EQ(context.actions().Abort(plan, AbortAt::kNow), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Abort(plan, AbortAt::kLayer), Refusal::kBadArgument);
    context.memory({0}).Commit(mark);
  });
  Abort(12, AbortAt::kNow, Refusal::kUnknownPlan);  // done
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 8, 9)});
}

TEST_F(AbortTest, AskedForTwiceItIsCutOnce) {
  Launch(1, 0);
  Abort(5, AbortAt::kLayer);
  Abort(5, AbortAt::kNow);
  Abort(5, AbortAt::kStep);
  timed.EndAllAt(20, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "6 done 0 aborted 0"));
}

TEST_F(AbortTest, NowAfterAtAStepStillCutsNow) {
  Launch(1, 0);
  Launch(12, 0, 9);
  Abort(15, AbortAt::kStep);
  Abort(17, AbortAt::kNow);
  timed.EndAllAt(30, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "17 done 0 aborted 0"));
}

// Two devices end at 11: when the policy hears of the first, the second is done, and unheard of.
TEST_F(AbortTest, TooLateTheStepCountsAndThePlanEndsThere) {
  timed.run.devices = 2;
  Launch(1, 0);
  timed.At(1, [](Context& context) { LaunchOne(context, {1}, {1}); });
  timed.LaunchAt(12, 0, 0, {});
  timed.At(12, [this](Context& context) { plan = LaunchOne(context, {1}, {1}, {.max_steps = 9}); });
  timed.policy.on_plan_done = [this](Context& context, const PlanDone& done) {
    if (done.device.value != 0 || done.end != Time::Nanos(22)) return;
    EXPECT_EQ(context.actions().Abort(plan, AbortAt::kNow), Refusal::kNone);
  };
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), Contains("22 done 1 cut 1"));
  EXPECT_EQ(timed.run.recorder.Find(1)->output_tokens, 2u);
}

TEST_F(AbortTest, OneShotLaunchIsAsIfItHadNotBeen) {
  timed.run.device = SmallOneShot();
  for (const std::int64_t at : {1, 8}) {
    timed.At(at, [this](Context& context) {
      const Entry entries[] = {{{0}, 5}, {{1}, 2}};
      plan = context.actions().Launch({.device = {0}, .entries = entries}).id;
    });
  }
  Abort(5, AbortAt::kNow);
  timed.At(6, [](Context& context) {
    EXPECT_EQ(context.request({0}).next_tokens(), 5u);
    EXPECT_EQ(context.request({1}).next_tokens(), 2u);
  });
  const RunSummary summary = timed.Run({UnitRequest(0, 5), UnitRequest(0, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "5 done 0 aborted 0",
                                        "18 done 0 finish 1"));
  EXPECT_EQ(summary.steps, 1u);
}

// What is cut and done again makes the same as what began when the cut one began anew.
TEST(AbortAgain, TheSameWorkAgainHasTheSameOutcome) {
  const auto run = [](bool cut, bool standing) {
    TimedRun timed;
    timed.LaunchAt(1, 0);
    PlanId plan;
    const auto decode = [&](Context& context) {
      const Plan set = {.device = {0}, .standing = true, .max_steps = 9};
      if (standing) {
        EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
        plan = context.actions().Launch(set).id;
      } else {
        plan = LaunchOne(context, {0}, {0}, {.max_steps = 9});
      }
    };
    if (cut) {
      timed.At(12, decode);
      timed.At(19, [&](Context& context) { context.actions().Abort(plan, AbortAt::kNow); });
    }
    timed.At(20, decode);
    return timed.Run({TokenRequest(0, 8, 4)});
  };
  const RunSummary never = run(false, false);
  EXPECT_EQ(never.last_end, Time::Nanos(50));
  EXPECT_EQ(run(true, false).outcome_digest, never.outcome_digest);
  EXPECT_EQ(run(true, true).outcome_digest, never.outcome_digest);
  EXPECT_EQ(run(true, true).steps, never.steps);
}

}  // namespace
}  // namespace schedtwin
