// fastserve's queues, step by step: who joins where, who is in a batch, who is demoted and
// promoted. Source: LLMServe/FastServe fastserve/scheduler.py (187a2742), class MLFQ. A step takes
// 1 ns for each token, and level 0 has 4 ns: 8, 16, 32 below it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "policies/fastserve/level_queues.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;

const Settings kPlain = {{"skip_join", "false"}};

/// Memory is no matter here.
Script Engine(std::uint32_t batch, std::vector<RequestSpec> requests, const Settings& more = {}) {
  Script script{.policy = "fastserve",
                .settings = {{"max_batch_size", std::to_string(batch)}, {"base_quantum", "4ns"}},
                .requests = std::move(requests)};
  script.settings.insert(script.settings.end(), more.begin(), more.end());
  script.device.total_blocks = 64;
  script.device.block_tokens = 4;
  return script;
}

// ---- Joining ----

TEST(PolicyFastServe, SkipJoinGoesToTheFirstLevelWhoseQuantumCoversThePrefill) {
  // Levels 2, 1, 1 and 0: 8 ns is covered by level 1, 9 ns is not.
  const std::vector<RequestSpec> requests = {Tokens(0, 9, 1), Tokens(0, 8, 1), Tokens(0, 5, 1),
                                             Tokens(0, 4, 1)};
  EXPECT_THAT(Play(Engine(1, requests)).steps,
              ElementsAre("0-4 P3:4", "4-12 P1:8", "12-17 P2:5", "17-26 P0:9"));
  EXPECT_THAT(Play(Engine(1, requests, kPlain)).steps,
              ElementsAre("0-9 P0:9", "9-17 P1:8", "17-22 P2:5", "22-26 P3:4"));
}

TEST(PolicyFastServe, QuantumGrowthIsThatOfTheLevels) {
  // Level 1 has 12 ns now, and both join it.
  const std::vector<RequestSpec> requests = {Tokens(0, 12, 1), Tokens(0, 5, 1), Tokens(0, 4, 1)};
  EXPECT_THAT(Play(Engine(1, requests, {{"quantum_growth", "3"}})).steps,
              ElementsAre("0-4 P2:4", "4-16 P0:12", "16-21 P1:5"));
}

TEST(PolicyFastServe, WithoutAProfileAPromptCountsByItsTokens) {
  for (const auto& [time, first] : {std::pair{"1ns", 1u}, {"0ns", 0u}}) {
    TestRun run;
    const auto policy = policy_testing::MakePolicy(
        "fastserve",
        {{"max_batch_size", "1"}, {"base_quantum", "4ns"}, {"prefill_time_per_token", time}});
    run.Run(policy.get(), {Tokens(0, 9, 1), Tokens(0, 2, 1)});
    EXPECT_EQ(run.recorder.Find(first)->first_start.ns(), 0) << time;
  }
}

TEST(PolicyFastServe, LevelsHaveNoBoundAndTheirQuantaDoNotOverflow) {
  LevelQueues queues(Duration::Nanos(3), 1'000'000);
  EXPECT_EQ(queues.LevelFor(Duration::Nanos(3)), 0u);
  EXPECT_EQ(queues.LevelFor(Duration::Nanos(3'000'001)), 2u);
  EXPECT_EQ(queues.LevelFor(Duration::Infinite()), 4u);
  EXPECT_EQ(queues.Quantum(200), Duration::Infinite());
}

TEST(PolicyFastServe, DevicesTakeArrivalsInTurn) {
  Script script = Engine(2, {Tokens(0, 2, 1), Tokens(0, 3, 1), Tokens(1, 4, 1)});
  script.devices = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 0-2 P0:2", "d1 0-3 P1:3", "d0 2-6 P2:4"));
}

// ---- The batch ----

TEST(PolicyFastServe, BatchHasAtMostSoManyRequests) {
  EXPECT_THAT(Play(Engine(2, {Tokens(0, 2, 1), Tokens(0, 2, 1), Tokens(0, 2, 1)})).steps,
              ElementsAre("0-4 P0:2 P1:2", "4-6 P2:2"));
}

TEST(PolicyFastServe, FirstPromptThatDoesNotFitStopsTheBatch) {
  // Request 2 would fit beside request 0.
  const Settings settings = {{"skip_join", "false"}, {"max_tokens_per_batch", "8"}};
  EXPECT_THAT(Play(Engine(4, {Tokens(0, 5, 1), Tokens(0, 6, 1), Tokens(0, 2, 1)}, settings)).steps,
              ElementsAre("0-5 P0:5", "5-13 P1:6 P2:2"));
}

