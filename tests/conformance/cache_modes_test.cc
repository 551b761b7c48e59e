// With a prefix cache, too, it does not matter how a policy asks for its decodes: what running
// requests take, what arrivals find and what is evicted is the same in every form. On bursts of
// chats that share their beginnings and go on, with blocks of 4 tokens, ample and scarce.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "sim/simulate.h"
#include "tests/support/texts.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::In;
using policy_testing::kForms;
using policy_testing::Settings;

#ifdef SCHEDTWIN_HARDENED
constexpr std::uint32_t kRequests = 250;
#else
constexpr std::uint32_t kRequests = 2000;
#endif

/// Turns of chats: one of three system prompts, then what was said before, then something new.
std::vector<RequestSpec> Chats(std::uint64_t seed, Texts* texts) {
  Rng rng(seed, "chats"), priorities(seed, "priorities");
  struct Chat {
    std::vector<ContentSegment> said;
    std::uint32_t tokens;
  };
  std::vector<Chat> chats;
  std::vector<RequestSpec> requests;
  std::uint64_t next_content = 10;
  std::int64_t at_ms = 0;
  while (requests.size() < kRequests) {
    for (std::uint32_t burst = 1 + rng.Below(4); burst > 0; --burst) {
      if (chats.empty() || rng.Below(3) == 0) {
        const std::uint32_t tokens = 3 + rng.Below(9);
        chats.push_back({{{1 + rng.Below(3), tokens}}, tokens});
      }
      const std::uint32_t at = rng.Below(static_cast<std::uint32_t>(chats.size()));
      Chat& chat = chats[at];
      const std::uint32_t asks = 1 + rng.Below(6), answers = 1 + rng.Below(12);
      chat.said.push_back({next_content++, asks});
      const std::uint64_t answer = rng.Below(4) == 0 ? 0 : next_content++;
      requests.push_back(texts->Request(at_ms * 1'000'000, chat.said, answers, answer));
      requests.back().priority = static_cast<std::int32_t>(priorities.Below(3));
      chat.said.push_back({answer, answers});
      chat.tokens += asks + answers;
      if (chat.tokens > 44) chats.erase(chats.begin() + at);
    }
    at_ms += rng.Below(90);
  }
  return requests;
}

struct Outcome {
  RunSummary summary;
  std::uint64_t cached_tokens = 0;
};

Outcome RunOn(const std::vector<RequestSpec>& requests, const std::string& name,
              const Settings& settings, std::uint32_t blocks, bool cache) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Millis(2), Duration::Millis(1));
  SimSetup setup;
  setup.model = &model;
  setup.device.block_tokens = 4;
  setup.device.total_blocks = blocks;
  setup.device.max_model_len_tokens = 64;
  setup.device.queue_depth = policy_testing::MinQueueDepth(name, settings);
  setup.world.prefix_cache = cache;
  const std::unique_ptr<Policy> policy = policy_testing::MakePolicy(name, settings);
  policy_testing::ScriptSource source(requests);
  RequestSource* const sources[] = {&source};
  policy_testing::KeepAll kept;
  Outcome outcome;
  outcome.summary = Simulate(setup, policy.get(), sources, &kept, {});
  for (const RequestRecord& request : kept.requests) outcome.cached_tokens += request.cached_tokens;
  return outcome;
}

struct Variant {
  const char* name;
  Settings settings;
  std::uint32_t blocks;
  const char* policy = "vllm_v1";

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

class CacheModes : public testing::TestWithParam<Variant> {};

TEST_P(CacheModes, OneOutcome) {
  const Variant& variant = GetParam();
  const bool scarce = variant.blocks < 100;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Texts texts;
    const std::vector<RequestSpec> requests = Chats(seed, &texts);
    const Outcome first =
        RunOn(requests, variant.policy, In(kForms[0], variant.settings), variant.blocks, true);
    ASSERT_EQ(first.summary.result, RunResult::kFinished) << first.summary.detail;
    EXPECT_GT(first.cached_tokens, 2 * kRequests);
    EXPECT_EQ(first.summary.preemptions > 0, scarce);
    for (const Form& form : kForms) {
      SCOPED_TRACE(form.Name() + ", seed " + std::to_string(seed));
      const Outcome other =
          RunOn(requests, variant.policy, In(form, variant.settings), variant.blocks, true);
      EXPECT_EQ(other.summary.outcome_digest, first.summary.outcome_digest);
      EXPECT_EQ(other.summary.steps, first.summary.steps);
      EXPECT_EQ(other.summary.preemptions, first.summary.preemptions);
      EXPECT_EQ(other.cached_tokens, first.cached_tokens);
    }
    const Outcome without =
        RunOn(requests, variant.policy, variant.settings, variant.blocks, false);
    EXPECT_EQ(without.cached_tokens, 0u);
    EXPECT_NE(without.summary.outcome_digest, first.summary.outcome_digest);
  }
}

const Variant kVariants[] = {
    {"Ample", {}, 4096},
    {"Scarce", {}, 20},
    {"SmallBudget", {{"max_num_batched_tokens", "24"}}, 20},
    {"FirstChunkFits", {{"max_num_batched_tokens", "24"}, {"full_sequence_must_fit", "false"}}, 20},
    {"WholePrompts", {{"chunked_prefill", "false"}, {"max_num_batched_tokens", "512"}}, 20},
    {"Priority", {{"scheduling_policy", "priority"}}, 20},
    {"LongPrefills",
     {{"long_prefill_token_threshold", "5"}, {"full_sequence_must_fit", "false"}},
     20},
    {"Async", {{"async_scheduling", "true"}}, 20},
    {"Watermark", {{"watermark", "0.1"}}, 20},
};

const Variant kComposed[] = {
    {"Ample", {}, 4096, "composed"},
    {"Scarce", {}, 20, "composed"},
    {"SmallBudget", {{"max_num_batched_tokens", "24"}}, 20, "composed"},
    {"FewestGenerated", {{"victim_order", "fewest_generated"}}, 20, "composed"},
    {"Static", {{"batcher", "static"}, {"max_num_seqs", "8"}}, 20, "composed"},
    {"Vtc", {}, 20, "vtc"},
};

std::string VariantName(const testing::TestParamInfo<Variant>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(VllmV1, CacheModes, testing::ValuesIn(kVariants), VariantName);
INSTANTIATE_TEST_SUITE_P(Composed, CacheModes, testing::ValuesIn(kComposed), VariantName);

}  // namespace
}  // namespace schedtwin
