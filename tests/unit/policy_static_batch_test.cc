// static_batch, step by step. Source: FasterTransformer's run to completion, with admission as in
// microsoft/sarathi-serve's faster_transformer_scheduler; slots of ended requests stay occupied
// until the last ends. A step takes 1 ns for each token, padding included.
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
using policy_testing::Units;
using ::testing::ElementsAre;

class PolicyStaticBatch : public testing::TestWithParam<Form> {
 protected:
  Script Decoder(const Settings& settings, std::vector<RequestSpec> requests) {
    Script script{.policy = "static_batch",
                  .settings = policy_testing::In(GetParam(), settings),
                  .requests = std::move(requests)};
    script.device.total_blocks = 64;
    script.device.block_tokens = 4;
    script.device.max_model_len_tokens = 32;
    return script;
  }
};

TEST_P(PolicyStaticBatch, NobodyJoinsBeforeTheLastEnds) {
  // Request 2 is there from 1 on, and there is memory and a slot for it from 6 on.
  const Played played = Play(Decoder({{"max_batch_size", "2"}, {"keep_padding", "false"}},
                                     {Tokens(0, 2, 2), Tokens(0, 2, 4), Tokens(1, 2, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:2 P1:2", "4-6 D0 D1", "6-7 D1", "7-8 D1", "8-10 P2:2"));
}

TEST_P(PolicyStaticBatch, BatchIsWhatWaitsWhenTheDeviceIsFree) {
  const Played played = Play(Decoder(
      {{"max_batch_size", "3"}, {"keep_padding", "false"}},
      {Tokens(0, 2, 1), Tokens(1, 1, 1), Tokens(2, 1, 1), Tokens(2, 1, 1), Tokens(2, 1, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-2 P0:2", "2-5 P1:1 P2:1 P3:1", "5-6 P4:1"));
}

TEST_P(PolicyStaticBatch, PaddingIsComputed) {
  // Prompts are padded to the longest (5), the slot of request 0 to the end of request 1.
  const std::vector<RequestSpec> requests = {Tokens(0, 2, 2), Tokens(0, 5, 3)};
  EXPECT_THAT(Play(Decoder({{"keep_padding", "true"}}, requests)).steps,
              ElementsAre("0-10 P0:2 P1:5 pad:3", "10-12 D0 D1", "12-14 D1 pad:1"));
  EXPECT_THAT(Play(Decoder({{"keep_padding", "false"}}, requests)).steps,
              ElementsAre("0-7 P0:2 P1:5", "7-9 D0 D1", "9-10 D1"));
}

TEST_P(PolicyStaticBatch, PaddingIsTheDefault) {
  EXPECT_THAT(Play(Decoder({}, {Tokens(0, 1, 1), Tokens(0, 3, 1)})).steps,
              ElementsAre("0-6 P0:1 P1:3 pad:2"));
}

TEST_P(PolicyStaticBatch, ReservesTheModelsWholeLength) {
  // 32 tokens are 8 blocks: 20 blocks hold two requests, though each needs one block only.
  const std::vector<RequestSpec> requests(3, Tokens(0, 3, 1));
  Script script = Decoder({}, requests);
  script.device.total_blocks = 20;
  const Played played = Play(script);
  EXPECT_THAT(played.steps, ElementsAre("0-6 P0:3 P1:3", "6-9 P2:3"));
  EXPECT_EQ(played.records[0].free_blocks, 20u) << "all is given back at the end";
}

TEST_P(PolicyStaticBatch, ReservesPromptAndMaxNewTokensIfToldTo) {
  std::vector<RequestSpec> requests(4, Tokens(0, 3, 1));
  for (RequestSpec& request : requests) request.max_new_tokens = 5;
  Script script = Decoder({{"reserve", "max_new_tokens"}}, requests);
  script.device.total_blocks = 7;  // 8 tokens are 2 blocks: three requests
  EXPECT_THAT(Play(script).steps, ElementsAre("0-9 P0:3 P1:3 P2:3", "9-12 P3:3"));
}

TEST_P(PolicyStaticBatch, PoolSmallerThanTheModelsLengthHoldsOneRequest) {
  Script script = Decoder({}, {Tokens(0, 3, 2), Tokens(0, 3, 1)});
  script.device.total_blocks = 4;
  const Played played = Play(script);
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_THAT(played.steps, ElementsAre("0-3 P0:3", "3-4 D0", "4-7 P1:3"));
}

TEST_P(PolicyStaticBatch, EachDeviceHasItsOwnBatch) {
  Script script =
      Decoder({{"max_batch_size", "2"}}, {Tokens(0, 2, 3), Tokens(0, 2, 1), Tokens(0, 3, 1),
                                          Tokens(1, 1, 1), Tokens(1, 1, 1), Tokens(1, 1, 1)});
  script.devices = 2;
  // At 0 both devices are woken, and the first takes two: the second has request 2 alone. At 3 it
  // is free, long before device 0.
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 0-4 P0:2 P1:2", "d1 0-3 P2:3", "d1 3-5 P3:1 P4:1",
                                              "d0 4-6 D0 pad:1", "d1 5-6 P5:1", "d0 6-8 D0 pad:1"));
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyStaticBatch, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

// ---- One-shot models ----

Script OneShot(const std::string& max_batch_size, std::vector<RequestSpec> requests) {
  Script script{.policy = "static_batch",
                .settings = {{"max_batch_size", max_batch_size}},
                .requests = std::move(requests)};
  script.device.kind = ModelKind::kOneShot;
  return script;
}

TEST(PolicyStaticBatchOneShot, TakesWhatWaitsByUnits) {
  const Played played =
      Play(OneShot("4", {Units(0, 1), Units(0, 2), Units(0, 2), Units(1, 2), Units(1, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-3 U0:1 U1:2", "3-7 U2:2 U3:2", "7-8 U4:1"))
      << "no padding: a launch ends all of its requests";
}

TEST(PolicyStaticBatchOneShot, RequestLargerThanTheMaximumRunsAlone) {
  EXPECT_THAT(Play(OneShot("4", {Units(0, 9), Units(0, 1)})).steps,
              ElementsAre("0-9 U0:9", "9-10 U1:1"));
}

TEST(PolicyStaticBatchOneShot, DeviceLimitIsAMaximumToo) {
  Script script = OneShot("32", {Units(0, 2), Units(0, 2), Units(0, 1)});
  script.device.max_step_tokens = 3;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-2 U0:2", "2-5 U1:2 U2:1"));
}

}  // namespace
}  // namespace schedtwin
