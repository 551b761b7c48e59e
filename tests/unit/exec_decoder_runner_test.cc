// What a model says must not depend on how it is scheduled: batched or alone, in chunks or whole,
// listed or standing, preempted and computed again. The plain loops give the same bits for a row
// whatever else is in the step, so the tokens must be the same, every one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/texts.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/kernel_testing.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Settings;

struct Said {
  MadeByRequest tokens;
  std::map<std::uint32_t, std::uint32_t> cached_tokens;  ///< by request
  std::uint64_t preemptions = 0;
  std::uint64_t steps = 0;
};

Said Say(const std::string& name, const Settings& settings, std::uint32_t blocks,
         const std::vector<RequestSpec>& requests, bool prefix_cache = false) {
  Said said;
  TwoWorlds run;
  run.device.total_blocks = blocks;
  run.options.prefix_cache = prefix_cache;
  const auto policy = [&] { return policy_testing::MakePolicy(name, settings); };
  const RunSummary summary = run.Run(TestWorld::kCpu, policy, requests);
  said.tokens = run.tokens.made();
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], requests.size());
  for (const RequestRecord& record : run.recorder.requests) {
    said.cached_tokens[record.id.value] = record.cached_tokens;
  }
  said.preemptions = summary.preemptions;
  said.steps = summary.steps;
  return said;
}

std::vector<RequestSpec> Requests() {
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < 12; ++i) {
    requests.push_back(TokenRequest(0, 10 + i * 13 % 50, 3 + i * 7 % 40));
  }
  return requests;
}

TEST(DecoderRunner, SaysTheSameHoweverItIsScheduled) {
  const std::vector<RequestSpec> requests = Requests();
  const Said alone = Say("fifo", {}, 64, requests);
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(alone.tokens.at(i).size(), requests[i].output_tokens) << i;
  }
  const struct {
    const char* policy;
    Settings settings;
    std::uint32_t blocks;
    bool preempts;
  } cases[] = {
      {"vllm_v1", {}, 64, false},
      {"vllm_v1", {{"standing_set", "false"}}, 64, false},
      {"vllm_v1", {{"plan_steps", "1"}}, 64, false},
      {"vllm_v1", {{"max_num_batched_tokens", "16"}}, 64, false},
      {"vllm_v1", {}, 14, true},
      {"vllm_v1", {{"standing_set", "false"}, {"max_num_batched_tokens", "16"}}, 14, true},
      {"static_batch", {{"max_batch_size", "5"}}, 64, false},
      {"static_batch", {{"max_batch_size", "5"}, {"standing_set", "false"}}, 64, false},
  };
  for (const auto& [policy, settings, blocks, preempts] : cases) {
    const Said said = Say(policy, settings, blocks, requests);
    std::string what = std::string(policy) + " on " + std::to_string(blocks) + " blocks";
    for (const auto& [parameter, value] : settings) what += " " + parameter + "=" + value;
    EXPECT_EQ(said.preemptions > 0, preempts) << what;
    EXPECT_EQ(said.tokens, alone.tokens) << what;
  }
}

// What two members and a listed request make, where a step is cut at every layer before it is run.
std::vector<std::vector<std::int32_t>> SayWithCuts(bool cut) {
  constexpr std::uint32_t kPrompt = 20;
  DecoderRunner runner(kTinyDecoder, TinyDecoderInfo(), 1, LinearBackendKind::kPlain);
  EXPECT_TRUE(runner.Load({}));
  const auto tell = [&](CommandKind kind, std::uint32_t request, std::uint32_t tokens,
                        std::uint32_t context_tokens) {
    runner.Take({.kind = kind,
                 .samples = true,
                 .request = request,
                 .tokens = tokens,
                 .context_tokens = context_tokens});
  };
  for (std::uint32_t request = 0; request < 3; ++request) {
    for (std::uint32_t i = 0; i < 3; ++i) tell(CommandKind::kBlock, request, request * 3 + i, i);
    tell(CommandKind::kEntry, request, kPrompt, 0);
  }
  EXPECT_TRUE(runner.RunStep({}, {}));
  for (std::uint32_t member = 0; member < 2; ++member) tell(CommandKind::kJoin, member, 0, kPrompt);
  const DeviceCommand standing = {.kind = CommandKind::kStep, .standing = true};
  for (std::uint32_t context = kPrompt; context < kPrompt + 16; ++context) {
    for (int layer = 0; cut && layer <= static_cast<int>(kTinyDecoder.layers); ++layer) {
      tell(CommandKind::kEntry, 2, 1, context);
      EXPECT_FALSE(runner.RunStep(standing, StopAt{layer}.check()));
      if (layer == 1) continue;  // its set stays
      for (const std::uint32_t member : {0u, 1u}) tell(CommandKind::kLeave, member, 0, context);
      for (const std::uint32_t member : {1u, 0u}) tell(CommandKind::kJoin, member, 0, context);
    }
    tell(CommandKind::kEntry, 2, 1, context);
    EXPECT_TRUE(runner.RunStep(standing, {}));
  }
  return {runner.made(0), runner.made(1), runner.made(2)};
}

TEST(DecoderRunner, AStepThatIsCutIsAsIfItHadNotBeen) {
  const auto uncut = SayWithCuts(false);
  EXPECT_EQ(uncut[0].size(), 17u);
  EXPECT_EQ(SayWithCuts(true), uncut);
}

TEST(DecoderRunner, SaysDifferentThingsToDifferentRequests) {
  const Said said = Say("fifo", {}, 64, {TokenRequest(0, 20, 30), TokenRequest(0, 20, 30)});
  EXPECT_NE(said.tokens.at(0), said.tokens.at(1));
  const auto& tokens = said.tokens.at(0);
  EXPECT_GT(std::set<std::int32_t>(tokens.begin(), tokens.end()).size(), 3u)
      << "a test of equal tokens would prove nothing if all were one";
}

// KV that somebody else has computed is as good as one's own: the same text is the same tokens.
TEST(DecoderRunner, SaysTheSameWithBlocksThatOthersHaveComputed) {
  constexpr std::uint64_t kSystem = 1, kUser = 2, kAnswer = 3, kOther = 4;
  Texts texts;
  const std::vector<RequestSpec> requests = {
      texts.Request(0, {{kSystem, 40}, {kUser, 9}}, 20, kAnswer),
      texts.Request(0, {{kSystem, 40}, {kOther, 5}}, 15),
      texts.Request(0, {{kSystem, 40}, {kUser, 9}, {kAnswer, 20}, {kOther, 4}}, 12),
      texts.Request(0, {{kSystem, 33}}, 9),
  };
  const Said alone = Say("fifo", {}, 64, requests);
  // One after the other, so that each finds what those before it have left.
  for (const char* standing : {"true", "false"}) {
    const Said said = Say("vllm_v1", {{"max_num_seqs", "1"}, {"standing_set", standing}}, 64,
                          requests, /*prefix_cache=*/true);
    EXPECT_THAT(said.cached_tokens,
                testing::ElementsAre(testing::Pair(0, 0), testing::Pair(1, 32),
                                     testing::Pair(2, 64), testing::Pair(3, 32)));
    EXPECT_EQ(said.tokens, alone.tokens);
  }
  // Side by side and short of blocks, so that some are preempted and find their own again.
  const Said tight = Say("vllm_v1", {}, 9, requests, /*prefix_cache=*/true);
  EXPECT_EQ(tight.tokens, alone.tokens);
}

}  // namespace
}  // namespace schedtwin