TEST(PolicyFastServe, DecodeCountsItselfAgainstTheLimitOfPromptTokens) {
  const Settings settings = {{"skip_join", "false"}, {"max_tokens_per_batch", "8"}};
  EXPECT_THAT(Play(Engine(4, {Tokens(0, 5, 3), Tokens(1, 8, 1)}, settings)).steps,
              ElementsAre("0-5 P0:5", "5-13 P1:8", "13-14 D0", "14-15 D0"));
  EXPECT_THAT(Play(Engine(4, {Tokens(0, 5, 3), Tokens(1, 7, 1)}, settings)).steps,
              ElementsAre("0-5 P0:5", "5-13 D0 P1:7", "13-14 D0"));
}

TEST(PolicyFastServe, DecodesAreNotAddedToTheLimitOfPromptTokens) {
  // Three decodes go before a prompt of all 8 tokens, and it is in their step.
  const std::vector<RequestSpec> requests = {Tokens(0, 1, 2), Tokens(0, 1, 2), Tokens(0, 1, 2),
                                             Tokens(1, 8, 1)};
  EXPECT_THAT(
      Play(Engine(4, requests, {{"skip_join", "false"}, {"max_tokens_per_batch", "8"}})).steps,
      ElementsAre("0-3 P0:1 P1:1 P2:1", "3-14 D0 D1 D2 P3:8"));
}

TEST(PolicyFastServe, PromptAboveTheLimitIsComputedInPieces) {
  EXPECT_THAT(Play(Engine(4, {Tokens(0, 20, 2)}, {{"max_tokens_per_batch", "8"}})).steps,
              ElementsAre("0-8 P0:8", "8-16 P0:8", "16-20 P0:4", "20-21 D0"));
}

TEST(PolicyFastServe, PromptInPiecesIsOnePrefillThatNothingInterrupts) {
  // Request 1 comes to level 0 in the first piece. It is in the step of the last, which it fits,
  // and goes before request 0, demoted once for all of its pieces, after that.
  const Settings settings = {{"skip_join", "false"}, {"max_tokens_per_batch", "8"}};
  EXPECT_THAT(
      Play(Engine(2, {Tokens(0, 20, 3), Tokens(1, 2, 3), Tokens(21, 2, 1)}, settings)).steps,
      ElementsAre("0-8 P0:8", "8-16 P0:8", "16-22 P0:4 P1:2", "22-25 D1 P2:2", "25-27 D0 D1",
                  "27-28 D0"));
}

TEST(PolicyFastServe, StepsAreNoLargerThanTheDeviceTakes) {
  Script script = Engine(4, {Tokens(0, 3, 1), Tokens(0, 3, 1), Tokens(0, 6, 1)}, kPlain);
  script.device.max_step_tokens = 4;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-3 P0:3", "3-6 P1:3", "6-10 P2:4", "10-12 P2:2"));
}

TEST(PolicyFastServe, ArrivalAtAHigherLevelIsServedAtTheNextBoundary) {
  EXPECT_THAT(Play(Engine(1, {Tokens(0, 8, 3), Tokens(8, 2, 1), Tokens(9, 2, 1)})).steps,
              ElementsAre("0-8 P0:8", "8-10 P1:2", "10-12 P2:2", "12-13 D0", "13-14 D0"));
}

// ---- Demotion ----

TEST(PolicyFastServe, OnlyMoreThanTheQuantumDemotes) {
  EXPECT_THAT(Play(Engine(1, {Tokens(0, 4, 2), Tokens(0, 2, 1)}, kPlain)).steps,
              ElementsAre("0-4 P0:4", "4-5 D0", "5-7 P1:2"));
  EXPECT_THAT(Play(Engine(1, {Tokens(0, 5, 2), Tokens(0, 2, 1)}, kPlain)).steps,
              ElementsAre("0-5 P0:5", "5-7 P1:2", "7-8 D0"));
}

TEST(PolicyFastServe, ServedTimeBeginsAnewAtEachLevel) {
  // Demoted at 5, request 0 has 8 ns of its own at level 1, and more than these at 14.
  EXPECT_THAT(
      Play(Engine(1, {Tokens(0, 4, 12), Tokens(1, 8, 1)})).steps,
      ElementsAre("0-4 P0:4", "4-5 D0", "5-6 D0", "6-7 D0", "7-8 D0", "8-9 D0", "9-10 D0",
                  "10-11 D0", "11-12 D0", "12-13 D0", "13-14 D0", "14-22 P1:8", "22-23 D0"));
}

