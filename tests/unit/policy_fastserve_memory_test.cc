// fastserve's memory, step by step: who is swapped out, when a batch waits, what is brought back
// ahead of need. Source: LLMServe/FastServe fastserve/scheduler.py (187a2742), reserve_free_blocks.
// A step takes 1 ns for each token, a copy 5 ns, a KV block holds 4 tokens, and level 0 has 4 ns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Settings kReactive = {{"proactive", "false"}};

Script Engine(std::uint32_t batch, std::uint32_t blocks, std::uint32_t host_blocks,
              std::vector<RequestSpec> requests, const Settings& more = {}) {
  Script script{.policy = "fastserve",
                .settings = {{"max_batch_size", std::to_string(batch)},
                             {"base_quantum", "4ns"},
                             {"skip_join", "false"}},
                .requests = std::move(requests)};
  script.settings.insert(script.settings.end(), more.begin(), more.end());
  script.device.total_blocks = blocks;
  script.device.block_tokens = 4;
  script.device.host_blocks = host_blocks;
  script.device.host_link = {Duration::Nanos(5), 1'000'000'000};
  return script;
}

/// "out 0 16-21" for each copy, in order of their ends.
std::vector<std::string> Copies(const Played& played) {
  std::vector<std::string> texts;
  for (const OperationRecord& copy : played.operations) {
    const bool out = copy.kind == static_cast<std::uint8_t>(OperationKind::kSwapOut);
    EXPECT_TRUE(copy.ok);
    texts.push_back((out ? "out " : "in ") + std::to_string(copy.request.value) + " " +
                    std::to_string(copy.start.ns()) + "-" + std::to_string(copy.end.ns()));
  }
  return texts;
}

/// At 16 request 2 (3 blocks) and a decode that grows want 4 blocks.
const std::vector<RequestSpec> kThree = {Tokens(0, 8, 4), Tokens(0, 8, 4), Tokens(1, 12, 1)};

TEST(PolicyFastServeMemory, BatchWaitsForTheCopiesThatItNeedsAndIsChargedForThem) {
  // Request 0 makes room for the batch 2, 1, and is in the next. With the wait of 5 ns request 1
  // has had 18 ns at level 1 at 34, and request 0, with its own, 9 ns at 43.
  const Played played = Play(Engine(2, 6, 64, kThree, kReactive));
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "21-34 D1 P2:12", "39-41 D0 D1",
                                        "41-43 D0 D1", "43-44 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 16-21", "in 0 34-39"));
  EXPECT_EQ(played.requests[0].preemptions, 1u);
  EXPECT_EQ(played.requests[0].recomputed_tokens, 0u);
}

TEST(PolicyFastServeMemory, WaitForACopyIsCharged) {
  // Requests 0 and 2 join level 1 (12 ns). At 24 request 0 has had 7 ns, then 5 of waiting and 1:
  // it goes to level 2, and request 2 is next.
  const std::vector<RequestSpec> requests = {Tokens(0, 7, 3), Tokens(1, 6, 1), Tokens(2, 9, 1)};
  const Settings settings = {
      {"proactive", "false"}, {"base_quantum", "6ns"}, {"skip_join", "true"}};
  const Played played = Play(Engine(1, 3, 64, requests, settings));
  EXPECT_THAT(played.steps,
              ElementsAre("0-7 P0:7", "12-18 P1:6", "23-24 D0", "29-38 P2:9", "43-44 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 7-12", "in 0 18-23", "out 0 24-29", "in 0 38-43"));
}

TEST(PolicyFastServeMemory, RecomputeDropsAtOnce) {
  const Settings settings = {{"preempt", "recompute"}};
  const Played played = Play(Engine(2, 6, 64, kThree, settings));
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "16-29 D1 P2:12", "29-39 D1 P0:9",
                                        "39-41 D0 D1", "41-42 D0"));
  EXPECT_THAT(Copies(played), IsEmpty());
  EXPECT_EQ(played.requests[0].recomputed_tokens, 8u);
}

