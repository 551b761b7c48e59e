// conserve's memory, step by step: what is copied to the host tier and when, who gives way, who
// comes back. Source: ConServe (arXiv:2410.01228v2); no public code. A step takes 1 ns for each
// token, a copy 5 ns and 1 ns for each block, and a KV block holds 4 tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/hybrid_testing.h"

namespace schedtwin {
namespace {

using hybrid_testing::Copies;
using hybrid_testing::ExpectNothingRefused;
using hybrid_testing::Offline;
using hybrid_testing::Online;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Settings;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Played Serve(std::uint32_t blocks, std::vector<RequestSpec> requests, const Settings& more = {},
             std::uint32_t host_blocks = 64) {
  Settings settings = {{"tbt_target", "8ns"}, {"ttft_target", "1s"}};
  settings.insert(settings.end(), more.begin(), more.end());
  const Played played =
      Play(hybrid_testing::Engine("conserve", std::move(requests), settings, blocks, host_blocks));
  ExpectNothingRefused(played.summary);
  return played;
}

std::uint32_t Recomputed(const Played& played) {
  std::uint32_t tokens = 0;
  for (const RequestRecord& record : played.requests) tokens += record.recomputed_tokens;
  return tokens;
}

TEST(PolicyConserveMemory, CheckpointsCopyTheBlocksThatAreNewAndFull) {
  // At 9 two blocks are full and one is not. While they are copied seven tokens more are made, and
  // two blocks more are full at 16. What is begun at 23 outlives the request, and the run.
  const Played played = Serve(64, {Offline(0, 9, 16)});
  EXPECT_THAT(Copies(played), ElementsAre("save 0:2 9-16", "save 0:2 16-23"));
}

TEST(PolicyConserveMemory, OnlineKvIsNotCheckpointed) {
  EXPECT_THAT(Copies(Serve(64, {Online(0, 9, 16)})), IsEmpty());
}

/// Six blocks. At 15 request 0 has computed 15 tokens, 8 of which are in the host tier; five of
/// its six blocks are wanted by request 1.
const std::vector<RequestSpec> kOnlineIsShort = {Offline(0, 12, 8), Online(15, 17, 1)};

TEST(PolicyConserveMemory, CheckpointedKvGivesWayAtOnceAndComesBackWithoutRecomputing) {
  // Three blocks are saved at 20, when request 1 may have what is there: the fourth is copied
  // before its step. At 46 all four come back.
  const Played played = Serve(6, kOnlineIsShort);
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "26-43 P1:17",
                          "52-53 D0", "53-54 D0", "54-55 D0", "55-56 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("save 0:3 12-20", "out 0:1 20-26", "in 0:4 43-52"));
  EXPECT_EQ(Recomputed(played), 0u);
  EXPECT_EQ(played.requests[0].preemptions, 1u);
}

TEST(PolicyConserveMemory, WhatCameBackIsStillInTheHostTier) {
  // At 53 a fourth block is full. At 59 the fifth is all that is missing there.
  std::vector<RequestSpec> requests = kOnlineIsShort;
  requests.push_back(Online(54, 17, 1));
  const Played played = Serve(6, requests);
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "26-43 P1:17",
                          "52-53 D0", "53-54 D0", "65-82 P2:17", "92-93 D0", "93-94 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("save 0:3 12-20", "out 0:1 20-26", "in 0:4 43-52",
                                          "save 0:1 53-59", "out 0:1 59-65", "in 0:5 82-92"));
}

TEST(PolicyConserveMemory, KvComesBackBesideTheStepsOfOthers) {
  // Eleven of twelve blocks are wanted at 15. At 67 request 2 needs but one, and request 0 joins it
  // at 76; its fourth block is full at 78.
  const Played played = Serve(12, {Offline(0, 12, 8), Online(15, 41, 1), Online(67, 4, 12)});
  EXPECT_THAT(
      played.steps,
      ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "26-67 P1:41", "67-71 P2:4",
                  "71-72 D2", "72-73 D2", "73-74 D2", "74-75 D2", "75-76 D2", "76-78 D0 D2",
                  "78-80 D0 D2", "80-82 D0 D2", "82-84 D0 D2", "84-85 D2", "85-86 D2"));
  EXPECT_THAT(Copies(played),
              ElementsAre("save 0:3 12-20", "out 0:1 20-26", "in 0:4 67-76", "save 0:1 78-84"));
}

TEST(PolicyConserveMemory, SwapCopiesAllWhenItIsNeeded) {
  const Played played = Serve(6, kOnlineIsShort, {{"offline_kv", "swap"}});
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "24-41 P1:17",
                          "50-51 D0", "51-52 D0", "52-53 D0", "53-54 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0:4 15-24", "in 0:4 41-50"));
  EXPECT_EQ(Recomputed(played), 0u);
}

TEST(PolicyConserveMemory, RecomputeDropsAndBeginsAnew) {
  const Played played = Serve(6, kOnlineIsShort, {{"offline_kv", "recompute"}});
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "15-32 P1:17",
                          "32-48 P0:16", "48-49 D0", "49-50 D0", "50-51 D0"));
  EXPECT_THAT(Copies(played), IsEmpty());
  EXPECT_EQ(Recomputed(played), 15u);
}

