// conserve and hygen under load, on the shipped profile of an 8B model: what token sizing, layer
// aborts, checkpoints and a calibrated budget are for shows in the figures. Shapes with margins,
// not values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policies/api/rng.h"
#include "policies/profile/profile.h"
#include "sim/simulate.h"
#include "tests/unit/hybrid_testing.h"

namespace schedtwin {
namespace {

using hybrid_testing::Offline;
using hybrid_testing::Online;
using policy_testing::MakePolicy;
using policy_testing::ScriptSource;
using policy_testing::Settings;

/// Online requests in bursts, and offline ones that are all there at the start.
struct Load {
  double online_rate = 2;  ///< requests a second, in a burst
  double burst_s = 10;     ///< as long as the pause before it
  std::uint32_t online = 200;
  std::uint32_t offline = 300;
  std::uint32_t online_prompt = 1000;  ///< half to one and a half
  std::uint32_t online_output = 60;

  std::vector<RequestSpec> Requests(std::uint64_t seed) const {
    Rng rng(seed, "load");
    std::vector<RequestSpec> requests;
    for (std::uint32_t i = 0; i < offline; ++i) {
      requests.push_back(Offline(0, 1000 + rng.Below(4000), 100 + rng.Below(200)));
    }
    double busy_s = 0;  // of bursts
    for (std::uint32_t i = 0; i < online; ++i) {
      busy_s += rng.Exponential() / online_rate;
      const auto bursts = static_cast<std::int64_t>(busy_s / burst_s);
      const double at_s = busy_s + burst_s * static_cast<double>(bursts + 1);
      requests.push_back(Online(static_cast<std::int64_t>(at_s * 1e9),
                                online_prompt / 2 + rng.Below(online_prompt),
                                online_output / 2 + rng.Below(online_output)));
    }
    return requests;
  }
};

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

struct Outcome {
  double p99_ttft_ms = 0;  ///< online
  double p99_tbt_ms = 0;   ///< online, of all gaps between two tokens
  double offline_tokens_per_s = 0;
  std::uint64_t recomputed_tokens = 0;
  std::uint64_t preemptions = 0;
};

/// Gaps between the tokens of a request that is in every step between its first and its last.
void AddGaps(const RequestRecord& record, const std::vector<StepRecord>& steps,
             std::vector<double>* gaps_ms) {
  auto at = std::lower_bound(
      steps.begin(), steps.end(), record.first_token,
      [](const StepRecord& step, Time first_token) { return step.end < first_token; });
  for (; at + 1 < steps.end() && (at + 1)->end <= record.last_token; ++at) {
    gaps_ms->push_back(static_cast<double>(((at + 1)->end - at->end).ns()) / 1e6);
  }
}

class KeepSteps final : public Recorder {
 public:
  void OnRequest(const RequestRecord& record) override { requests.push_back(record); }
  void OnStep(const StepRecord& record) override { steps.push_back(record); }
  void OnOperation(const OperationRecord&) override {}
  void OnLog(const LogRecord&) override {}
  void OnNote(Time, std::string_view) override {}

