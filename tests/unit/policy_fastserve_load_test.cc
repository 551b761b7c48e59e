// fastserve under load, on the shipped profile of an 8B model: what skip-join, swaps and promotion
// are for shows in the figures. Shapes with margins, not values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/profile/profile.h"
#include "sim/simulate.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::KeepAll;
using policy_testing::MakePolicy;
using policy_testing::ScriptSource;
using policy_testing::Settings;
using policy_testing::Tokens;

/// Tokens with a density that falls with the square: no mean but for the end at 2000.
std::uint32_t Pareto(Rng* rng, double least) {
  return static_cast<std::uint32_t>(std::min(least / rng->Uniform(), 2000.0));
}

/// Prompts and outputs alike.
std::pair<std::uint32_t, std::uint32_t> HeavyTails(Rng* rng) {
  const std::uint32_t prompt = Pareto(rng, 60);
  return {prompt, Pareto(rng, 20)};
}

struct Load {
  double rate;
  std::uint32_t count = 1500;

  template <class Shape>
  std::vector<RequestSpec> Requests(std::uint64_t seed, Shape shape) const {
    Rng rng(seed, "load");
    std::vector<RequestSpec> requests;
    double at_ns = 0;
    while (requests.size() < count) {
      at_ns += rng.Exponential() * 1e9 / rate;
      const auto [prompt, output] = shape(&rng);
      requests.push_back(Tokens(static_cast<std::int64_t>(at_ns), prompt, output));
    }
    return requests;
  }
};

struct Outcome {
  RunSummary summary;
  double mean_e2e_s = 0;
  std::uint64_t recomputed_tokens = 0;
  std::size_t copies = 0;
  std::vector<RequestRecord> requests;
};

Outcome Serve(const std::vector<RequestSpec>& requests, const std::string& name,
              const Settings& settings, std::uint32_t kv_blocks = 0) {
  Outcome outcome;
  const auto profile = LoadProfile("llama3-8b-a100");
  EXPECT_TRUE(profile.ok()) << profile.status();
  if (!profile.ok()) return outcome;
  const StepTimeModel model(*profile);
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(*profile);
  if (kv_blocks > 0) setup.device.total_blocks = kv_blocks;
  const auto policy = MakePolicy(name, settings);
  ScriptSource source(requests);
  RequestSource* const sources[] = {&source};
  KeepAll kept;
  outcome.summary = Simulate(setup, policy.get(), sources, &kept, {});
  EXPECT_EQ(outcome.summary.result, RunResult::kFinished) << outcome.summary.detail;
  EXPECT_EQ(outcome.summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  for (const RequestRecord& record : kept.requests) {
    const auto e2e_ns = static_cast<double>((record.end - record.arrival).ns());
    outcome.mean_e2e_s += e2e_ns / 1e9 / static_cast<double>(requests.size());
    outcome.recomputed_tokens += record.recomputed_tokens;
  }
  outcome.copies = kept.operations.size();
  outcome.requests = std::move(kept.requests);
  return outcome;
}

const Settings kFcfs = {{"max_num_seqs", "16"}, {"chunked_prefill", "false"}};
const Settings kPlain = {{"skip_join", "false"}};

TEST(PolicyFastServeLoad, SkipJoinBeatsPlainMlfqAndFirstComeFirstServed) {
  // One prompt in ten is long, outputs are heavy-tailed, and more comes than is served.
  const auto shape = [](Rng* rng) {
    const bool is_long = rng->Below(10) == 0;
    const std::uint32_t prompt = is_long ? 1000 + rng->Below(1000) : 50 + rng->Below(100);
    return std::pair(prompt, Pareto(rng, 5));
  };
  double skip_join = 0, plain = 0, fcfs = 0;
  constexpr std::uint64_t kSeeds = 3;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto requests = Load{.rate = 40}.Requests(seed, shape);
    const double share = 1 / static_cast<double>(kSeeds);
    skip_join += Serve(requests, "fastserve", {}).mean_e2e_s * share;
    plain += Serve(requests, "fastserve", kPlain).mean_e2e_s * share;
    fcfs += Serve(requests, "vllm_v1", kFcfs).mean_e2e_s * share;
  }
  EXPECT_LT(skip_join, 0.95 * plain);
  EXPECT_LT(skip_join, 0.65 * fcfs);
  RecordProperty("skip_join_s", std::to_string(skip_join));
  RecordProperty("plain_s", std::to_string(plain));
  RecordProperty("fcfs_s", std::to_string(fcfs));
}

