// vllm_v1 with async scheduling, step by step: each step is decided while the one before runs, and
// starts when that has ended. Source: vllm/v1/core/sched/async_scheduler.py (014b2350),
// scheduler.py (00024d31) and the engine's batch queue of two. A step takes 1 ns for each token,
// and a KV block holds 4 tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::kForms;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;

Script Engine(std::uint32_t budget, std::uint32_t blocks, std::vector<RequestSpec> requests,
              Settings settings = {}) {
  settings.push_back({"async_scheduling", "true"});
  Script script =
      policy_testing::VllmV1Engine(kForms[0], budget, blocks, std::move(requests), settings);
  script.device.queue_depth = 2;
  return script;
}

// One that asks for no more than it makes, so that its end is known in advance.
RequestSpec Limited(RequestSpec request) {
  request.max_new_tokens = request.output_tokens;
  return request;
}

// ---- When a step is decided ----

TEST(PolicyVllmV1Async, AnArrivalRunsInTheStepAfterTheNext) {
  // Request 1 comes in the first step. The second was decided by then, the third is not.
  const Played played = Play(Engine(8, 64, {Limited(Tokens(0, 4, 5)), Limited(Tokens(1, 2, 2))}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:4", "4-5 D0", "5-8 D0 P1:2", "8-10 D0 D1", "10-11 D0"));
}

TEST(PolicyVllmV1Async, ChunksOfAPromptFollowOneAnother) {
  const Played played = Play(Engine(8, 64, {Limited(Tokens(0, 20, 2))}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-16 P0:8", "16-20 P0:4", "20-21 D0"));
}

TEST(PolicyVllmV1Async, DecisionsCostTheDeviceNoTime) {
  Script script = Engine(8, 64, {Limited(Tokens(0, 4, 4))});
  script.options.decision_cost.fixed = Duration::Nanos(1);
  EXPECT_THAT(Play(script).steps, ElementsAre("1-5 P0:4", "5-6 D0", "6-7 D0", "7-8 D0"));
  script.settings.insert(script.settings.end(),
                         {{"async_scheduling", "false"}, {"plan_steps", "1"}});
  EXPECT_THAT(Play(script).steps, ElementsAre("1-5 P0:4", "6-7 D0", "8-9 D0", "10-11 D0"));
}

// scheduler.py: a running request with nothing to compute is skipped (continue, not break).
TEST(PolicyVllmV1Async, WhoseLastTokenIsOnItsWayIsSkippedAndNotTheOnesBehindIt) {
  // Of the step decided at 8 request 0 needs nothing more. That the step was decided then, and not
  // at 10, is seen by request 2, which comes at 9.
  const Played played = Play(Engine(
      16, 64, {Limited(Tokens(0, 4, 2)), Limited(Tokens(0, 4, 4)), Limited(Tokens(9, 2, 1))}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-8 P0:4 P1:4", "8-10 D0 D1", "10-11 D1", "11-14 D1 P2:2"));
}

TEST(PolicyVllmV1Async, AnArrivalAtAnEngineThatHasDecidedNothingWaitsForTheStep) {
  // The engine waits for its only step; both arrivals are in the next.
  const Played played = Play(Engine(
      16, 64, {Limited(Tokens(0, 9, 1)), Limited(Tokens(2, 2, 1)), Limited(Tokens(5, 3, 1))}));
  EXPECT_THAT(played.steps, ElementsAre("0-9 P0:9", "9-14 P1:2 P2:3"));
}

TEST(PolicyVllmV1Async, OnADeviceThatQueuesNothingItIsTheListedForm) {
  const std::vector<RequestSpec> requests = {Tokens(0, 4, 9), Tokens(0, 4, 9), Tokens(1, 4, 1)};
  Script script = Engine(16, 5, requests);
  script.device.queue_depth = 1;
  const Played listed = Play(policy_testing::VllmV1Engine(kForms[3], 16, 5, requests, {}));
  EXPECT_GT(listed.summary.preemptions, 0u);
  EXPECT_EQ(Play(script).steps, listed.steps);
}

TEST(PolicyVllmV1Async, TellsTheQueueDepthThatItNeeds) {
  const PolicyInfo& info = *FindPolicy("vllm_v1");
  for (const auto& [async, depth] : {std::pair("true", 2u), std::pair("false", 1u)}) {
    const std::pair<std::string, std::string> setting = {"async_scheduling", async};
    Parameters parameters;
    std::string error;
    ASSERT_TRUE(Parameters::Parse(info.parameters, {&setting, 1}, &parameters, &error)) << error;
    EXPECT_EQ(info.min_queue_depth(parameters), depth);
  }
}

// ---- Ends that nobody foresaw ----

TEST(PolicyVllmV1Async, AStopBeforeTheLimitComputesOneTokenForNothing) {
  // At 10 request 0 has stopped, and is in the step that starts then.
  const Played played = Play(Engine(16, 64, {Tokens(0, 4, 2), Limited(Tokens(0, 4, 4))}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-8 P0:4 P1:4", "8-10 D0 D1", "10-12 D1 pad:1", "12-13 D1"));
}

TEST(PolicyVllmV1Async, AStepOfNothingElseIsNotCharged) {
  EXPECT_THAT(Play(Engine(16, 64, {Tokens(0, 4, 2)})).steps, ElementsAre("0-4 P0:4", "4-5 D0"));
}

TEST(PolicyVllmV1Async, WhoIsCancelledStaysInTheStepThatWasSent) {
  std::vector<RequestSpec> requests = {Limited(Tokens(0, 4, 4)), Tokens(0, 4, 9)};
  requests[1].leaves = Time::Nanos(9);
  EXPECT_THAT(Play(Engine(16, 64, requests)).steps,
              ElementsAre("0-8 P0:4 P1:4", "8-10 D0 D1", "10-12 D0 pad:1", "12-13 D0"));
}

// ---- Preemption ----

// async_scheduler.py: only reset_prefix_cache drops what is on its way.
TEST(PolicyVllmV1Async, ATokenOnItsWayCountsThoughItsRequestIsPreempted) {
  // Request 1 is preempted at 0, when the second step is decided, and gets its first token at 8.
  const Played played = Play(Engine(16, 3, {Limited(Tokens(0, 4, 3)), Limited(Tokens(0, 4, 3))}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-8 P0:4 P1:4", "8-9 D0", "9-10 D0", "10-15 P1:5", "15-16 D1"));
  EXPECT_EQ(played.requests[1].first_token.ns(), 8);
  EXPECT_EQ(played.requests[1].preemptions, 1u);
}

// kv_cache_manager.py: a freed block is free at once, since steps run in order.
TEST(PolicyVllmV1Async, BlocksOfAVictimServeTheStepThatIsDecided) {
  // At 12 request 0 takes the block of request 2, which the step in flight still writes to.
  // At 15 request 1 has none to take but its own; the token on its way, made at 17, is its last.
  const Played played =
      Play(Engine(16, 4, {Limited(Tokens(0, 7, 4)), Tokens(0, 2, 3), Limited(Tokens(0, 3, 3))}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 P0:7 P1:2 P2:3", "12-15 D0 D1 D2", "15-17 D0 D1",
                                        "17-18 D0", "18-23 P2:5"));
  EXPECT_EQ(played.requests[1].end.ns(), 17);
  EXPECT_EQ(played.requests[1].preemptions, 1u);
  EXPECT_EQ(played.requests[2].preemptions, 1u);
}

TEST(PolicyVllmV1Async, AStepThatOwesAllOfItsBlocksIsTheOneThatWasDecided) {
  // At 12 the only block for request 0 is one of request 1, fenced by the step in flight. Request 2
  // comes at 13 and would fit at 14, but that step is decided.
  std::vector<RequestSpec> requests = {Limited(Tokens(0, 7, 5)), Limited(Tokens(0, 5, 3)),
                                       Limited(Tokens(13, 1, 1))};
  requests[1].priority = 1;
  requests[2].priority = -1;
  EXPECT_THAT(Play(Engine(16, 4, requests, {{"scheduling_policy", "priority"}})).steps,
              ElementsAre("0-12 P0:7 P1:5", "12-14 D0 D1", "14-15 D0", "15-17 D0 P2:1", "17-18 D0",
                          "18-25 P1:7"));
}

// vllm#49097: a victim ahead in the list that is not in the step.
TEST(PolicyVllmV1Async, AVictimThatWasSkippedMovesThoseBehindItUp) {
  // At 11 request 0 is skipped, its last token being made. Request 1 takes a block of it, and
  // request 2 is next, not passed over.
  std::vector<RequestSpec> requests = {Limited(Tokens(0, 4, 4)), Limited(Tokens(1, 3, 4)),
                                       Limited(Tokens(1, 2, 4))};
  requests[0].priority = 9;
  const Played played = Play(Engine(16, 4, requests, {{"scheduling_policy", "priority"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-5 D0", "5-11 D0 P1:3 P2:2", "11-14 D0 D1 D2",
                                        "14-16 D1 D2", "16-18 D1 D2"));
  EXPECT_EQ(played.requests[0].preemptions, 1u);
  EXPECT_EQ(played.requests[0].end.ns(), 14);
}

}  // namespace
}  // namespace schedtwin