TEST(PolicyFastServeMemory, WithoutAHostTierItIsComputedAgain) {
  for (const char* proactive : {"true", "false"}) {
    const Played played = Play(Engine(2, 6, 0, kThree, {{"proactive", proactive}}));
    EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "16-29 D1 P2:12", "29-39 D1 P0:9",
                                          "39-41 D0 D1", "41-42 D0"));
  }
}

TEST(PolicyFastServeMemory, WithoutALinkToTheHostTierItIsComputedAgain) {
  Script script = Engine(2, 6, 64, kThree);
  script.device.host_link = {};
  const Played played = Play(script);
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "16-29 D1 P2:12", "29-39 D1 P0:9",
                                        "39-41 D0 D1", "41-42 D0"));
  EXPECT_EQ(played.summary.refusals[static_cast<int>(Refusal::kNoLink)], 0u);
}

TEST(PolicyFastServeMemory, WhoFindsNoRoomInTheHostTierIsDropped) {
  const Played played = Play(Engine(2, 6, 1, kThree, kReactive));
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "16-29 D1 P2:12", "29-39 D1 P0:9",
                                        "39-41 D0 D1", "41-42 D0"));
  EXPECT_EQ(played.summary.refusals[static_cast<int>(Refusal::kNoMemory)], 0u);
}

