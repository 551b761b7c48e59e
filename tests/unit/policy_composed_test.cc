// composed: what its parts do together, step by step; every combination of them serves; a batcher
// is one short file. A step takes 1 ns for each token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
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

class PolicyComposed : public testing::TestWithParam<Form> {
 protected:
  Script Decoder(const Settings& settings, std::vector<RequestSpec> requests,
                 std::uint32_t blocks = 64) {
    Script script{.policy = "composed",
                  .settings = policy_testing::In(GetParam(), settings),
                  .requests = std::move(requests)};
    script.device.total_blocks = blocks;
    script.device.block_tokens = 4;
    script.device.max_model_len_tokens = 32;
    return script;
  }
};

EndReason ReasonOf(const Played& played, std::uint32_t id) { return played.requests[id].reason; }

TEST_P(PolicyComposed, StaticBatchRunsToCompletion) {
  const Played played = Play(Decoder({{"batcher", "static"}, {"max_num_seqs", "2"}},
                                     {Tokens(0, 2, 2), Tokens(0, 2, 4), Tokens(1, 2, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-4 P0:2 P1:2", "4-6 D0 D1", "6-7 D1", "7-8 D1", "8-10 P2:2"));
}

TEST_P(PolicyComposed, ContinuousBatchIsJoinedAtTheNextStep) {
  const Played played =
      Play(Decoder({{"max_num_seqs", "2"}}, {Tokens(0, 2, 2), Tokens(0, 2, 4), Tokens(1, 2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-4 P0:2 P1:2", "4-6 D0 D1", "6-9 D1 P2:2", "9-10 D1"));
}

TEST_P(PolicyComposed, PromptsTakeWhatDecodesLeaveOfTheBudget) {
  const Played played = Play(Decoder({{"max_num_batched_tokens", "4"}},
                                     {Tokens(0, 3, 4), Tokens(1, 6, 1), Tokens(1, 1, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-3 P0:3", "3-7 D0 P1:3", "7-11 D0 P1:3", "11-13 D0 P2:1"));
}

TEST_P(PolicyComposed, StepIsNoLargerThanTheDeviceTakes) {
  for (const char* batcher : {"continuous", "static"}) {
    Script script = Decoder({{"batcher", batcher}}, {Tokens(0, 7, 2), Tokens(0, 2, 1)});
    script.device.max_step_tokens = 4;
    const Played played = Play(script);
    ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
    EXPECT_THAT(std::vector<std::string>(played.steps.begin(), played.steps.begin() + 2),
                ElementsAre("0-4 P0:4", batcher[0] == 'c' ? "4-8 P0:3 P1:1" : "4-7 P0:3"));
  }
}

TEST_P(PolicyComposed, VictimIsTheOneTheOrderNames) {
  // Three of them fill 7 blocks of 4 tokens; the next tokens need more.
  const auto victims = [&](const std::string& order) {
    std::vector<RequestSpec> requests = {Tokens(0, 8, 12), Tokens(1, 3, 8), Tokens(2, 7, 4)};
    requests[0].priority = 1;
    requests[0].max_new_tokens = 12;
    requests[1].max_new_tokens = 20;
    requests[2].max_new_tokens = 8;
    const Played played = Play(Decoder({{"victim_order", order}}, requests, 7));
    EXPECT_EQ(played.summary.ended[0], 3u);
    std::uint32_t first = 3;  // whose prompt is computed again before anyone else's
    std::vector<int> prompts(3);
    for (const std::string& step : played.steps) {
      for (std::uint32_t id = 0; id < 3; ++id) {
        const bool computes = step.find(" P" + std::to_string(id) + ":") != std::string::npos;
        if (computes && ++prompts[id] == 2 && first == 3) first = id;
      }
    }
    EXPECT_GT(played.summary.preemptions, 0u);
    return first;
  };
  EXPECT_EQ(victims("last_admitted"), 2u);
  EXPECT_EQ(victims("lowest_priority"), 0u);
  EXPECT_EQ(victims("fewest_generated"), 2u);
  EXPECT_EQ(victims("longest_remaining"), 1u);
}

TEST_P(PolicyComposed, BoundedQueueTurnsAway) {
  const Played played =
      Play(Decoder({{"admission", "bounded_queue"}, {"max_waiting", "1"}, {"max_num_seqs", "1"}},
                   {Tokens(0, 4, 2), Tokens(1, 4, 1), Tokens(2, 4, 1), Tokens(9, 4, 1)}));
  EXPECT_EQ(ReasonOf(played, 1), EndReason::kCompleted);
  EXPECT_EQ(ReasonOf(played, 2), EndReason::kRejected);
  EXPECT_EQ(ReasonOf(played, 3), EndReason::kCompleted);
}

TEST_P(PolicyComposed, EarlyRejectionCountsWhatWaits) {
  const Played played = Play(Decoder(
      {{"admission", "early_rejection"}, {"ttft_limit", "12ns"}, {"max_num_seqs", "1"}},
      {Tokens(0, 8, 9), Tokens(1, 8, 1), Tokens(2, 5, 1), Tokens(3, 4, 1), Tokens(3, 13, 1)}));
  EXPECT_EQ(ReasonOf(played, 1), EndReason::kCompleted);
  EXPECT_EQ(ReasonOf(played, 2), EndReason::kRejected) << "8 wait, and 5 of its own";
  EXPECT_EQ(ReasonOf(played, 3), EndReason::kCompleted);
  EXPECT_EQ(ReasonOf(played, 4), EndReason::kRejected);
}

TEST_P(PolicyComposed, TokenBucketTurnsAwayByTenant) {
  std::vector<RequestSpec> requests = {Tokens(0, 4, 1), Tokens(0, 4, 1), Tokens(0, 4, 1)};
  requests[1].tenant = 1;
  const Played played =
      Play(Decoder({{"admission", "token_bucket"}, {"tenant_burst", "1"}}, requests));
  EXPECT_EQ(ReasonOf(played, 0), EndReason::kCompleted);
  EXPECT_EQ(ReasonOf(played, 1), EndReason::kCompleted);
  EXPECT_EQ(ReasonOf(played, 2), EndReason::kRejected);
}

TEST_P(PolicyComposed, ResponseThatIsKnownIsNotComputedAgain) {
  const std::vector<ContentSegment> text = {{5, 8}}, other = {{6, 8}};
  std::vector<RequestSpec> requests = {Tokens(0, 8, 3),  Tokens(1, 8, 3),  Tokens(90, 8, 3),
                                       Tokens(91, 8, 3), Tokens(92, 8, 3), Tokens(300, 8, 3)};
  for (RequestSpec& request : requests) request.content = text;
  requests[3].content = other;
  requests[4].content = {};
  const Played played =
      Play(Decoder({{"response_cache", "4"}, {"response_ttl", "200ns"}}, requests));
  const EndReason kMade = EndReason::kCompleted, kKnown = EndReason::kCached;
  std::vector<EndReason> reasons;
  for (const RequestRecord& request : played.requests) reasons.push_back(request.reason);
  EXPECT_THAT(reasons, ElementsAre(kMade, kMade, kKnown, kMade, kMade, kMade));
  EXPECT_EQ(Play(Decoder({}, requests)).summary.ended[static_cast<int>(kKnown)], 0u)
      << "off unless asked for";
}

TEST_P(PolicyComposed, ShortQueueInTokensTakesTheNext) {
  Script script = Decoder({{"router", "token_jsq"}},
                          {Tokens(0, 20, 2), Tokens(0, 4, 2), Tokens(1, 4, 2), Tokens(40, 4, 2)});
  script.devices = 2;
  const Played played = Play(script);
  std::vector<std::uint32_t> devices;
  for (const RequestRecord& request : played.requests) devices.push_back(request.device.value);
  EXPECT_THAT(devices, ElementsAre(0, 1, 1, 0)) << "by the end all loads are given back";
}

TEST_P(PolicyComposed, ServesAModelThatKeepsNoKv) {
  Script script = Decoder({}, {Tokens(0, 2, 3), Tokens(0, 2, 2)});
  script.device.total_blocks = 0;
  script.device.block_tokens = 0;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-4 P0:2 P1:2", "4-6 D0 D1", "6-7 D0"));
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyComposed, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

// ---- Every combination ----

std::vector<std::string> ChoicesOf(std::string_view parameter) {
  std::vector<std::string> choices;
  for (const ParameterSpec& spec : FindPolicy("composed")->parameters) {
    if (spec.name != parameter) continue;
    for (const std::string_view choice : spec.choices) choices.emplace_back(choice);
  }
  return choices;
}

/// Sixty requests, more than three small devices can take at once.
std::vector<RequestSpec> Rush() {
  Rng rng(3, "requests");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  while (requests.size() < 60) {
    at += rng.Below(8);
    requests.push_back(Tokens(at, 1 + rng.Below(16), 1 + rng.Below(24)));
    requests.back().tenant = rng.Below(3);
    requests.back().session = rng.Below(8);
    requests.back().priority = static_cast<std::int32_t>(rng.Below(3));
  }
  return requests;
}

/// The run's summary; that of the last form.
RunSummary ExpectOneOutcomeInAllForms(const Settings& settings) {
  RunSummary summary;
  std::vector<std::uint64_t> outcomes;
  for (const Form& form : policy_testing::kForms) {
    Script script{.policy = "composed", .settings = In(form, settings), .requests = Rush()};
    script.device.total_blocks = 11;
    script.device.block_tokens = 4;
    script.device.max_model_len_tokens = 40;
    script.devices = 3;
    summary = Play(script).summary;
    EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    EXPECT_EQ(summary.ended[0] + summary.ended[1], 60u);
    for (const std::uint64_t refusals : summary.refusals) EXPECT_EQ(refusals, 0u);
    outcomes.push_back(summary.outcome_digest);
  }
  EXPECT_THAT(outcomes, testing::Each(outcomes[0]));
  return summary;
}

class EveryComposition : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EveryComposition, ServesOnScarceMemoryInAllForms) {
  const auto& [router, batcher] = GetParam();
  for (const std::string& admission : ChoicesOf("admission")) {
    std::uint64_t preemptions = 0, rejected = 0, completed = 0;
    for (const std::string& victim_order : ChoicesOf("victim_order")) {
      SCOPED_TRACE(admission + ", " + victim_order);
      const RunSummary summary = ExpectOneOutcomeInAllForms({{"router", router},
                                                             {"admission", admission},
                                                             {"batcher", batcher},
                                                             {"victim_order", victim_order},
                                                             {"max_num_batched_tokens", "24"},
                                                             {"tenant_burst", "18"},
                                                             {"ttft_limit", "30ns"},
                                                             {"max_waiting", "4"}});
      preemptions += summary.preemptions;
      completed += summary.ended[0];
      rejected += summary.ended[1];
    }
    EXPECT_GT(preemptions, 0u) << admission;
    EXPECT_GT(completed, 80u) << admission;  // of 240
    EXPECT_EQ(rejected > 0, admission != "all") << admission;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryComposition,
                         testing::Combine(testing::ValuesIn(ChoicesOf("router")),
                                          testing::ValuesIn(ChoicesOf("batcher"))),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param) + "_" +
                                  std::get<1>(param_info.param);
                         });

TEST(ComposedBatchers, AreOneFileOfAtMostSixtyLines) {
  const std::filesystem::path folder =
      std::filesystem::path(SCHEDTWIN_SOURCE_DIR) / "policies" / "composed";
  std::vector<std::string> batchers;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with("_batcher.h")) continue;
    batchers.push_back(name.substr(0, name.size() - std::string("_batcher.h").size()));
    std::ifstream file(entry.path());
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    EXPECT_LE(lines, 60) << name;
    EXPECT_GT(lines, 0) << name;
  }
  EXPECT_THAT(ChoicesOf("batcher"), testing::UnorderedElementsAreArray(batchers));
}

}  // namespace
}  // namespace schedtwin
