// Dynamo's two routers against their formulas, written out, on devices and requests as the test
// says; what a router remembers of prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policies/parts/active_prompts.h"
#include "policies/parts/dynamo_kv.h"
#include "policies/parts/dynamo_kv_2025.h"
#include "tests/support/fake_context.h"

namespace schedtwin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

constexpr std::uint32_t kBlock = 16;

struct Fleet : FakeContext {
  explicit Fleet(std::uint32_t devices, std::uint64_t seed = 1) : FakeContext(devices, seed) {
    for (DeviceView& device : views) {
      device.block_tokens = kBlock;
      device.total_blocks = 100;
    }
  }
  void Prompt(std::uint32_t request, std::uint32_t tokens) { hot[request].prompt_tokens = tokens; }
  /// Its prompt is these blocks and nothing else, wherever it goes.
  void Prompt(std::uint32_t request, const std::vector<std::uint64_t>& blocks) {
    Prompt(request, static_cast<std::uint32_t>(blocks.size()) * kBlock);
    for (FakeCache& cache : caches) cache.prompt_blocks[request] = blocks;
  }
};

void Send(Router* router, const Fleet& fleet, std::uint32_t request, std::uint32_t device) {
  router->Pick(fleet, {request});
  router->OnSent(fleet, {request}, {device});
}

/// What it would cost to send request `request` to each device.
std::vector<double> Costs(DynamoKv* router, const Fleet& fleet, std::uint32_t request) {
  router->Pick(fleet, {request});
  std::vector<double> costs;
  for (const DeviceView& device : fleet.views) {
    costs.push_back(router->Cost(fleet, {request}, device));
  }
  return costs;
}

// ---- What is remembered of prompts ----

TEST(ActivePrompts, CountsABlockThatIsSharedOnce) {
  ActivePrompts active;
  const std::vector<std::uint64_t> one = {1, 2, 3}, other = {1, 2, 4, 5};
  active.Add({1}, 48, one, 3);
  EXPECT_EQ(active.blocks(), 3u);
  EXPECT_EQ(active.AdditionalBlocks(other, 4), 2u);
  active.Add({2}, 32, other, 4);
  EXPECT_EQ(active.blocks(), 5u);
  active.Remove({1}, one, 3);
  EXPECT_EQ(active.blocks(), 4u) << "what both had stays";
  EXPECT_EQ(active.AdditionalBlocks(one, 3), 1u);
  active.Remove({2}, other, 4);
  EXPECT_EQ(active.blocks(), 0u);
}

TEST(ActivePrompts, WithoutNamesEachHasItsOwn) {
  ActivePrompts active;
  active.Add({1}, 50, {}, 3);
  active.Add({2}, 50, {}, 3);
  EXPECT_EQ(active.blocks(), 6u);
  EXPECT_EQ(active.AdditionalBlocks({}, 3), 3u);
  active.Remove({2}, {}, 3);
  EXPECT_EQ(active.blocks(), 3u);
}

TEST(ActivePrompts, PromptTokensGoWithTheFirstTokenOrTheEnd) {
  ActivePrompts active;
  active.Add({1}, 50, {}, 3);
  active.Add({2}, 20, {}, 2);
  EXPECT_EQ(active.prefill_tokens(), 70u);
  active.Prefilled({1});
  active.Prefilled({1});  // computed again after a preemption
  EXPECT_EQ(active.prefill_tokens(), 20u);
  EXPECT_EQ(active.blocks(), 5u) << "blocks stay until the end";
  active.Remove({2}, {}, 2);
  EXPECT_EQ(active.prefill_tokens(), 0u);
  active.Remove({1}, {}, 3);
  EXPECT_EQ(active.requests(), 0u);
}

// ---- 2026 ----

TEST(DynamoKv, CostIsPromptBlocksAndKvBlocks) {
  Fleet fleet(2);
  DynamoKv router;
  fleet.Prompt(0, 160);
  fleet.Prompt(1, 88);
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(5.5 + 5, 5.5 + 5));
  Send(&router, fleet, 0, 0);
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(10 + 5.5 + 10 + 5, 10.5));
  router.OnPrefilled(fleet, {0}, {0});
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(5.5 + 10 + 5, 10.5));
  router.OnEnd(fleet, {0}, {0});
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(10.5, 10.5));
}

