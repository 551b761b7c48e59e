// conserve, step by step: what goes into a step, and when a step is cut. Source: ConServe
// (arXiv:2410.01228v2); no public code. A step takes 1 ns for each token, a layer a quarter of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/profile/profile.h"
#include "tests/unit/hybrid_testing.h"

namespace schedtwin {
namespace {

using hybrid_testing::ExpectNothingRefused;
using hybrid_testing::Offline;
using hybrid_testing::Online;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using ::testing::ElementsAre;

Played Serve(std::vector<RequestSpec> requests, const Settings& more = {}) {
  Settings settings = {{"tbt_target", "8ns"}, {"ttft_target", "1s"}};
  settings.insert(settings.end(), more.begin(), more.end());
  const Played played = Play(hybrid_testing::Engine("conserve", std::move(requests), settings));
  ExpectNothingRefused(played.summary);
  return played;
}

// ---- What goes into a step ----

TEST(PolicyConserve, OnlineWorkGoesFirstWhateverCameFirst) {
  const Played played = Serve({Offline(0, 6, 1), Online(0, 5, 2)});
  EXPECT_THAT(played.steps, ElementsAre("0-8 P1:5 P0:3", "8-12 D1 P0:3"));
}

TEST(PolicyConserve, OfflineWorkIsAddedUpToTheTargetAndNoFurther) {
  const Played played = Serve({Offline(0, 9, 1), Online(0, 5, 2)}, {{"tbt_target", "9ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-9 P1:5 P0:4", "9-15 D1 P0:5"));
}

TEST(PolicyConserve, OnlineWorkIsNotBoundByTheTarget) {
  const Played played = Serve({Online(0, 20, 1), Offline(0, 4, 1)});
  EXPECT_THAT(played.steps, ElementsAre("0-20 P0:20", "20-24 P1:4"));
}

TEST(PolicyConserve, OfflineWorkAloneHasNoTarget) {
  const Played played = Serve({Offline(0, 30, 2), Offline(0, 10, 1)});
  EXPECT_THAT(played.steps, ElementsAre("0-40 P0:30 P1:10", "40-41 D0"));
}

TEST(PolicyConserve, OfflineWorkAloneIsTheBatchOfTheBestThroughput) {
  // Eight tokens take 20 ns, sixteen 65: the second prompt would cost more than it brings.
  Profile profile;
  profile.tile = 1;
  profile.layers = 1;
  profile.steps = {{1, 10}, {8, 20}, {40, 200}};
  Script script = hybrid_testing::Engine("conserve", {Offline(0, 8, 1), Offline(0, 8, 1)}, {});
  script.model = StepTimeModel(profile);
  EXPECT_THAT(Play(script).steps, ElementsAre("0-20 P0:8", "20-40 P1:8"));
  script.settings = {{"token_sizing", "false"}};
  EXPECT_THAT(Play(script).steps, ElementsAre("0-65 P0:8 P1:8"));
}

TEST(PolicyConserve, OfflineDecodesGoBeforeOfflinePrompts) {
  const Played played = Serve({Offline(0, 4, 4), Online(1, 2, 3), Offline(1, 10, 1)});
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:4", "4-12 D0 P1:2 P2:5", "12-19 D0 D1 P2:5", "19-21 D0 D1"));
}

TEST(PolicyConserve, AsManyOfflineDecodesGoAsTheTargetTakes) {
  const Played played =
      Serve({Offline(0, 2, 3), Offline(0, 2, 3), Offline(0, 2, 3), Online(1, 6, 1)});
  EXPECT_THAT(played.steps,
              ElementsAre("0-6 P0:2 P1:2 P2:2", "6-14 D0 D1 P3:6", "14-17 D0 D1 D2", "17-18 D2"));
}

TEST(PolicyConserve, NothingOfflineGoesBesideOnlineWorkThatTakesAllTheTime) {
  const Played played = Serve({Offline(0, 2, 2), Online(1, 8, 2)});
  EXPECT_THAT(played.steps, ElementsAre("0-2 P0:2", "2-10 P1:8", "10-12 D0 D1"));
}

TEST(PolicyConserve, OnlinePromptsAreServedInOrderAndSplitAtTheStepsLimit) {
  const Played played =
      Serve({Online(0, 12, 1), Online(0, 3, 1)}, {{"max_num_batched_tokens", "8"}});
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-15 P0:4 P1:3"));
}

TEST(PolicyConserve, RequestsInAStepAreLimited) {
  const Played played =
      Serve({Offline(0, 2, 1), Offline(0, 2, 1), Offline(0, 2, 1)}, {{"max_num_seqs", "2"}});
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:2 P1:2", "4-6 P2:2"));
}

TEST(PolicyConserve, OfflineClassSaysWhoIsOffline) {
  const Played played = Serve({Online(0, 6, 1), Offline(0, 5, 1)}, {{"offline_class", "0"}});
  EXPECT_THAT(played.steps, ElementsAre("0-8 P1:5 P0:3", "8-11 P0:3"));
}

TEST(PolicyConserve, WithoutTokenSizingOfflineWorkFillsEveryStep) {
  const Played played = Serve({Offline(0, 40, 1), Online(0, 4, 2)},
                              {{"token_sizing", "false"}, {"max_num_batched_tokens", "16"}});
  EXPECT_THAT(played.steps, ElementsAre("0-16 P1:4 P0:12", "16-32 D1 P0:15", "32-45 P0:13"));
}

TEST(PolicyConserve, DevicesTakeArrivalsInTurn) {
  Script script = hybrid_testing::Engine(
      "conserve", {Offline(0, 2, 1), Online(0, 3, 1), Online(1, 4, 1)}, {{"tbt_target", "8ns"}});
  script.devices = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 0-2 P0:2", "d1 0-3 P1:3", "d0 2-6 P2:4"));
}

// ---- When a step is cut ----

/// At 5 the offline step has 35 ns to go, and the prompt of the arrival takes 4.
const std::vector<RequestSpec> kArrivalInAStep = {Offline(0, 40, 1), Online(5, 4, 1)};

TEST(PolicyConserve, ArrivalThatWouldWaitTooLongCutsAnOfflineStepAtItsLayer) {
  const Played played = Serve(kArrivalInAStep, {{"ttft_target", "38ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-10 P0:40 cut", "10-18 P1:4 P0:4", "18-54 P0:36"));
  EXPECT_EQ(played.summary.preemptions, 0u);
}

TEST(PolicyConserve, ArrivalThatWouldBeJustInTimeLetsTheStepFinish) {
  const Played played = Serve(kArrivalInAStep, {{"ttft_target", "39ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-40 P0:40", "40-44 P1:4"));
}

TEST(PolicyConserve, WithoutLayerAbortsEveryStepRunsToItsEnd) {
  const Played played = Serve(kArrivalInAStep, {{"ttft_target", "1ns"}, {"layer_abort", "false"}});
  EXPECT_THAT(played.steps, ElementsAre("0-40 P0:40", "40-44 P1:4"));
}

TEST(PolicyConserve, StepWithOnlineWorkIsNotCut) {
  const Played played = Serve({Offline(0, 40, 1), Online(0, 4, 2), Online(5, 4, 1)},
                              {{"ttft_target", "1ns"}, {"tbt_target", "30ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-30 P1:4 P0:26", "30-49 D1 P2:4 P0:14"));
}

TEST(PolicyConserve, OfflineArrivalCutsNothing) {
  const Played played = Serve({Offline(0, 40, 1), Offline(5, 4, 1)}, {{"ttft_target", "1ns"}});
  EXPECT_THAT(played.steps, ElementsAre("0-40 P0:40", "40-44 P1:4"));
}

TEST(PolicyConserve, ACutStepLosesItsOwnTokensAndNoOthers) {
  // The first 20 tokens stay computed. Both arrivals want the step cut; it is, once.
  const Played played = Serve({Offline(0, 40, 1), Online(22, 4, 1), Online(23, 2, 1)},
                              {{"ttft_target", "10ns"}, {"max_num_batched_tokens", "20"}});
  EXPECT_THAT(played.steps,
              ElementsAre("0-20 P0:20", "20-25 P0:20 cut", "25-33 P1:4 P2:2 P0:2", "33-51 P0:18"));
}

TEST(PolicyConserve, ACutStepOfDecodesMakesNoToken) {
  // Twelve decodes take 12 ns. Of 24 to 36 three are over when request 12 comes.
  std::vector<RequestSpec> requests(12, Offline(0, 1, 3));
  requests.push_back(Online(27, 1, 1));
  const Played played = Serve(requests, {{"ttft_target", "9ns"}});
  const std::string all = " D0 D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11";
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:1 P1:1 P2:1 P3:1 P4:1 P5:1 P6:1 P7:1 P8:1 P9:1 P10:1 P11:1",
                          "12-24" + all, "24-27" + all + " cut", "27-35 D0 D1 D2 D3 D4 D5 D6 P12:1",
                          "35-40 D7 D8 D9 D10 D11"));
}

// ---- Parameters ----

TEST(PolicyConserve, UserCannotAskForNonsense) {
  Parameters parameters;
  std::string error;
  const PolicyInfo* const info = FindPolicy("conserve");
  const Settings settings = {{"offline_kv", "keep"}};
  EXPECT_FALSE(Parameters::Parse(info->parameters, settings, &parameters, &error));
  EXPECT_EQ(error,
            "parameter 'offline_kv' cannot be 'keep'; it takes one of checkpoint swap recompute");
}

}  // namespace
}  // namespace schedtwin
