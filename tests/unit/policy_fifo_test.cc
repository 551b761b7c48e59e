// fifo, step by step. The service time of a request is its units (or tokens) in nanoseconds.
// Source: first come, first served, M/G/n (Kleinrock, Queueing Systems I, 1975).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Tokens;
using policy_testing::Units;
using ::testing::ElementsAre;

Script OneShot(std::uint32_t devices, std::vector<RequestSpec> requests) {
  Script script{.policy = "fifo", .requests = std::move(requests), .devices = devices};
  script.device.kind = ModelKind::kOneShot;
  return script;
}

TEST(PolicyFifo, ServesInOrderOfArrivalOneAtATime) {
  // The short one waits behind the long ones; the last finds the device idle.
  const Played played = Play(OneShot(1, {Units(0, 5), Units(1, 3), Units(2, 1), Units(20, 2)}));
  EXPECT_THAT(played.steps, ElementsAre("0-5 U0:5", "5-8 U1:3", "8-9 U2:1", "20-22 U3:2"));
  EXPECT_EQ(played.requests[2].end.ns(), 9);
  EXPECT_EQ(played.summary.ended[0], 4u);
}

TEST(PolicyFifo, ArrivalAtTheInstantOfAnEndIsServedAtThatInstant) {
  const Played played = Play(OneShot(1, {Units(0, 5), Units(5, 2), Units(7, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-5 U0:5", "5-7 U1:2", "7-8 U2:1"));
}

TEST(PolicyFifo, DevicesShareOneQueue) {
  // Request 3 goes to whichever device is free first, not to one chosen at its arrival.
  const Played played =
      Play(OneShot(2, {Units(0, 9), Units(0, 2), Units(1, 3), Units(1, 4), Units(1, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("d0 0-9 U0:9", "d1 0-2 U1:2", "d1 2-5 U2:3", "d1 5-9 U3:4",
                                        "d0 9-10 U4:1"));
}

TEST(PolicyFifo, LowestIdleDeviceIsTakenFirst) {
  const Played played = Play(OneShot(3, {Units(0, 4), Units(1, 1), Units(9, 1), Units(9, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("d0 0-4 U0:4", "d1 1-2 U1:1", "d0 9-10 U2:1", "d1 9-10 U3:1"));
}

TEST(PolicyFifo, NoDeviceIdlesWhileARequestWaits) {
  // Device 0 becomes free at the instant at which request 2 comes and device 1 is idle already: the
  // two waiting requests take both.
  const Played played = Play(OneShot(2, {Units(0, 6), Units(6, 3), Units(6, 3)}));
  EXPECT_THAT(played.steps, ElementsAre("d0 0-6 U0:6", "d0 6-9 U1:3", "d1 6-9 U2:3"));
}

// ---- Decoders: alike in every form of the plan ----

class PolicyFifoDecoder : public testing::TestWithParam<Form> {
 protected:
  Script Decoder(std::uint32_t devices, std::vector<RequestSpec> requests) {
    Script script{.policy = "fifo",
                  .settings = GetParam().settings(),
                  .requests = std::move(requests),
                  .devices = devices};
    script.device.total_blocks = 16;
    script.device.block_tokens = 4;
    return script;
  }
};

TEST_P(PolicyFifoDecoder, RunsOneRequestToItsEndBeforeTheNext) {
  const Played played = Play(Decoder(1, {Tokens(0, 4, 3), Tokens(1, 2, 1), Tokens(1, 3, 2)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:4", "4-5 D0", "5-6 D0", "6-8 P1:2", "8-11 P2:3", "11-12 D2"));
  EXPECT_EQ(played.requests[0].first_token.ns(), 4) << "a token appears at the end of its step";
  EXPECT_EQ(played.requests[0].last_token.ns(), 6);
  EXPECT_EQ(played.requests[2].first_start.ns(), 8);
}

TEST_P(PolicyFifoDecoder, EachDeviceHasOneRequest) {
  const Played played = Play(Decoder(2, {Tokens(0, 4, 3), Tokens(0, 2, 2), Tokens(1, 3, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("d0 0-4 P0:4", "d1 0-2 P1:2", "d1 2-3 D1", "d1 3-6 P2:3",
                                        "d0 4-5 D0", "d0 5-6 D0"));
}

TEST_P(PolicyFifoDecoder, MemoryIsWhollyFreeBetweenRequests) {
  // Each request takes 15 of the 16 blocks in the end: a leak of two would stop the second.
  const Played played = Play(Decoder(1, {Tokens(0, 50, 10), Tokens(0, 50, 10)}));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_EQ(played.summary.ended[0], 2u);
  EXPECT_EQ(played.records[0].free_blocks, 3u);  // 13 hold the prompt
  EXPECT_EQ(played.records[8].free_blocks, 1u);  // 58 tokens
  EXPECT_EQ(played.records[9].free_blocks, 16u);
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyFifoDecoder, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

}  // namespace
}  // namespace schedtwin