TEST(DynamoKv, CreditsWhatIsCachedAndNoMoreThanThePromptsThere) {
  Fleet fleet(2);
  fleet.Prompt(1, 160);
  fleet.caches[1].hit_tokens[1] = 96;
  DynamoKv router;
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(20, 4 + 10));
  DynamoKv eager({.overlap_score_credit = 4});
  EXPECT_THAT(Costs(&eager, fleet, 1), ElementsAre(20, 0 + 10)) << "not below zero";
}

TEST(DynamoKv, PromptThatIsCachedWeighsAsWhatIsLeftOfIt) {
  Fleet fleet(1);
  fleet.Prompt(0, 160);
  fleet.Prompt(1, 16);
  fleet.caches[0].hit_tokens[0] = 144;
  DynamoKv router;
  Send(&router, fleet, 0, 0);
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(1 + 1 + 10 + 1));
}

TEST(DynamoKv, SharedBlocksOfRequestsThatRunAddNothing) {
  Fleet fleet(2);
  fleet.Prompt(0, {1, 2, 3});
  fleet.Prompt(1, {1, 2, 4});
  DynamoKv router;
  Send(&router, fleet, 0, 0);
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(3 + 3 + 3 + 1, 3 + 3));
}

TEST(DynamoKv, WeighsAsItIsTold) {
  Fleet fleet(1);
  fleet.Prompt(0, 32);
  fleet.Prompt(1, 32);
  DynamoKv router({.prefill_load_scale = 0.5, .decode_active_request_weight = 7});
  Send(&router, fleet, 0, 0);
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(0.5 * 4 + 4 + 7));
}

TEST(DynamoKv, CreditDecaysWithPromptsAboveTheLeast) {
  Fleet fleet(2);
  fleet.Prompt(0, 160);
  fleet.Prompt(1, 80);
  fleet.caches[0].hit_tokens[1] = 64;
  DynamoKv router({.overlap_score_credit_decay = 0.5});
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(1 + 5, 10)) << "at the least: full credit";
  Send(&router, fleet, 0, 0);
  // 10 blocks above the least are twice this prompt: the credit is 4 / (1 + 0.5 * 2).
  EXPECT_THAT(Costs(&router, fleet, 1), ElementsAre(15 - 2 + 15, 10));
}

TEST(DynamoKv, GoesWhereItIsCheapest) {
  Fleet fleet(3);
  for (std::uint32_t i = 0; i < 4; ++i) fleet.Prompt(i, 64);
  DynamoKv router;
  Send(&router, fleet, 0, 0);
  Send(&router, fleet, 1, 2);
  EXPECT_EQ(router.Pick(fleet, {2}).value, 1u) << "8 + 8 against 4 + 4";
  fleet.caches[2].hit_tokens[2] = 48;
  EXPECT_EQ(router.Pick(fleet, {2}).value, 1u) << "5 + 8 against 8";
  router.OnPrefilled(fleet, {1}, {2});
  EXPECT_EQ(router.Pick(fleet, {2}).value, 1u) << "1 + 8 against 8";
  router.OnEnd(fleet, {1}, {2});
  EXPECT_EQ(router.Pick(fleet, {2}).value, 2u) << "1 + 4 against 8";
}

TEST(DynamoKv, EqualCostsAreDrawnEvenly) {
  Fleet fleet(4);
  DynamoKv router;
  std::map<std::uint32_t, int> picked;
  for (std::uint32_t i = 0; i < 4000; ++i) ++picked[router.Pick(fleet, {i}).value];
  for (std::uint32_t device = 0; device < 4; ++device) {
    EXPECT_THAT(picked[device], AllOf(Ge(900), Le(1100))) << device;
  }
}

