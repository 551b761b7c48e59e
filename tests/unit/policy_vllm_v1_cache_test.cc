// vllm_v1 with a prefix cache, step by step, the same in every form of the plan: what is found,
// what an admission needs, what is evicted first. Source: vllm/v1/core/kv_cache_manager.py and
// block_pool.py (00024d31, b4622cf9). A step takes 1 ns for each token, and a KV block holds 4
// tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/texts.h"
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

// Contents.
constexpr std::uint64_t kSystem = 1, kUser = 2, kOther = 3, kAnswer = 4;

class PolicyVllmV1Cache : public testing::TestWithParam<Form> {
 protected:
  Script Engine(std::uint32_t budget, std::uint32_t blocks, std::vector<RequestSpec> requests,
                const Settings& settings = {}) {
    Script script =
        policy_testing::VllmV1Engine(GetParam(), budget, blocks, std::move(requests), settings);
    script.options.prefix_cache = true;
    return script;
  }

  Texts texts_;
};

// ---- What is found ----

TEST_P(PolicyVllmV1Cache, ASharedSystemPromptIsComputedOnce) {
  const Played played = Play(Engine(64, 64,
                                    {texts_.Request(0, {{kSystem, 10}, {kUser, 3}}, 1),
                                     texts_.Request(20, {{kSystem, 10}, {kOther, 7}}, 1),
                                     texts_.Request(40, {{kSystem, 10}, {kUser, 6}}, 1)}));
  // Two full blocks of the system prompt; the third block has the user's text in it, which the last
  // request shares with the first.
  EXPECT_THAT(played.steps, ElementsAre("0-13 P0:13", "20-29 P1:9", "40-44 P2:4"));
  EXPECT_EQ(played.requests[0].cached_tokens, 0u);
  EXPECT_EQ(played.requests[1].cached_tokens, 8u);
  EXPECT_EQ(played.requests[2].cached_tokens, 12u);
}

