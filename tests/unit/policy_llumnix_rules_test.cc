// llumnix's arithmetic: freeness for migration and for dispatch, and the pairing of sources with
// targets. Source: the form of the artifact (policies/llumnix/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/llumnix/freeness.h"
#include "policies/llumnix/pairing.h"
#include "policies/registry.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr FreenessRules kRules = {
    .defragmentation = true, .watermark_permille = 10, .priority_target_blocks = 100};

/// 1000 blocks, 10 of them below the watermark: 390 to spare.
constexpr InstanceState kBusy = {
    .total_blocks = 1000, .free_blocks = 400, .running = 5, .waiting = 2, .waiting_blocks = 90};

TEST(PolicyLlumnixFreeness, ForMigrationCountsAllWhoWaitAsOne) {
  EXPECT_EQ(kRules.ForMigration(kBusy).value(), 300.0 / 6);
  InstanceState nobody_waits = kBusy;
  nobody_waits.waiting = nobody_waits.waiting_blocks = 0;
  EXPECT_EQ(kRules.ForMigration(nobody_waits).value(), 390.0 / 5);
}

TEST(PolicyLlumnixFreeness, WithoutDefragmentationOnlyTheRunningCount) {
  FreenessRules rules = kRules;
  rules.defragmentation = false;
  InstanceState at = kBusy;
  at.priority_requests = 1;
  EXPECT_EQ(rules.ForMigration(at).value(), 390.0 / 5);
}

TEST(PolicyLlumnixFreeness, IsNegativeWhereMoreIsAskedForThanThereIs) {
  InstanceState at = kBusy;
  at.waiting_blocks = 990;
  EXPECT_EQ(kRules.ForMigration(at).value(), -100.0);
}

TEST(PolicyLlumnixFreeness, HighPriorityTakesHeadroom) {
  InstanceState at = kBusy;
  at.priority_requests = 1;
  EXPECT_EQ(kRules.ForMigration(at).value(), (300.0 - 900) / 6);
}

TEST(PolicyLlumnixFreeness, DrainingIsLeastFree) {
  InstanceState at = kBusy;
  at.draining = true;
  EXPECT_EQ(kRules.ForMigration(at).value(), -1000.0);
}

TEST(PolicyLlumnixFreeness, IsInfiniteWithoutRequests) {
  const InstanceState empty = {.total_blocks = 1000, .free_blocks = 1000};
  EXPECT_TRUE(kRules.ForMigration(empty).infinite());
  EXPECT_TRUE(kRules.ForDispatch(empty, false) > kRules.ForDispatch(kBusy, false));
  EXPECT_FALSE(kRules.ForDispatch(empty, false) > kRules.ForDispatch(empty, true));
}

TEST(PolicyLlumnixFreeness, ForDispatchCountsEachWhoWaits) {
  EXPECT_EQ(kRules.ForDispatch(kBusy, false).value(), 300.0 / 7);
}

TEST(PolicyLlumnixFreeness, DispatchPacksHighPriorityTogether) {
  InstanceState with = kBusy;
  with.priority_requests = 2;
  EXPECT_EQ(kRules.ForDispatch(with, true).value(), 300.0 / 7);
  EXPECT_EQ(kRules.ForDispatch(with, false).value(), (300.0 - 900) / 7);
  EXPECT_EQ(kRules.ForDispatch(kBusy, true).value(), (300.0 - 900) / 7);
}

TEST(PolicyLlumnixFreeness, FractionsAreComparedExactly) {
  EXPECT_FALSE(Freeness(1, 3) > Freeness(2, 6));
  EXPECT_FALSE(Freeness(2, 6) > Freeness(1, 3));
  EXPECT_TRUE(Freeness(1'000'001, 3'000'000) > Freeness(1, 3));
  EXPECT_TRUE(Freeness(-1, 3) > Freeness(-1, 2));
}

// ---- Pairing ----

using Candidate = Pairing::Candidate;

std::vector<std::pair<std::uint32_t, std::uint32_t>> Pairs(
    Pairing pairing, const std::vector<Candidate>& candidates) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const auto& [from, to] : pairing.Find(candidates)) pairs.emplace_back(from.value, to.value);
  return pairs;
}

Candidate Of(std::uint32_t device, std::int64_t blocks, std::int64_t requests) {
  return {.device = {device}, .freeness = {blocks, requests}};
}