TEST(PolicyFastServe, DemotedGoesToTheFrontOfItsLevel) {
  // Request 2 is at level 2 already when request 0 comes there at 9.
  EXPECT_THAT(Play(Engine(1, {Tokens(0, 5, 6), Tokens(1, 6, 1), Tokens(1, 10, 1)})).steps,
              ElementsAre("0-5 P0:5", "5-6 D0", "6-7 D0", "7-8 D0", "8-9 D0", "9-15 P1:6",
                          "15-16 D0", "16-26 P2:10"));
}

TEST(PolicyFastServe, BatchComesBackReversed) {
  // Beside request 2 there is room for one of level 1, and that is the last of the batch before.
  EXPECT_THAT(Play(Engine(2, {Tokens(0, 3, 2), Tokens(0, 3, 3), Tokens(1, 2, 1)}, kPlain)).steps,
              ElementsAre("0-6 P0:3 P1:3", "6-9 D1 P2:2", "9-11 D0 D1"));
}

// ---- Starvation ----

TEST(PolicyFastServe, AfterSoManyBatchesWhoWasNeverServedIsPromoted) {
  std::vector<RequestSpec> requests = {Tokens(0, 40, 1)};
  for (int i = 0; i < 5; ++i) requests.push_back(Tokens(2 * i, 2, 1));
  EXPECT_THAT(
      Play(Engine(1, requests, {{"starvation_period", "3"}})).steps,
      ElementsAre("0-2 P1:2", "2-4 P2:2", "4-6 P3:2", "6-46 P0:40", "46-48 P4:2", "48-50 P5:2"));
  EXPECT_THAT(
      Play(Engine(1, requests, {{"starvation_period", "9"}})).steps,
      ElementsAre("0-2 P1:2", "2-4 P2:2", "4-6 P3:2", "6-8 P4:2", "8-10 P5:2", "10-50 P0:40"));
}

TEST(PolicyFastServe, WhoWasServedIsPromotedWhenIdleForLongEnough) {
  // At 9 request 0 has not been served for 4 ns. What it was served counts on: one token at level
  // 0, and it is demoted again.
  std::vector<RequestSpec> requests = {Tokens(0, 5, 4)};
  for (int i = 0; i < 5; ++i) requests.push_back(Tokens(5 + 2 * i, 2, 1));
  const Settings four = {{"starvation_period", "4"}, {"starvation_idle", "4ns"}};
  EXPECT_THAT(Play(Engine(1, requests, four)).steps,
              ElementsAre("0-5 P0:5", "5-7 P1:2", "7-9 P2:2", "9-11 P3:2", "11-12 D0", "12-14 P4:2",
                          "14-16 P5:2", "16-17 D0", "17-18 D0"));
  const Settings five = {{"starvation_period", "4"}, {"starvation_idle", "5ns"}};
  EXPECT_THAT(Play(Engine(1, requests, five)).steps,
              ElementsAre("0-5 P0:5", "5-7 P1:2", "7-9 P2:2", "9-11 P3:2", "11-13 P4:2",
                          "13-15 P5:2", "15-16 D0", "16-17 D0", "17-18 D0"));
}

TEST(PolicyFastServe, PromotedComeToStandInReversedOrder) {
  const std::vector<RequestSpec> requests = {Tokens(0, 2, 1), Tokens(0, 5, 1), Tokens(0, 6, 1),
                                             Tokens(0, 10, 1)};
  EXPECT_THAT(Play(Engine(1, requests, {{"starvation_period", "1"}})).steps,
              ElementsAre("0-2 P0:2", "2-12 P3:10", "12-17 P1:5", "17-23 P2:6"));
}

// ---- Mistakes ----

TEST(PolicyFastServe, ReserveWithoutProactiveSwapsIsAMistake) {
  const PolicyInfo& info = *FindPolicy("fastserve");
  const auto wrong = [&](const Settings& settings) {
    Parameters parameters;
    std::string error;
    EXPECT_TRUE(Parameters::Parse(info.parameters, settings, &parameters, &error)) << error;
    return info.check(parameters);
  };
  EXPECT_EQ(wrong({{"min_free_blocks", "9"}}), "");
  EXPECT_EQ(wrong({{"proactive", "false"}}), "");
  EXPECT_THAT(wrong({{"min_free_blocks", "9"}, {"proactive", "false"}}),
              testing::HasSubstr("goes with proactive=true"));
  EXPECT_THAT(wrong({{"min_free_blocks", "9"}, {"preempt", "recompute"}}),
              testing::HasSubstr("preempt=swap"));
}

}  // namespace
}  // namespace schedtwin
