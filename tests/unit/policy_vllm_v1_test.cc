// vllm_v1, step by step, the same in every form of the plan. Source:
// vllm/v1/core/sched/scheduler.py (00024d31, b4622cf9) with the fcfs policy; the admission gate is
// vllm#37307, the watermark vllm#44594. A step takes 1 ns for each token, and a KV block holds 4
// tokens.
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
using ::testing::HasSubstr;

class PolicyVllmV1 : public testing::TestWithParam<Form> {
 protected:
  Script Engine(std::uint32_t budget, std::uint32_t blocks, std::vector<RequestSpec> requests,
                const Settings& settings = {}) {
    return policy_testing::VllmV1Engine(GetParam(), budget, blocks, std::move(requests), settings);
  }
};

// ---- The token budget ----

TEST_P(PolicyVllmV1, StepsFillTheBudgetWithDecodesAndChunks) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 5, 3), Tokens(0, 6, 2)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:5 P1:3", "8-12 D0 P1:3", "12-14 D0 D1"));
  EXPECT_EQ(played.requests[1].first_token.ns(), 12) << "of the step with the last of the prompt";
}

TEST_P(PolicyVllmV1, RunningGoesBeforeWaiting) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 20, 1), Tokens(1, 2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-16 P0:8", "16-22 P0:4 P1:2"));
}

TEST_P(PolicyVllmV1, PrefillsNeverStallDecodes) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 2, 5), Tokens(1, 20, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-2 P0:2", "2-10 D0 P1:7", "10-18 D0 P1:7",
                                        "18-25 D0 P1:6", "25-26 D0"));
}

TEST_P(PolicyVllmV1, OneTokenTailOfAPromptIsPrefill) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 9, 2)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-9 P0:1", "9-10 D0"));
}