  std::vector<RequestRecord> requests;
  std::vector<StepRecord> steps;
};

Outcome Serve(const std::vector<RequestSpec>& requests, const std::string& name,
              const Settings& settings, std::uint32_t kv_blocks,
              std::vector<StepRecord>* steps = nullptr) {
  Outcome outcome;
  const auto profile = LoadProfile("llama3-8b-a100");
  EXPECT_TRUE(profile.ok()) << profile.status();
  if (!profile.ok()) return outcome;
  const StepTimeModel model(*profile);
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(*profile);
  setup.device.total_blocks = kv_blocks;
  setup.device.host_blocks = 200'000;
  const auto policy = MakePolicy(name, settings);
  ScriptSource source(requests);
  RequestSource* const sources[] = {&source};
  KeepSteps kept;
  const RunSummary summary = Simulate(setup, policy.get(), sources, &kept, {.steps = true});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  outcome.preemptions = summary.preemptions;
  if (steps != nullptr) *steps = kept.steps;
  std::vector<double> ttft_ms, gaps_ms;
  double offline_tokens = 0;
  Time offline_end;
  for (const RequestRecord& record : kept.requests) {
    outcome.recomputed_tokens += record.recomputed_tokens;
    if (record.request_class == 1) {
      offline_tokens += record.prompt_tokens + record.output_tokens;
      offline_end = std::max(offline_end, record.end);
      continue;
    }
    ttft_ms.push_back(static_cast<double>((record.first_token - record.arrival).ns()) / 1e6);
    AddGaps(record, kept.steps, &gaps_ms);
  }
  outcome.p99_ttft_ms = Percentile(ttft_ms, 0.99);
  outcome.p99_tbt_ms = Percentile(gaps_ms, 0.99);
  if (offline_tokens > 0) {
    outcome.offline_tokens_per_s = offline_tokens / (static_cast<double>(offline_end.ns()) / 1e9);
  }
  return outcome;
}

/// Means over several seeds.
Outcome ServeSeeds(const Load& load, const std::string& name, const Settings& settings,
                   std::uint32_t kv_blocks) {
  constexpr std::uint64_t kSeeds = 3;
  Outcome mean;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome one = Serve(load.Requests(seed), name, settings, kv_blocks);
    mean.p99_ttft_ms += one.p99_ttft_ms / kSeeds;
    mean.p99_tbt_ms += one.p99_tbt_ms / kSeeds;
    mean.offline_tokens_per_s += one.offline_tokens_per_s / kSeeds;
    mean.recomputed_tokens += one.recomputed_tokens;
    mean.preemptions += one.preemptions;
  }
  return mean;
}

std::string Text(const Outcome& outcome) {
  const auto whole = [](double value) { return std::to_string(static_cast<std::int64_t>(value)); };
  return "P99 TTFT " + whole(outcome.p99_ttft_ms) + " ms, P99 TBT " + whole(outcome.p99_tbt_ms) +
         " ms, offline " + whole(outcome.offline_tokens_per_s) + " tokens/s, recomputed " +
         std::to_string(outcome.recomputed_tokens) + " tokens, preemptions " +
         std::to_string(outcome.preemptions);
}

constexpr std::uint32_t kScarce = 4000;   ///< KV blocks
constexpr std::uint32_t kAmple = 30'000;  ///< enough for all offline requests at once

// ---- conserve ----

TEST(PolicyHybridLoad, EachOfConservesTechniquesDoesItsPart) {
  const Load load = {.online_rate = 1, .online = 100};
  Settings settings = {{"ttft_target", "250ms"},
                       {"token_sizing", "false"},
                       {"layer_abort", "false"},
                       {"offline_kv", "recompute"}};
  const Outcome none = ServeSeeds(load, "conserve", settings, kScarce);
  settings[1].second = "true";
  const Outcome sized = ServeSeeds(load, "conserve", settings, kScarce);
  settings[2].second = "true";
  const Outcome layers = ServeSeeds(load, "conserve", settings, kScarce);
  settings[3].second = "swap";
  const Outcome swap = ServeSeeds(load, "conserve", settings, kScarce);
  settings[3].second = "checkpoint";
  const Outcome all = ServeSeeds(load, "conserve", settings, kScarce);
  EXPECT_LT(sized.p99_tbt_ms, 0.4 * none.p99_tbt_ms);
  EXPECT_LT(sized.p99_ttft_ms, 0.8 * none.p99_ttft_ms);
  EXPECT_LT(layers.p99_ttft_ms, 0.8 * sized.p99_ttft_ms);
  EXPECT_GT(all.offline_tokens_per_s, 1.03 * layers.offline_tokens_per_s);
  EXPECT_GT(layers.recomputed_tokens, 0u);
  EXPECT_EQ(swap.recomputed_tokens + all.recomputed_tokens, 0u);
  RecordProperty("1_none", Text(none));
  RecordProperty("2_token_sizing", Text(sized));
  RecordProperty("3_layer_abort", Text(layers));
  RecordProperty("4_swap", Text(swap));
  RecordProperty("5_checkpoint", Text(all));
}

TEST(PolicyHybridLoad, ChunksShrinkAsTheContextOfTheirPromptGrows) {
  // One online request decodes all the while. Every step of the prompt takes 60 ms or just less.
  std::vector<StepRecord> steps;
  Serve({Offline(0, 8000, 1), Online(0, 10, 200)}, "conserve", {{"tbt_target", "60ms"}}, kAmple,
        &steps);
  std::vector<std::uint32_t> chunks;
  for (const StepRecord& step : steps) {
    if (step.prefill_tokens == 0 || step.decode_tokens == 0) continue;
    EXPECT_LE(step.end - step.start, Duration::Millis(60));
    chunks.push_back(step.prefill_tokens);
  }
  ASSERT_GT(chunks.size(), 4u);
  EXPECT_LT(chunks[chunks.size() - 2], chunks[0]) << "the last is what was left over";
  RecordProperty("chunks", std::to_string(chunks[0]) + " to " +
                               std::to_string(chunks[chunks.size() - 2]) + " tokens");
}

TEST(PolicyHybridLoad, OfflineWorkCostsOnlineWorkLittleOfWhatFirstComeFirstServedDoes) {
  const Load online_only = {.offline = 0};
  const Settings settings = {{"ttft_target", "250ms"}};
  const Outcome alone = ServeSeeds(online_only, "conserve", settings, kAmple);
  const Outcome mixed = ServeSeeds({}, "conserve", settings, kAmple);
  const Outcome fcfs = ServeSeeds({}, "vllm_v1", {}, kAmple);
  EXPECT_LT(mixed.p99_ttft_ms, 0.02 * fcfs.p99_ttft_ms);
  EXPECT_LT(mixed.p99_ttft_ms, alone.p99_ttft_ms + 250);
  EXPECT_GT(mixed.offline_tokens_per_s, 0.9 * fcfs.offline_tokens_per_s);
  RecordProperty("1_online_alone", Text(alone));
  RecordProperty("2_conserve", Text(mixed));
  RecordProperty("3_vllm_v1", Text(fcfs));
}

// ---- hygen ----

Outcome WithBudget(std::int64_t budget_ms) {
  return ServeSeeds({}, "hygen", {{"step_budget", std::to_string(budget_ms) + "ms"}}, kAmple);
}

TEST(PolicyHybridLoad, HygensBudgetTradesOnlineLatencyForOfflineThroughput) {
  const std::int64_t budgets_ms[] = {20, 40, 80, 160};
  Outcome last;
  for (const std::int64_t budget_ms : budgets_ms) {
    SCOPED_TRACE(budget_ms);
    const Outcome outcome = WithBudget(budget_ms);
    EXPECT_GT(outcome.offline_tokens_per_s, last.offline_tokens_per_s);
    EXPECT_GE(outcome.p99_tbt_ms, last.p99_tbt_ms);
    RecordProperty("budget_" + std::to_string(1000 + budget_ms), Text(outcome));
    last = outcome;
  }
}

TEST(PolicyHybridLoad, HygensBudgetIsFoundByBisection) {
  // The P99 TBT of online requests may be 40% over what it is without offline work.
  const Outcome alone = ServeSeeds({.offline = 0}, "hygen", {}, kAmple);
  const double target_ms = 1.4 * alone.p99_tbt_ms;
  std::int64_t keeps_ms = 1, breaks_ms = 1000;
  while (breaks_ms - keeps_ms > 1) {
    const std::int64_t middle_ms = (keeps_ms + breaks_ms) / 2;
    (WithBudget(middle_ms).p99_tbt_ms <= target_ms ? keeps_ms : breaks_ms) = middle_ms;
  }
  const Outcome found = WithBudget(keeps_ms);
  EXPECT_GT(keeps_ms, 1);
  EXPECT_LE(found.p99_tbt_ms, target_ms);
  EXPECT_GT(WithBudget(breaks_ms).p99_tbt_ms, target_ms);
  RecordProperty("1_online_alone", Text(alone));
  RecordProperty("2_target_ms", std::to_string(target_ms));
  RecordProperty("3_budget_ms", std::to_string(keeps_ms));
  RecordProperty("4_found", Text(found));
  RecordProperty("5_at_the_target", Text(WithBudget(static_cast<std::int64_t>(target_ms))));
}

TEST(PolicyHybridLoad, HygensRegressionKeepsItsBudget) {
  const Load offline_only = {.online = 0};
  const auto steps_ms = [&](const char* predictor) {
    std::vector<StepRecord> steps;
    Serve(offline_only.Requests(1), "hygen", {{"predictor", predictor}}, kAmple, &steps);
    std::vector<double> took_ms;
    for (const StepRecord& step : steps) {
      took_ms.push_back(static_cast<double>((step.end - step.start).ns()) / 1e6);
    }
    return took_ms;
  };
  const std::vector<double> fitted_ms = steps_ms("fitted"), profile_ms = steps_ms("profile");
  EXPECT_LE(Percentile(profile_ms, 1), 50);
  EXPECT_LT(Percentile(fitted_ms, 0.99), 50 * 1.15);
  EXPECT_GT(Percentile(fitted_ms, 0.5), 50 * 0.85) << "and uses it";
  RecordProperty("steps_ms", std::to_string(Percentile(fitted_ms, 0.5)) + " " +
                                 std::to_string(Percentile(fitted_ms, 0.99)) + ", by the profile " +
                                 std::to_string(Percentile(profile_ms, 0.5)) + " " +
                                 std::to_string(Percentile(profile_ms, 0.99)));
}

}  // namespace
}  // namespace schedtwin