TEST(PolicyLlumnixPairing, LeastFreeWithFreest) {
  EXPECT_THAT(Pairs(Pairing(3, true), {Of(0, 20, 2), Of(1, 2, 2), Of(2, 4, 1), Of(3, -9, 2)}),
              ElementsAre(std::pair(3, 0), std::pair(1, 2)));
}

TEST(PolicyLlumnixPairing, EqualsByDevice) {
  EXPECT_THAT(Pairs(Pairing(3, true), {Of(0, 10, 2), Of(1, 2, 2), Of(2, 5, 1), Of(3, 1, 1)}),
              ElementsAre(std::pair(1, 0), std::pair(3, 2)));
}

TEST(PolicyLlumnixPairing, AtTheThresholdItNeitherGivesNorTakes) {
  EXPECT_THAT(Pairs(Pairing(3, true), {Of(0, 6, 2), Of(1, 2, 2)}), IsEmpty());
  EXPECT_THAT(Pairs(Pairing(3, true), {Of(0, 6, 2), Of(1, 7, 2)}), IsEmpty());
  EXPECT_THAT(Pairs(Pairing(3, true), {Of(0, 5, 2), Of(1, 7, 2)}), ElementsAre(std::pair(0, 1)));
}

TEST(PolicyLlumnixPairing, PreemptedRequestsMakeASource) {
  std::vector<Candidate> candidates = {Of(0, 90, 2), Of(1, 80, 2)};
  EXPECT_THAT(Pairs(Pairing(3, true), candidates), IsEmpty());
  candidates[0].killed = true;
  EXPECT_THAT(Pairs(Pairing(3, true), candidates), ElementsAre(std::pair(0, 1)));
}

TEST(PolicyLlumnixPairing, WhoTakesNothingIsNoTarget) {
  std::vector<Candidate> candidates = {Of(0, 90, 2), Of(1, 2, 2)};
  candidates[0].takes = false;
  EXPECT_THAT(Pairs(Pairing(3, true), candidates), IsEmpty());
}

TEST(PolicyLlumnixPairing, WithoutDefragmentationTheGapMustShrinkAndNotTurn) {
  const Pairing pairing(3, false);
  // 2 and 10 become 4 (of one request) and 20/3: the gap of 8 shrinks to 8/3.
  EXPECT_THAT(Pairs(pairing, {Of(0, 4, 2), Of(1, 20, 2)}), ElementsAre(std::pair(0, 1)));
  // 2.5 and 4 would become 5 and 8/3, below the threshold.
  EXPECT_THAT(Pairs(pairing, {Of(0, 5, 2), Of(1, 8, 2)}), IsEmpty());
  // 2.5 and 5 would become 5 and 20/5: turned round.
  EXPECT_THAT(Pairs(pairing, {Of(0, 5, 2), Of(1, 20, 4)}), IsEmpty());
  // The only one of a source that has blocks leaves it infinitely free.
  EXPECT_THAT(Pairs(pairing, {Of(0, 2, 1), Of(1, 40, 2)}), IsEmpty());
}

TEST(PolicyLlumnixPairing, AnEmptyTargetIsAlwaysGood) {
  EXPECT_THAT(Pairs(Pairing(3, false), {Of(0, 2, 1), Of(1, 40, 0)}), ElementsAre(std::pair(0, 1)));
}

// ---- Parameters ----

TEST(PolicyLlumnixParameters, LimitsOfStagesGoWithMultiOnly) {
  const PolicyInfo& info = *FindPolicy("llumnix");
  for (const auto& [stages, limit, good] :
       {std::tuple{"two", "16", true}, {"two", "4", false}, {"multi", "4", true}}) {
    Parameters parameters;
    std::string error;
    ASSERT_TRUE(Parameters::Parse(
        info.parameters, {{{"stages", stages}, {"last_stage_blocks", limit}}}, &parameters, &error))
        << error;
    EXPECT_EQ(info.check(parameters).empty(), good) << stages << " " << limit;
  }
}

TEST(PolicyLlumnixParameters, ThresholdsOfScalingDoNotCross) {
  const PolicyInfo& info = *FindPolicy("llumnix");
  for (const auto& [down, good] : {std::pair{"3.5", false}, {"4", true}}) {
    Parameters parameters;
    std::string error;
    ASSERT_TRUE(
        Parameters::Parse(info.parameters, {{{"scale_down_threshold", down}}}, &parameters, &error))
        << error;
    EXPECT_EQ(info.check(parameters).empty(), good) << down;
  }
}

}  // namespace
}  // namespace schedtwin