TEST_P(PolicyVllmV1, ArrivalWaitsForTheStepBoundaryAndNoLonger) {
  // Request 1 comes at the very instant of a boundary, request 2 just after it.
  const Played played = Play(Engine(8, 64, {Tokens(0, 4, 5), Tokens(5, 2, 1), Tokens(6, 3, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:4", "4-5 D0", "5-8 D0 P1:2", "8-12 D0 P2:3", "12-13 D0"));
}

TEST_P(PolicyVllmV1, MaxNumSeqsCountsRunningRequests) {
  Script script = Engine(16, 64, {Tokens(0, 2, 2), Tokens(0, 2, 3), Tokens(0, 2, 1)});
  script.settings.push_back({"max_num_seqs", "2"});
  EXPECT_THAT(Play(script).steps, ElementsAre("0-4 P0:2 P1:2", "4-6 D0 D1", "6-9 D1 P2:2"));
}

TEST_P(PolicyVllmV1, BudgetMayBeSmallerThanMaxNumSeqs) {
  const Played played = Play(Engine(2, 64, {Tokens(0, 1, 3), Tokens(0, 2, 3), Tokens(0, 1, 2)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-2 P0:1 P1:1", "2-4 D0 P1:1", "4-6 D0 D1", "6-8 D1 P2:1", "8-9 D2"));
}

TEST_P(PolicyVllmV1, WithoutChunksAPromptWaitsForARoomyStep) {
  // Seven tokens are left beside the decode, and the short one behind does not overtake.
  const Played played = Play(Engine(8, 64, {Tokens(0, 2, 3), Tokens(1, 8, 1), Tokens(1, 1, 1)},
                                    {{"chunked_prefill", "false"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-2 P0:2", "2-3 D0", "3-4 D0", "4-12 P1:8", "12-13 P2:1"));
}

TEST_P(PolicyVllmV1, WithoutChunksAPromptAboveTheBudgetIsAStallAndNoHang) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 9, 1)}, {{"chunked_prefill", "false"}}));
  EXPECT_EQ(played.summary.result, RunResult::kStalled);
  EXPECT_THAT(played.summary.detail, HasSubstr("9 prompt tokens, 0 made"));
}

// ---- The long-prefill threshold ----

TEST_P(PolicyVllmV1, LongPromptsShareAStepByTheThreshold) {
  const Played played = Play(Engine(8, 64, {Tokens(0, 7, 1), Tokens(0, 4, 1), Tokens(0, 2, 4)},
                                    {{"long_prefill_token_threshold", "3"}}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-8 P0:3 P1:3 P2:2", "8-13 D2 P0:3 P1:1", "13-15 D2 P0:1", "15-16 D2"));
}

TEST_P(PolicyVllmV1, ThresholdSplitsPromptsThatChunkedPrefillWouldNot) {
  // The threshold is applied before the question whether the prompt fits into the step.
  const Played played =
      Play(Engine(8, 64, {Tokens(0, 9, 1)},
                  {{"chunked_prefill", "false"}, {"long_prefill_token_threshold", "4"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:4", "4-8 P0:4", "8-9 P0:1"));
}

TEST_P(PolicyVllmV1, SeveralInTheirPromptsArePreemptedFromTheTail) {
  // At 20 requests 0 and 1 need a block each, and none is free: request 2 gives its two, and comes
  // back when there is room.
  const Played played = Play(Engine(32, 6, {Tokens(0, 6, 6), Tokens(1, 18, 1), Tokens(1, 2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-6 P0:6", "6-7 D0", "7-8 D0", "8-9 D0", "9-10 D0",
                                        "10-11 D0", "11-31 P1:18 P2:2"));
}

TEST_P(PolicyVllmV1, WholeSequenceMustFit) {
  // The first chunk of request 1 would fit at 6.
  const Played played = Play(Engine(8, 6, {Tokens(0, 6, 6), Tokens(1, 18, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-6 P0:6", "6-7 D0", "7-8 D0", "8-9 D0", "9-10 D0",
                                        "10-11 D0", "11-19 P1:8", "19-27 P1:8", "27-29 P1:2"));
  EXPECT_EQ(played.summary.preemptions, 0u);
}

TEST_P(PolicyVllmV1, OnlyTheFirstChunkMustFitIfToldSo) {
  // 2025's admission. At 22 request 0 grows, and request 1 makes room in the middle of its prompt.
  // It would fit at once, but that step has preempted: it comes back in the next. At 31 its second
  // chunk does not fit.
  const Played played = Play(
      Engine(8, 6, {Tokens(0, 6, 6), Tokens(1, 18, 1)}, {{"full_sequence_must_fit", "false"}}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-6 P0:6", "6-14 D0 P1:7", "14-22 D0 P1:7", "22-23 D0", "23-31 D0 P1:7",
                          "31-32 D0", "32-40 P1:8", "40-48 P1:8", "48-50 P1:2"));
  EXPECT_EQ(played.requests[1].preemptions, 2u);
  EXPECT_EQ(played.requests[1].recomputed_tokens, 14u + 7u);
}

TEST_P(PolicyVllmV1, WatermarkIsKeptByAdmissionsBesideOthers) {
  // 3 of 10 blocks. Request 1 leaves exactly 3; request 2 would leave 2.
  const std::vector<RequestSpec> requests = {Tokens(0, 16, 3), Tokens(0, 12, 1), Tokens(0, 1, 1)};
  EXPECT_THAT(Play(Engine(64, 10, requests, {{"watermark", "0.3"}})).steps,
              ElementsAre("0-28 P0:16 P1:12", "28-30 D0 P2:1", "30-31 D0"));
  EXPECT_THAT(Play(Engine(64, 10, requests)).steps,
              ElementsAre("0-29 P0:16 P1:12 P2:1", "29-30 D0", "30-31 D0"));
}

TEST_P(PolicyVllmV1, WatermarkDoesNotBindTheFirstOfAStep) {
  // 9 of 10 blocks: it would never run otherwise. Decodes pay no watermark either.
  const Played played = Play(Engine(64, 10, {Tokens(0, 36, 3)}, {{"watermark", "1"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-36 P0:36", "36-37 D0", "37-38 D0"));
}

TEST_P(PolicyVllmV1, ACancelledHeadLetsTheNextOnePassWhereNothingRuns) {
  // Request 0 never fits into a step, and leaves.
  std::vector<RequestSpec> requests = {Tokens(0, 9, 1), Tokens(1, 3, 1)};
  requests[0].leaves = Time::Nanos(5);
  EXPECT_THAT(Play(Engine(8, 64, requests, {{"chunked_prefill", "false"}})).steps,
              ElementsAre("5-8 P1:3"));
}

// ---- Preemption ----

TEST_P(PolicyVllmV1, VictimIsTheLastAdmittedAndComesBackFirst) {
  // At 16 both running requests grow and one block is free. Request 1 goes to the front of the
  // queue: request 2 (one block) would fit, but stands behind it. Its prompt is computed again with
  // the 5 tokens it has made.
  Script script = Engine(16, 5, {Tokens(0, 4, 9), Tokens(0, 4, 9), Tokens(1, 4, 1)});
  script.settings.push_back({"max_num_seqs", "2"});
  const Played played = Play(script);
  EXPECT_THAT(played.steps,
              ElementsAre("0-8 P0:4 P1:4", "8-10 D0 D1", "10-12 D0 D1", "12-14 D0 D1",
                          "14-16 D0 D1", "16-17 D0", "17-18 D0", "18-19 D0", "19-20 D0",
                          "20-33 P1:9 P2:4", "33-34 D1", "34-35 D1", "35-36 D1"));
  EXPECT_EQ(played.summary.preemptions, 1u);
  EXPECT_EQ(played.requests[1].preemptions, 1u);
  EXPECT_EQ(played.requests[1].recomputed_tokens, 8u) << "its 9th was known but not computed";
  EXPECT_EQ(played.requests[1].first_token.ns(), 8) << "tokens once made stay made";
  EXPECT_EQ(played.requests[1].output_tokens, 9u);
}

TEST_P(PolicyVllmV1, ChunkThatDoesNotFitBesideTheGrowthOfOthersPreemptsItself) {
  // At 16 one block is free: request 0 takes it, so that the last chunk of request 1 has none.
  const Played played = Play(Engine(8, 5, {Tokens(0, 7, 4), Tokens(0, 12, 1)}));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:7 P1:1", "8-16 D0 P1:7", "16-17 D0", "17-18 D0",
                                        "18-26 P1:8", "26-30 P1:4"));
  EXPECT_EQ(played.requests[1].preemptions, 1u);
}

TEST_P(PolicyVllmV1, AsManyArePreemptedAsIsNeeded) {
  // At 12 all three grow and no block is free: request 2 gives one, request 0 takes it, and request
  // 1 must go too. Both are back in the order in which they came.
  const Played played = Play(Engine(16, 3, {Tokens(0, 4, 3), Tokens(0, 4, 2), Tokens(0, 4, 2)}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 P0:4 P1:4 P2:4", "12-13 D0", "13-14 D0", "14-19 P1:5",
                                        "19-24 P2:5"));
  EXPECT_EQ(played.summary.preemptions, 2u);
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyVllmV1, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

}  // namespace
}  // namespace schedtwin
