// llumnix under load, on four devices of the shipped profile of an 8B model: what migration is for
// shows in the figures. Shapes with margins, not values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
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

/// Tokens with a density that falls with the square: no mean but for the end at 4000.
std::uint32_t Pareto(Rng* rng, double least) {
  return static_cast<std::uint32_t>(std::min(least / rng->Uniform(), 4000.0));
}

std::vector<RequestSpec> HeavyTails(std::uint64_t seed, double rate, std::uint32_t count) {
  Rng rng(seed, "load");
  std::vector<RequestSpec> requests;
  double at_ns = 0;
  while (requests.size() < count) {
    at_ns += rng.Exponential() * 1e9 / rate;
    const std::uint32_t prompt = Pareto(&rng, 60);
    requests.push_back(Tokens(static_cast<std::int64_t>(at_ns), prompt, Pareto(&rng, 60)));
  }
  return requests;
}

struct Outcome {
  double p99_e2e_s = 0;
  double p99_ttft_s = 0;
  double mean_e2e_s = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t recomputed_tokens = 0;
  std::size_t moved = 0;

  std::string Text() const {
    return "p99 e2e " + std::to_string(p99_e2e_s) + " s, p99 ttft " + std::to_string(p99_ttft_s) +
           " s, mean e2e " + std::to_string(mean_e2e_s) + " s, preemptions " +
           std::to_string(preemptions) + ", recomputed " + std::to_string(recomputed_tokens) +
           ", moved " + std::to_string(moved);
  }
};

double P99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

Outcome Serve(const std::vector<RequestSpec>& requests, const std::string& name,
              const Settings& settings, std::uint32_t kv_blocks) {
  Outcome outcome;
  const auto profile = LoadProfile("llama3-8b-a100");
  EXPECT_TRUE(profile.ok()) << profile.status();
  if (!profile.ok()) return outcome;
  const StepTimeModel model(*profile);
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(*profile);
  setup.device.total_blocks = kv_blocks;
  setup.devices = 4;
  const auto policy = MakePolicy(name, settings);
  ScriptSource source(requests);
  RequestSource* const sources[] = {&source};
  KeepAll kept;
  const RunSummary summary = Simulate(setup, policy.get(), sources, &kept, {});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  std::vector<double> e2e_s, ttft_s;
  for (const RequestRecord& record : kept.requests) {
    e2e_s.push_back(static_cast<double>((record.end - record.arrival).ns()) / 1e9);
    ttft_s.push_back(static_cast<double>((record.first_token - record.arrival).ns()) / 1e9);
    outcome.mean_e2e_s += e2e_s.back() / static_cast<double>(requests.size());
    outcome.recomputed_tokens += record.recomputed_tokens;
  }
  outcome.p99_e2e_s = P99(e2e_s);
  outcome.p99_ttft_s = P99(ttft_s);
  outcome.preemptions = summary.preemptions;
  for (const OperationRecord& operation : kept.operations) {
    const bool last = operation.kind == static_cast<std::uint8_t>(OperationKind::kTransfer);
    outcome.moved += operation.ok && last;
  }
  return outcome;
}

TEST(PolicyLlumnixLoad, MigrationSparesPreemptionsAndTheTail) {
  for (const double rate : {6.0, 9.0, 12.0, 16.0}) {
    for (const std::uint32_t blocks : {600u, 1200u}) {
      const auto requests = HeavyTails(1, rate, 1500);
      std::printf("rate %.0f blocks %u\n", rate, blocks);
      std::printf("  off: %s\n",
                  Serve(requests, "llumnix", {{"migration", "false"}}, blocks).Text().c_str());
      for (const char* thr : {"1.5", "3", "10", "30"}) {
        std::printf(
            "  on %s: %s\n", thr,
            Serve(requests, "llumnix", {{"migrate_threshold", thr}}, blocks).Text().c_str());
      }
      std::printf("  round robin: %s\n", Serve(requests, "vllm_v1", {}, blocks).Text().c_str());
    }
  }
}

}  // namespace
}  // namespace schedtwin