TEST(PolicyConserveMemory, WithoutAHostTierItIsTheSameAsRecompute) {
  const Played without = Serve(6, kOnlineIsShort, {}, 0);
  const Played recompute = Serve(6, kOnlineIsShort, {{"offline_kv", "recompute"}});
  EXPECT_EQ(without.summary.outcome_digest, recompute.summary.outcome_digest);
  EXPECT_THAT(Copies(without), IsEmpty());
}

TEST(PolicyConserveMemory, WhatFindsNoRoomInTheHostTierIsDropped) {
  // Three of four blocks could be saved, two are not enough for that, and at 15 for nothing else.
  const Played played = Serve(6, kOnlineIsShort, {}, 2);
  EXPECT_THAT(Copies(played), IsEmpty());
  EXPECT_EQ(Recomputed(played), 15u);
}

TEST(PolicyConserveMemory, PausedKvStaysWhileNobodyNeedsItsRoom) {
  const Played played = Serve(64, {Offline(0, 12, 2), Online(1, 8, 3)}, {{"tbt_target", "1ns"}});
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-20 P1:8", "20-21 D1", "21-22 D1", "22-23 D0"));
  EXPECT_EQ(played.summary.preemptions, 0u);
}

TEST(PolicyConserveMemory, VictimIsTheLastAdmittedAndNoMoreThanAreNeeded) {
  // Request 2 needs one block more than is free.
  const Played played =
      Serve(7, {Offline(0, 8, 3), Offline(0, 8, 3), Online(1, 13, 1)}, {{"offline_kv", "swap"}});
  EXPECT_THAT(Copies(played), ElementsAre("out 1:2 16-23", "in 1:2 36-43"));
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "23-36 P2:13", "36-37 D0", "37-38 D0",
                                        "43-44 D1", "44-45 D1"));
}

TEST(PolicyConserveMemory, AStepOfOfflineWorkWaitsForOnlineWorkThatWaitsForACopy) {
  // At 18 both could go on decoding. Request 0 may go when its copy is done, at 23.
  const Played played = Serve(6, {Offline(0, 8, 4), Offline(0, 8, 4), Online(17, 8, 1)});
  EXPECT_THAT(played.steps, ElementsAre("0-16 P0:8 P1:8", "16-18 D0 D1", "29-37 P2:8", "37-38 D1",
                                        "38-39 D1", "47-48 D0", "48-49 D0"));
  EXPECT_THAT(Copies(played),
              ElementsAre("save 0:2 16-23", "out 0:1 23-29", "save 1:2 23-30", "in 0:3 39-47"));
}

TEST(PolicyConserveMemory, OfflineKvMakesRoomForOlderOfflineKv) {
  // At 16 both grow and no block is free.
  const Played played = Serve(4, {Offline(0, 8, 3), Offline(0, 8, 3)}, {{"offline_kv", "swap"}});
  EXPECT_THAT(played.steps,
              ElementsAre("0-16 P0:8 P1:8", "23-24 D0", "24-25 D0", "32-33 D1", "33-34 D1"));
  EXPECT_THAT(Copies(played), ElementsAre("out 1:2 16-23", "in 1:2 25-32"));
}

TEST(PolicyConserveMemory, OnlineGrowthTakesOfflineKvFirst) {
  // At 25 requests 0 and 1 grow and no block is free. At 33 the one that is free is request 0's,
  // and request 1, the last, waits for a step. Request 2 fits again at 34.
  const Played played = Serve(7, {Online(0, 4, 10), Online(0, 4, 10), Offline(0, 5, 9)},
                              {{"offline_kv", "recompute"}, {"tbt_target", "13ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-13 P0:4 P1:4 P2:5", "13-16 D0 D1 D2", "16-19 D0 D1 D2",
                                        "19-22 D0 D1 D2", "22-25 D0 D1 D2", "25-27 D0 D1",
                                        "27-29 D0 D1", "29-31 D0 D1", "31-33 D0 D1", "33-34 D0",
                                        "34-45 D1 P2:10", "45-46 D2", "46-47 D2", "47-48 D2"));
  EXPECT_EQ(played.requests[1].preemptions, 0u);
}

TEST(PolicyConserveMemory, OnlineWithoutOfflineKvTakesThatOfTheLastOnline) {
  // At 12 all three grow and no block is free: request 0 gets that of request 2, request 1 waits.
  const Played played = Serve(3, {Online(0, 4, 3), Online(0, 4, 2), Online(0, 4, 2)});
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:4 P1:4 P2:4", "12-13 D0", "13-14 D0", "14-15 D1", "15-20 P2:5"));
  EXPECT_EQ(played.summary.preemptions, 1u);
}

TEST(PolicyConserveMemory, NobodyIsBegunWhileKvWaitsForRoom) {
  // From 37 on one block is free for request 3, but request 1 wants two, and one for the growth of
  // request 0.
  const Played played =
      Serve(7, {Offline(0, 16, 4), Offline(0, 8, 3), Online(1, 5, 2), Offline(2, 4, 1)},
            {{"offline_kv", "swap"}, {"tbt_target", "1ns"}});
  EXPECT_THAT(Copies(played), ElementsAre("out 1:2 24-31", "in 1:2 40-47"));
  EXPECT_THAT(played.steps,
              ElementsAre("0-24 P0:16 P1:8", "31-36 P2:5", "36-37 D2", "37-38 D0", "38-39 D0",
                          "39-40 D0", "40-44 P3:4", "47-48 D1", "48-49 D1"));
}

}  // namespace
}  // namespace schedtwin
