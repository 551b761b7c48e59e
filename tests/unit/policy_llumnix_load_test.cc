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

  Outcome& operator+=(const Outcome& other) {
    p99_e2e_s += other.p99_e2e_s;
    p99_ttft_s += other.p99_ttft_s;
    mean_e2e_s += other.mean_e2e_s;
    preemptions += other.preemptions;
    recomputed_tokens += other.recomputed_tokens;
    moved += other.moved;
    return *this;
  }
  /// Means of so many runs.
  std::string Text(std::uint64_t runs) const {
    const auto share = 1.0 / static_cast<double>(runs);
    return "p99 TTFT " + std::to_string(p99_ttft_s * share) + " s, p99 E2E " +
           std::to_string(p99_e2e_s * share) + " s, mean E2E " +
           std::to_string(mean_e2e_s * share) + " s, preemptions " +
           std::to_string(preemptions / runs) + ", recomputed " +
           std::to_string(recomputed_tokens / runs) + ", moved " + std::to_string(moved / runs);
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

TEST(PolicyLlumnixLoad, MigrationShortensTheTailOfWaiting) {
  // Requests of up to 8000 tokens in 600 blocks of 16: a long one waits for room, and whoever is
  // beside it is preempted, while other devices have room to spare.
  constexpr std::uint64_t kSeeds = 4;
  Outcome on, off;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto requests = HeavyTails(seed, /*rate=*/6, /*count=*/1500);
    on += Serve(requests, "llumnix", {{"migrate_threshold", "3"}}, 600);
    off += Serve(requests, "llumnix", {{"migration", "false"}}, 600);
  }
  EXPECT_EQ(off.moved, 0u);
  EXPECT_GT(on.moved, 100 * kSeeds);
  EXPECT_LT(on.p99_ttft_s, 0.8 * off.p99_ttft_s);
  EXPECT_LT(on.mean_e2e_s, off.mean_e2e_s);
  RecordProperty("on", on.Text(kSeeds));
  RecordProperty("off", off.Text(kSeeds));
}

TEST(PolicyLlumnixLoad, DispatchByFreenessBeatsRoundRobin) {
  const auto requests = HeavyTails(1, /*rate=*/6, /*count=*/1500);
  const Outcome freest = Serve(requests, "llumnix", {{"migration", "false"}}, 600);
  const Outcome in_turn = Serve(requests, "vllm_v1", {}, 600);
  EXPECT_LT(freest.p99_ttft_s, 0.6 * in_turn.p99_ttft_s);
  EXPECT_LT(freest.preemptions, in_turn.preemptions / 2);
  RecordProperty("freest", freest.Text(1));
  RecordProperty("in_turn", in_turn.Text(1));
}

}  // namespace
}  // namespace schedtwin