TEST(PolicyFastServeLoad, WithAQuantumThatNobodyExceedsItIsFirstComeFirstServed) {
  const auto requests = Load{.rate = 10, .count = 500}.Requests(1, HeavyTails);
  const double none =
      Serve(requests, "fastserve", {{"skip_join", "false"}, {"base_quantum", "1000s"}}).mean_e2e_s;
  const double fcfs = Serve(requests, "vllm_v1", kFcfs).mean_e2e_s;
  EXPECT_NEAR(none, fcfs, 0.05 * fcfs);
}

TEST(PolicyFastServeLoad, SwapsBeatRecomputingWhereMemoryIsShort) {
  const auto requests = Load{.rate = 9}.Requests(1, HeavyTails);
  const Outcome proactive = Serve(requests, "fastserve", {}, 700);
  const Outcome reactive = Serve(requests, "fastserve", {{"proactive", "false"}}, 700);
  const Outcome recompute = Serve(requests, "fastserve", {{"preempt", "recompute"}}, 700);
  EXPECT_EQ(proactive.recomputed_tokens + reactive.recomputed_tokens, 0u);
  EXPECT_EQ(recompute.copies, 0u);
  EXPECT_GT(recompute.recomputed_tokens, 0u);
  // Who is swapped out comes back, once.
  EXPECT_EQ(proactive.copies, 2 * proactive.summary.preemptions);
  EXPECT_EQ(reactive.copies, 2 * reactive.summary.preemptions);
  EXPECT_GT(proactive.copies, reactive.copies) << "a reserve costs copies";
  EXPECT_GT(reactive.copies, 0u);
  EXPECT_LT(proactive.mean_e2e_s, 0.8 * recompute.mean_e2e_s);
  EXPECT_LT(reactive.mean_e2e_s, 0.8 * recompute.mean_e2e_s);
  for (const auto& [name, outcome] :
       {std::pair{"proactive", &proactive}, {"reactive", &reactive}, {"recompute", &recompute}}) {
    RecordProperty(name, std::to_string(outcome->mean_e2e_s) + " s, " +
                             std::to_string(outcome->copies) + " copies");
  }
}

/// The longest that a long prompt waits for its first token, of those that came in the first 10 s.
double LongestWait(std::uint64_t seed, const Settings& settings) {
  const auto shape = [](Rng* rng) {
    return rng->Below(100) == 0 ? std::pair(1800u, 4u) : std::pair(100u, 1u);
  };
  const auto requests = Load{.rate = 160, .count = 4000}.Requests(seed, shape);
  const Outcome outcome = Serve(requests, "fastserve", settings);
  std::int64_t longest_ns = 0;
  for (const RequestRecord& record : outcome.requests) {
    if (record.prompt_tokens < 1000 || record.arrival.ns() > 10'000'000'000) continue;
    longest_ns = std::max(longest_ns, (record.first_token - record.arrival).ns());
  }
  return static_cast<double>(longest_ns) / 1e9;
}

TEST(PolicyFastServeLoad, PromotionKeepsLongPromptsFromStarving) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const Settings often = {{"base_quantum", "25ms"}, {"starvation_period", "20"}};
    const Settings never = {{"base_quantum", "25ms"}, {"starvation_period", "1000000"}};
    const double promoted = LongestWait(seed, often), starved = LongestWait(seed, never);
    EXPECT_LT(promoted, 8);
    EXPECT_GT(starved, 15);
    RecordProperty("wait" + std::to_string(seed),
                   std::to_string(promoted) + " " + std::to_string(starved));
  }
}

}  // namespace
}  // namespace schedtwin