TEST(PolicyFastServeMemory, VictimIsOfTheLowestLevel) {
  // At 14 request 0 is at level 2 and request 1 at level 1; request 2 needs a block.
  const std::vector<RequestSpec> requests = {Tokens(0, 9, 2), Tokens(1, 5, 2), Tokens(10, 4, 1)};
  const Played played =
      Play(Engine(1, 5, 64, requests, {{"proactive", "false"}, {"skip_join", "true"}}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-9 P0:9", "9-14 P1:5", "19-23 P2:4", "23-24 D1", "29-30 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 14-19", "in 0 24-29"));
}

TEST(PolicyFastServeMemory, VictimIsTheTailOfItsLevel) {
  // At 10 both are at level 1, request 1 before request 0; request 2 needs a block.
  const std::vector<RequestSpec> requests = {Tokens(0, 6, 2), Tokens(1, 4, 2), Tokens(7, 4, 1)};
  const Played played =
      Play(Engine(1, 3, 64, requests, {{"proactive", "false"}, {"base_quantum", "3ns"}}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-6 P0:6", "6-10 P1:4", "15-19 P2:4", "19-20 D1", "25-26 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 10-15", "in 0 20-25"));
}

TEST(PolicyFastServeMemory, BatchIsCutFromItsEnd) {
  // At 16 both grow, and nobody is queued: request 0 is the end of the batch 1, 0. At 22 the batch
  // would need 2 blocks more than there are, and is cut again.
  const Played played = Play(Engine(2, 4, 64, {Tokens(0, 8, 4), Tokens(0, 8, 4)}, kReactive));
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "21-22 D1", "22-23 D1", "23-24 D1",
                                        "29-30 D0", "30-31 D0", "31-32 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 16-21", "in 0 24-29"));
}

TEST(PolicyFastServeMemory, CutComeBackReversed) {
  // The batch 2, 1, 0 is cut to request 2. Then request 0, cut first, is before request 1.
  const Played played =
      Play(Engine(3, 3, 64, {Tokens(0, 4, 2), Tokens(0, 4, 2), Tokens(0, 4, 2)}, kReactive));
  EXPECT_THAT(played.steps, ElementsAre("0-12 P0:4 P1:4 P2:4", "17-18 D2", "23-24 D0", "29-30 D1"));
}

TEST(PolicyFastServeMemory, PromptIsSkippedWhileTheHostTierIsFull) {
  // At 34 request 0 fills the host tier: request 3, first in the queues, is left out, and those
  // behind it are not.
  std::vector<RequestSpec> requests = kThree;
  requests.push_back(Tokens(22, 4, 1));
  EXPECT_THAT(Play(Engine(2, 7, 2, requests, kReactive)).steps,
              ElementsAre("0-16 P0:8 P1:8", "21-34 D1 P2:12", "39-41 D0 D1", "41-46 D0 P3:4",
                          "46-48 D0 D1"));
  EXPECT_THAT(
      Play(Engine(2, 7, 2, requests, {{"proactive", "false"}, {"min_free_host_percent", "0"}}))
          .steps,
      ElementsAre("0-16 P0:8 P1:8", "21-34 D1 P2:12", "39-44 D0 P3:4", "44-46 D0 D1",
                  "46-48 D0 D1"));
}

TEST(PolicyFastServeMemory, SkippedPromptsComeBackReversed) {
  // At 41 request 4 is first. For both a block is lacking: request 1 (3 blocks) is dropped, since
  // the host tier has 2.
  std::vector<RequestSpec> requests = kThree;
  requests.push_back(Tokens(22, 4, 1));
  requests.push_back(Tokens(23, 4, 1));
  EXPECT_THAT(Play(Engine(2, 7, 2, requests, kReactive)).steps,
              ElementsAre("0-16 P0:8 P1:8", "21-34 D1 P2:12", "39-41 D0 D1", "41-49 P4:4 P3:4",
                          "49-61 D0 P1:11", "61-62 D0"));
}

TEST(PolicyFastServeMemory, ReserveLetsSwapsRunBesideTheSteps) {
  // Two blocks are kept free: request 1 grows into one while request 0 is copied out. It is cut
  // from the batch at 17, too, and comes in when request 1 is done.
  const Played played = Play(Engine(2, 6, 64, {Tokens(0, 8, 3), Tokens(0, 8, 3)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-16 P0:8 P1:8", "16-17 D1", "17-18 D1", "26-27 D0", "27-28 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 16-21", "in 0 21-26"));
}

TEST(PolicyFastServeMemory, ReserveIsMadeBetweenStepsAndYieldsToTheFirstOfABatch) {
  // Five of six blocks are to be free: after its prompt request 0 (2 blocks) goes, and comes back.
  const Settings settings = {{"min_free_blocks", "5"}};
  const Played played = Play(Engine(1, 6, 64, {Tokens(0, 8, 2)}, settings));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "18-19 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 8-13", "in 0 13-18"));
}

TEST(PolicyFastServeMemory, KvIsBroughtBackAheadOfNeed) {
  // At 28 request 1 is gone and request 2 runs: request 0, next in the queue, is copied in beside
  // it, and goes on at 34 without a wait.
  const Played played =
      Play(Engine(1, 7, 64, {Tokens(0, 8, 3), Tokens(1, 20, 1), Tokens(9, 4, 3)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-28 P1:20", "28-32 P2:4", "32-33 D2",
                                        "33-34 D2", "34-35 D0", "35-36 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 8-13", "in 0 28-33"));
}

TEST(PolicyFastServeMemory, OnlyTheFirstOfTheQueueAreBroughtBackAhead) {
  // The same with another request before request 0 in the queue: one is looked at.
  const Played played = Play(
      Engine(1, 8, 64, {Tokens(0, 8, 2), Tokens(1, 24, 1), Tokens(9, 4, 3), Tokens(10, 2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-32 P1:24", "32-36 P2:4", "36-37 D2",
                                        "37-39 P3:2", "39-40 D2", "44-45 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0 8-13", "in 0 39-44"));
}

TEST(PolicyFastServeMemory, WhoLeavesIsWaitedForNoLonger) {
  std::vector<RequestSpec> requests = kThree;
  requests[0].leaves = Time::Nanos(36);
  const Played played = Play(Engine(2, 6, 64, requests, kReactive));
  EXPECT_THAT(played.steps,
              ElementsAre("0-16 P0:8 P1:8", "21-34 D1 P2:12", "36-37 D1", "37-38 D1"));
  EXPECT_EQ(played.requests[0].reason, EndReason::kCancelled);
}

}  // namespace
}  // namespace schedtwin
