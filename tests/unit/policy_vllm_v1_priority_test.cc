// vllm_v1 by priority, step by step, the same in every form of the plan. Source:
// vllm/v1/core/sched/scheduler.py (00024d31) and request_queue.py (0097c7ed), and the issues named
// below. A step takes 1 ns for each token, and a KV block holds 4 tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;

RequestSpec Urgent(std::int32_t priority, RequestSpec request) {
  request.priority = priority;
  return request;
}

class PolicyVllmV1Priority : public testing::TestWithParam<Form> {
 protected:
  Script Engine(std::uint32_t budget, std::uint32_t blocks, std::vector<RequestSpec> requests,
                Settings settings = {}) {
    settings.push_back({"scheduling_policy", "priority"});
    return policy_testing::VllmV1Engine(GetParam(), budget, blocks, std::move(requests), settings);
  }
};

TEST_P(PolicyVllmV1Priority, WaitingIsOrderedByPriorityThenArrivalThenNumber) {
  const Played played = Play(
      Engine(16, 64,
             {Urgent(0, Tokens(0, 10, 1)), Urgent(1, Tokens(1, 2, 1)), Urgent(0, Tokens(2, 2, 1)),
              Urgent(1, Tokens(3, 2, 1)), Urgent(-1, Tokens(3, 2, 1)), Urgent(-1, Tokens(3, 2, 1))},
             {{"max_num_seqs", "1"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-10 P0:10", "10-12 P4:2", "12-14 P5:2", "14-16 P2:2",
                                        "16-18 P1:2", "18-20 P3:2"));
}

// vllm#40004, open: only memory preempts.
TEST_P(PolicyVllmV1Priority, AnUrgentArrivalWaitsForWhoRuns) {
  const Played played = Play(Engine(
      16, 64, {Urgent(5, Tokens(0, 2, 3)), Urgent(0, Tokens(1, 2, 1))}, {{"max_num_seqs", "1"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-2 P0:2", "2-3 D0", "3-4 D0", "4-6 P1:2"));
  EXPECT_EQ(played.summary.preemptions, 0u);
}

TEST_P(PolicyVllmV1Priority, AnUrgentArrivalThatFitsPassesTheHeadThatDoesNot) {
  // Request 1 needs 3 of the 2 free blocks; request 2 needs one, and is asked first at 6.
  const Played played = Play(Engine(
      16, 4,
      {Urgent(0, Tokens(0, 4, 12)), Urgent(5, Tokens(1, 12, 1)), Urgent(1, Tokens(6, 2, 1))}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-5 D0", "5-6 D0", "6-9 D0 P2:2", "9-10 D0",
                                        "10-11 D0", "11-12 D0", "12-13 D0", "13-14 D0", "14-15 D0",
                                        "15-16 D0", "16-17 D0", "17-29 P1:12"));
}

// scheduler.py; that it was in the step already was an assertion in vllm#23347.
TEST_P(PolicyVllmV1Priority, VictimIsTheLeastUrgentThoughItIsInTheStepAlready) {
  // At 9 request 0 is served first and needs no block; request 1 does, and gets one of request 0,
  // whose decode is taken out of the step.
  const Played played =
      Play(Engine(16, 3, {Urgent(5, Tokens(0, 4, 4)), Urgent(0, Tokens(1, 4, 3))}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-9 D0 P1:4", "9-10 D1", "10-11 D1",
                                        "11-17 P0:6", "17-18 D0"));
  EXPECT_EQ(played.requests[0].preemptions, 1u);
  EXPECT_EQ(played.requests[1].preemptions, 0u);
}

// The refund, and vllm#49097: a victim ahead of the one that is served moves those behind it up.
TEST_P(PolicyVllmV1Priority, RefundedTokensGoToWhoIsServedNext) {
  // At 10 request 0 has one of the 6 tokens, request 1 takes its blocks and request 2, in its
  // prompt, the 5 that are left: none is passed over, and none is spent on request 0.
  const Played played = Play(Engine(
      6, 4, {Urgent(5, Tokens(0, 4, 4)), Urgent(0, Tokens(1, 4, 2)), Urgent(1, Tokens(1, 9, 1))},
      {{"full_sequence_must_fit", "false"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-10 D0 P1:4 P2:1", "10-16 D1 P2:5",
                                        "16-22 P2:3 P0:3", "22-25 P0:3", "25-26 D0"));
}

// scheduler.py; vllm#26765, not merged, would go on with request 2.
TEST_P(PolicyVllmV1Priority, WhoMustPreemptItselfEndsTheStep) {
  // At 17 request 1 needs a block and is the least urgent itself. Request 2, behind it, gets
  // nothing in that step, though it needs no block.
  const Played played = Play(Engine(
      16, 5, {Urgent(0, Tokens(0, 4, 6)), Urgent(9, Tokens(1, 7, 4)), Urgent(1, Tokens(5, 3, 3))}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-12 D0 P1:7", "12-17 D0 D1 P2:3", "17-18 D0",
                                        "18-20 D0 D2", "20-22 D0 D2", "22-31 P1:9", "31-32 D1"));
}

TEST_P(PolicyVllmV1Priority, WhoMustPreemptItselfAsTheFirstLeavesTheStepToTheOthers) {
  // At 12 request 0 needs a block and is the least urgent: the step that was begun is empty, and
  // the next one, at the same instant, is of request 1.
  const Played played =
      Play(Engine(16, 3, {Urgent(9, Tokens(0, 7, 3)), Urgent(0, Tokens(1, 4, 3))}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-7 P0:7", "7-12 D0 P1:4", "12-13 D1", "13-14 D1", "14-23 P0:9"));
}

// vllm#41951: no place in front, as under fcfs.
TEST_P(PolicyVllmV1Priority, PreemptedComesBackWhereItsPriorityPutsIt) {
  const Played played = Play(Engine(
      16, 3,
      {Urgent(5, Tokens(0, 4, 4)), Urgent(0, Tokens(1, 4, 3)), Urgent(3, Tokens(10, 2, 1))}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-9 D0 P1:4", "9-10 D1", "10-13 D1 P2:2",
                                        "13-19 P0:6", "19-20 D0"));
}

TEST_P(PolicyVllmV1Priority, OfEqualPriorityAndArrivalTheLastAdmittedIsTheVictim) {
  Script script =
      Engine(16, 5, {Tokens(0, 4, 9), Tokens(0, 4, 9), Tokens(1, 4, 1)}, {{"max_num_seqs", "2"}});
  const Played played = Play(script);
  EXPECT_EQ(played.requests[0].preemptions, 0u);
  EXPECT_EQ(played.requests[1].preemptions, 1u);
  script.settings.push_back({"scheduling_policy", "fcfs"});
  EXPECT_EQ(Play(script).steps, played.steps) << "the queue is the same one here";
}

TEST_P(PolicyVllmV1Priority, ACancelledHeadLetsTheNextOnePass) {
  // Request 1 waits for room that request 0 has, and leaves at 7; request 2 fits at the boundary.
  std::vector<RequestSpec> requests = {Urgent(0, Tokens(0, 4, 8)), Urgent(1, Tokens(1, 12, 1)),
                                       Urgent(2, Tokens(2, 3, 1))};
  requests[1].leaves = Time::Nanos(7);
  EXPECT_THAT(Play(Engine(16, 4, requests)).steps,
              ElementsAre("0-4 P0:4", "4-5 D0", "5-6 D0", "6-7 D0", "7-11 D0 P2:3", "11-12 D0",
                          "12-13 D0", "13-14 D0"));
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyVllmV1Priority, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

}  // namespace
}  // namespace schedtwin