TEST(DynamoKv, TemperatureSpreadsOverCostsScaledToOne) {
  Fleet fleet(3);
  for (std::uint32_t i = 0; i < 4096; ++i) fleet.Prompt(i, 16);
  fleet.Prompt(4095, 160);
  fleet.Prompt(4094, 80);
  DynamoKv router({.temperature = 0.5});
  Send(&router, fleet, 4095, 1);
  Send(&router, fleet, 4094, 2);
  std::map<std::uint32_t, int> picked;
  for (std::uint32_t i = 0; i < 4000; ++i) ++picked[router.Pick(fleet, {i}).value];
  // Costs 2, 22 and 12: weights 1, e^-2 and e^-1.
  const double sum = 1 + std::exp(-2.0) + std::exp(-1.0);
  EXPECT_NEAR(picked[0], 4000 / sum, 100);
  EXPECT_NEAR(picked[1], 4000 * std::exp(-2.0) / sum, 100);
  EXPECT_NEAR(picked[2], 4000 * std::exp(-1.0) / sum, 100);
}

// ---- 2025 ----

DeviceReport Report(std::uint32_t device, std::uint32_t waiting, std::uint32_t used_blocks) {
  DeviceReport report;
  report.id = {device};
  report.waiting = waiting;
  report.total_blocks = 100;
  report.free_blocks = 100 - used_blocks;
  return report;
}

std::set<std::uint32_t> PickedOf(Router* router, const Fleet& fleet) {
  std::set<std::uint32_t> picked;
  for (std::uint32_t i = 0; i < 100; ++i) picked.insert(router->Pick(fleet, {i}).value);
  return picked;
}

TEST(DynamoKv2025, WeighsOverlapUsageAndWaiting) {
  Fleet fleet(2);
  DynamoKv2025 router;
  router.OnReport(Report(0, 2, 50));  // -0.5 - 2/4
  router.OnReport(Report(1, 4, 10));  // -0.1 - 4/4
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(0));
  for (std::uint32_t i = 0; i < 100; ++i) {
    fleet.Prompt(i, 160);
    fleet.caches[1].hit_tokens[i] = 16;  // + 2 * 0.1
  }
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(1)) << "-0.9 against -1";
}

TEST(DynamoKv2025, ServesWhereNobodyWaits) {
  Fleet fleet(2);
  DynamoKv2025 router;
  router.OnReport(Report(0, 0, 20));
  router.OnReport(Report(1, 0, 10));
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(1)) << "the source gives up here";
}

TEST(DynamoKv2025, EqualScoresAreDrawn) {
  Fleet fleet(3);
  DynamoKv2025 router;
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(0, 1, 2));
  router.OnReport(Report(1, 0, 1));
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(0, 2));
}

TEST(DynamoKv2025, CountsWhatItSendsUntilTheNextReport) {
  Fleet fleet(2);
  for (std::uint32_t i = 0; i < 100; ++i) fleet.Prompt(i, 160);
  DynamoKv2025 optimistic(true), plain(false);
  for (DynamoKv2025* router : {&optimistic, &plain}) {
    router->OnReport(Report(0, 0, 0));
    router->OnReport(Report(1, 0, 5));
    ASSERT_EQ(router->Pick(fleet, {0}).value, 0u);
    router->OnSent(fleet, {0}, {0});
  }
  EXPECT_THAT(PickedOf(&optimistic, fleet), ElementsAre(1)) << "-0.1 - 1/1 against -0.05";
  EXPECT_THAT(PickedOf(&plain, fleet), ElementsAre(0));
  optimistic.OnReport(Report(0, 0, 4));
  EXPECT_THAT(PickedOf(&optimistic, fleet), ElementsAre(0)) << "overwritten";
}

TEST(DynamoKv2025, CachedBlocksOfWhatItSendsAreNotNew) {
  Fleet fleet(2);
  fleet.Prompt(0, 160);
  fleet.caches[0].hit_tokens[0] = 144;
  DynamoKv2025 router;
  router.OnReport(Report(0, 0, 0));
  router.OnReport(Report(1, 1, 2));  // -0.02 - 1/1
  router.OnSent(fleet, {0}, {0});    // now -0.01 - 1/1
  EXPECT_THAT(PickedOf(&router, fleet), ElementsAre(0));
}

}  // namespace
}  // namespace schedtwin
