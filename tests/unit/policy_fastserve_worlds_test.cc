// fastserve's swaps, in the simulator and on the processor: whatever is moved, dropped, cut or
// lost, requests say what they say when they run alone, and the books agree. On the processor each
// run is replayed from its log, too (two_worlds.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "policies/api/rng.h"
#include "tests/conformance/contract_testing.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Settings;

struct Variant {
  const char* name;
  Settings settings;
  std::uint32_t host_blocks;
  bool drops;  ///< may drop KV

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

const Variant kVariants[] = {
    {"Proactive", {}, 256, false},
    {"Reactive", {{"proactive", "false"}}, 256, false},
    {"PlainMlfq", {{"skip_join", "false"}, {"max_batch_size", "3"}}, 256, false},
    {"ScarceHost", {{"proactive", "false"}}, 4, true},
    {"NoHost", {}, 0, true},
    {"Recompute", {{"preempt", "recompute"}}, 256, true},
};

Settings Of(const Variant& variant) {
  Settings settings = {
      {"max_batch_size", "4"}, {"base_quantum", "500us"}, {"prefill_time_per_token", "20us"}};
  settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
  return settings;
}

void ExpectNothingRefused(const RunSummary& summary) {
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    EXPECT_EQ(summary.refusals[i], 0u) << "reason " << i;
  }
}

class PolicyFastServeWorlds : public testing::TestWithParam<std::tuple<TestWorld, Variant>> {};

TEST_P(PolicyFastServeWorlds, SwappedRequestsSayWhatTheySayAlone) {
  const auto& [world, variant] = GetParam();
  TwoWorlds run;
  run.device.total_blocks = 12;  // of 16 tokens
  run.device.host_blocks = variant.host_blocks;
  run.layer_pause = Duration::Micros(500);  // so that copies are faster than steps
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < 12; ++i) {
    requests.push_back(TokenRequest(0, 10 + 7 * i, 40 - 2 * i));
  }
  const auto make = [&settings = variant] {
    return policy_testing::MakePolicy("fastserve", Of(settings));
  };
  const RunSummary summary = run.Run(world, make, requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  EXPECT_GT(summary.preemptions, 0u);
  ExpectNothingRefused(summary);
  std::uint64_t recomputed = 0;
  for (const RequestRecord& record : run.recorder.requests) recomputed += record.recomputed_tokens;
  EXPECT_EQ(recomputed > 0, variant.drops);
  const bool swaps = variant.host_blocks > 0 && std::string(variant.name) != "Recompute";
  EXPECT_EQ(!run.recorder.operations.empty(), swaps);
  if (world == TestWorld::kCpu) {
    EXPECT_EQ(run.tokens.made(), MadeUndisturbed(requests));
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<TestWorld, Variant>>& info) {
  return testing::PrintToString(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Worlds, PolicyFastServeWorlds,
                         testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                                          testing::ValuesIn(kVariants)),
                         NameOf);

// ---- Whatever happens ----

// Every event of a hardened build checks all books.
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 60;
#else
constexpr std::uint64_t kSeeds = 200;
#endif

std::vector<RequestSpec> Bursts(std::uint64_t seed) {
  Rng rng(seed, "fastserve bursts");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    at += rng.Below(3) == 0 ? 0 : rng.Below(80);
    RequestSpec spec = TokenRequest(at, 1 + rng.Below(40), 1 + rng.Below(24));
    if (rng.Below(6) == 0) spec.leaves = Time::Nanos(at + rng.Below(900));
    requests.push_back(spec);
  }
  return requests;
}

/// Small pools, scarce host tiers and copies slower than steps; devices that fail in the middle.
/// Fake devices complain of every block that is read and was not written.
TEST(PolicyFastServeBooks, AgreeAndNobodyIsLeftWhateverHappens) {
  std::uint64_t copies = 0, drops = 0, faults = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "fastserve setup");
    TestRun run;
    run.device.total_blocks = 16 + rng.Below(20);
    const std::uint32_t host_blocks[] = {0, 3, 11, 200};
    run.device.host_blocks = host_blocks[rng.Below(4)];
    run.device.host_link = {Duration::Nanos(rng.Below(60)), 1'000'000'000};
    run.device.block_bytes = rng.Below(8);
    run.device.max_model_len_tokens = 64;
    run.device.max_step_tokens = rng.Below(3) == 0 ? 10 : 0;
    run.device.queue_depth = 1 + rng.Below(2);
    run.devices = 1 + rng.Below(2);
    run.options.tie_seed = rng.Below(2) * seed;
    run.options.identify_blocks = rng.Below(2) == 0;
    const bool fails = rng.Below(2) == 0;
    const Fault fault = {{0}, Time::Nanos(400), Time::Nanos(700), /*loses=*/rng.Below(2) == 0};
    if (fails) run.options.faults = {&fault, 1};
    Settings settings = {{"base_quantum", "25ns"},
                         {"prefill_time_per_token", "1ns"},
                         {"max_batch_size", std::to_string(1 + rng.Below(6))},
                         {"max_tokens_per_batch", std::to_string(8 + rng.Below(40))},
                         {"starvation_period", std::to_string(1 + rng.Below(30))},
                         {"starvation_idle", std::to_string(rng.Below(300)) + "ns"}};
    if (rng.Below(3) == 0) settings.push_back({"proactive", "false"});
    if (rng.Below(4) == 0) settings.push_back({"skip_join", "false"});
    if (rng.Below(5) == 0) settings.push_back({"preempt", "recompute"});
    const auto policy = policy_testing::MakePolicy("fastserve", settings);
    const std::vector<RequestSpec> requests = Bursts(seed);
    const RunSummary summary = run.Run(policy.get(), requests);
    ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    ASSERT_EQ(run.recorder.requests.size(), requests.size());
    for (const RequestRecord& record : run.recorder.requests) {
      const bool left = record.reason == EndReason::kCancelled;
      const bool lost = record.reason == EndReason::kFailed && fails && fault.loses_requests;
      EXPECT_TRUE(record.reason == EndReason::kCompleted || left || lost) << record.id.value;
      if (!fails) drops += record.recomputed_tokens;
    }
    if (!fails) ExpectNothingRefused(summary);
    copies += run.recorder.operations.size();
    faults += fails;
  }
  EXPECT_GT(copies, 3 * kSeeds);
  EXPECT_GT(drops, 3 * kSeeds);
  EXPECT_GT(faults, kSeeds / 4);
}

}  // namespace
}  // namespace schedtwin