TEST_P(PolicyVllmV1Cache, WhatFollowsDifferentTextIsNotShared) {
  const Played played = Play(Engine(64, 64,
                                    {texts_.Request(0, {{kUser, 4}, {kSystem, 8}}, 1),
                                     texts_.Request(20, {{kOther, 4}, {kSystem, 8}}, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 P0:12", "20-32 P1:12"));
}

TEST_P(PolicyVllmV1Cache, AFullHitLeavesSomethingToCompute) {
  // Of 8 cached tokens the last block is computed again; of 9, one token.
  const Played played =
      Play(Engine(64, 64,
                  {texts_.Request(0, {{kSystem, 9}}, 1), texts_.Request(20, {{kSystem, 8}}, 1),
                   texts_.Request(40, {{kSystem, 9}}, 2)}));
  EXPECT_THAT(played.steps, ElementsAre("0-9 P0:9", "20-24 P1:4", "40-41 P2:1", "41-42 D2"));
}

TEST_P(PolicyVllmV1Cache, ATurnFindsTheAnswerOfTheTurnBefore) {
  // 12 tokens of prompt and 5 made; the KV of the last one was never computed: 4 full blocks.
  const std::vector<ContentSegment> next = {{kSystem, 8}, {kUser, 4}, {kAnswer, 5}, {kOther, 3}};
  const RequestSpec turn = texts_.Request(100, next, 1);
  const std::vector<ContentSegment> first = {{kSystem, 8}, {kUser, 4}};
  EXPECT_EQ(
      Play(Engine(64, 64, {texts_.Request(0, first, 5, kAnswer), turn})).requests[1].cached_tokens,
      16u);
  EXPECT_EQ(Play(Engine(64, 64, {texts_.Request(0, first, 5), turn})).requests[1].cached_tokens,
            12u)
      << "an output that has no name";
}

TEST_P(PolicyVllmV1Cache, TextWithoutANameIsNobodyElses) {
  const Played played = Play(Engine(64, 64, {Tokens(0, 12, 1), Tokens(20, 12, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 P0:12", "20-32 P1:12"));
}

TEST_P(PolicyVllmV1Cache, TenantsShareUnlessTheyAreIsolated) {
  std::vector<RequestSpec> requests;
  for (const std::uint32_t tenant : {0u, 1u, 0u}) {
    requests.push_back(
        texts_.Request(20 * static_cast<std::int64_t>(requests.size()), {{kSystem, 9}}, 1));
    requests.back().tenant = tenant;
  }
  Script script = Engine(64, 64, requests);
  EXPECT_THAT(Play(script).steps, ElementsAre("0-9 P0:9", "20-21 P1:1", "40-41 P2:1"));
  script.options.isolate_tenants = true;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-9 P0:9", "20-29 P1:9", "40-41 P2:1"));
}

TEST_P(PolicyVllmV1Cache, AdaptersNeverShare) {
  std::vector<RequestSpec> requests;
  for (const std::uint32_t adapter : {0u, 7u, 7u}) {
    requests.push_back(
        texts_.Request(20 * static_cast<std::int64_t>(requests.size()), {{kSystem, 9}}, 1));
    requests.back().adapter = adapter;
  }
  EXPECT_THAT(Play(Engine(64, 64, requests)).steps,
              ElementsAre("0-9 P0:9", "20-29 P1:9", "40-41 P2:1"));
}

// ---- When it is there ----

TEST_P(PolicyVllmV1Cache, AChunkIsSharedFromTheEndOfItsStep) {
  // Request 1 comes during the first chunk of request 0, and finds that chunk at its end.
  const Played played = Play(Engine(
      8, 64, {texts_.Request(0, {{kSystem, 12}}, 1), texts_.Request(1, {{kSystem, 12}}, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-16 P0:4 P1:4"));
  EXPECT_EQ(played.requests[1].cached_tokens, 8u);
}

TEST_P(PolicyVllmV1Cache, EqualPromptsOfOneStepAreBothComputed) {
  // No de-duplication: both keep their own blocks, 6 in all; the third shares those of the first.
  const Played played =
      Play(Engine(64, 64,
                  {texts_.Request(0, {{kSystem, 9}}, 3), texts_.Request(0, {{kSystem, 9}}, 3),
                   texts_.Request(1, {{kSystem, 9}}, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-18 P0:9 P1:9", "18-21 D0 D1 P2:1", "21-23 D0 D1"));
  EXPECT_EQ(played.records[1].free_blocks, 58u) << "two of its three blocks are shared";
}

// ---- What an admission needs ----

TEST_P(PolicyVllmV1Cache, BlocksInUseCostNothingToShare) {
  // 5 blocks: request 0 owns 4. Request 1 shares two of them and needs one.
  const Played played = Play(Engine(
      64, 5,
      {texts_.Request(0, {{kSystem, 13}}, 3), texts_.Request(1, {{kSystem, 8}, {kUser, 3}}, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-13 P0:13", "13-17 D0 P1:3", "17-18 D0"));
}

TEST_P(PolicyVllmV1Cache, CachedBlocksThatNobodyUsesAreAmongTheFree) {
  // At 20 all 5 blocks are free, 2 of them cached. Request 1 needs 5: these two and 3 more. Then
  // request 2 could share the two, but no block is left for the rest of it.
  const Played played = Play(Engine(
      64, 5,
      {texts_.Request(0, {{kSystem, 9}}, 1), texts_.Request(20, {{kSystem, 9}, {kUser, 8}}, 2),
       texts_.Request(20, {{kSystem, 9}, {kOther, 1}}, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-9 P0:9", "20-29 P1:9", "29-30 D1", "30-32 P2:2"));
}

TEST_P(PolicyVllmV1Cache, HitsAreNotChargedToTheBudget) {
  const Played played = Play(Engine(
      8, 64,
      {texts_.Request(0, {{kSystem, 8}}, 1), texts_.Request(20, {{kSystem, 8}, {kUser, 3}}, 1),
       texts_.Request(20, {{kSystem, 8}, {kOther, 5}}, 1)},
      {{"chunked_prefill", "false"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "20-28 P1:3 P2:5"));
}

// ---- What goes first ----

TEST_P(PolicyVllmV1Cache, TheLeastRecentlyUsedGoesFirstAndTailsBeforeHeads) {
  // 6 blocks. At 30 the free ones are, oldest first: two never used, then tail and head of the
  // system prompt, and those of the user's. Request 2 takes three: the tail has gone.
  const RequestSpec first = texts_.Request(0, {{kSystem, 8}}, 1);
  const RequestSpec second = texts_.Request(10, {{kUser, 8}}, 1);
  const RequestSpec taker = Tokens(30, 12, 1);
  EXPECT_EQ(Play(Engine(64, 6, {first, second, taker, texts_.Request(60, {{kSystem, 9}}, 1)}))
                .requests[3]
                .cached_tokens,
            4u);
  EXPECT_EQ(Play(Engine(64, 6, {first, second, taker, texts_.Request(60, {{kUser, 9}}, 1)}))
                .requests[3]
                .cached_tokens,
            8u);
  // Used again at 20, the system prompt is the younger one.
  const RequestSpec again = texts_.Request(20, {{kSystem, 9}}, 1);
  const RequestSpec more = Tokens(30, 12, 1);
  EXPECT_EQ(Play(Engine(64, 6, {first, second, again, more, texts_.Request(60, {{kSystem, 9}}, 1)}))
                .requests[4]
                .cached_tokens,
            8u);
}

TEST_P(PolicyVllmV1Cache, GrowthGoesBeforeWhatAnArrivalWouldFind) {
  // At 20 the oldest of the three free blocks is that of the system prompt, and request 3 would
  // find it. But the running request 2 takes a block first, and that is the one.
  const Played played = Play(Engine(64, 5,
                                    {texts_.Request(0, {{kSystem, 4}}, 1), Tokens(4, 8, 1),
                                     Tokens(12, 8, 3), texts_.Request(20, {{kSystem, 5}}, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:4", "4-12 P1:8", "12-20 P2:8", "20-26 D2 P3:5", "26-27 D2"));
}

// ---- Preemption ----

TEST_P(PolicyVllmV1Cache, WhoWasPreemptedFindsItsOwnBlocks) {
  // 6 blocks, all owned when both requests need one more: request 1 makes room, and comes back when
  // request 0 has ended. Only one of its blocks was handed out meanwhile.
  const Played played = Play(Engine(64, 6, {Tokens(0, 12, 6), Tokens(0, 12, 3)}));
  ASSERT_GT(played.requests[1].preemptions, 0u);
  EXPECT_EQ(played.requests[1].cached_tokens, 0u) << "of its first admission";
  const Played without = [&] {
    Script script = Engine(64, 6, {Tokens(0, 12, 6), Tokens(0, 12, 3)});
    script.options.prefix_cache = false;
    return Play(script);
  }();
  ASSERT_EQ(without.requests[1].preemptions, played.requests[1].preemptions);
  EXPECT_LT(played.requests[1].recomputed_tokens, without.requests[1].recomputed_tokens);
  EXPECT_LT(played.requests[1].end, without.requests[1].end);
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyVllmV1Cache, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

}  // namespace
}  // namespace schedtwin
