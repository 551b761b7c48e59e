// conserve and hygen, in the simulator and on the processor: whatever is cut, copied, dropped or
// lost, requests say what they say when they run alone, and the books agree. On the processor each
// run is replayed from its log, too (two_worlds.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "policies/api/rng.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/journal.h"
#include "tests/conformance/contract_testing.h"
#include "tests/support/test_run.h"
#include "tests/unit/hybrid_testing.h"

namespace schedtwin {
namespace {

using hybrid_testing::ExpectNothingRefused;
using policy_testing::Settings;

struct Variant {
  const char* name;
  const char* policy;
  Settings settings;
  std::uint32_t host_blocks;
  bool cuts;   ///< steps
  bool drops;  ///< KV

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

const Variant kVariants[] = {
    {"Checkpoint", "conserve", {}, 256, true, false},
    {"Swap", "conserve", {{"offline_kv", "swap"}}, 256, true, false},
    {"Recompute", "conserve", {{"offline_kv", "recompute"}}, 256, true, true},
    {"NoHost", "conserve", {}, 0, true, true},
    {"NoAborts", "conserve", {{"layer_abort", "false"}}, 256, false, false},
    {"NoSizing", "conserve", {{"token_sizing", "false"}}, 256, true, false},
    {"Hygen", "hygen", {}, 256, false, false},
    {"HygenRecompute", "hygen", {{"offline_kv", "recompute"}}, 256, false, true},
};

Settings Of(const Variant& variant) {
  Settings settings = {{"fit_steps", "4"}, {"max_num_batched_tokens", "64"}};
  if (std::string(variant.policy) == "conserve") {
    settings.push_back({"ttft_target", "100us"});
    settings.push_back({"tbt_target", "5ms"});
  }
  settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
  return settings;
}

/// Offline work that fills the pool at once, and online work that comes into its steps.
std::vector<RequestSpec> Traffic() {
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < 8; ++i) {
    requests.push_back(TokenRequest(0, 20 + 7 * i, 60 - 2 * i));
    requests.back().request_class = 1;
  }
  for (std::uint32_t i = 0; i < 8; ++i) {
    requests.push_back(TokenRequest(25'000'000 + i * 23'000'000, 30 + 9 * i, 6 + i));
  }
  return requests;
}

/// How many lines of a kind the run has written.
template <class Code>
std::int64_t Lines(const TwoWorlds& run, LineKind kind, Code code) {
  return std::count_if(run.recorder.log.begin(), run.recorder.log.end(), [=](const auto& line) {
    return line.kind == static_cast<std::uint8_t>(kind) &&
           line.code == static_cast<std::uint8_t>(code);
  });
}

class PolicyHybridWorlds : public testing::TestWithParam<std::tuple<TestWorld, Variant>> {};

TEST_P(PolicyHybridWorlds, RequestsSayWhatTheySayAlone) {
  const auto& [world, variant] = GetParam();
  TwoWorlds run;
  run.device.total_blocks = 14;  // of 16 tokens
  run.device.host_blocks = variant.host_blocks;
  run.layer_pause = Duration::Micros(700);  // so that copies are faster than steps
  const std::vector<RequestSpec> requests = Traffic();
  const auto make = [&settings = variant] {
    return policy_testing::MakePolicy(settings.policy, Of(settings));
  };
  const RunSummary summary = run.Run(world, make, requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  EXPECT_GT(summary.preemptions, 0u);
  ExpectNothingRefused(summary);
  const auto cuts = Lines(run, LineKind::kDecision, DecisionCode::kAbort);
  // On the processor steps last as long as they like, and may be over by then.
  EXPECT_TRUE(variant.cuts || cuts == 0);
  EXPECT_TRUE(!variant.cuts || cuts > 0 || world == TestWorld::kCpu);
  std::uint64_t dropped = 0;
  for (const RequestRecord& record : run.recorder.requests) {
    if (record.request_class == 1) dropped += record.recomputed_tokens;
  }
  EXPECT_EQ(dropped > 0, variant.drops);
  if (world == TestWorld::kCpu) {
    EXPECT_EQ(run.tokens.made(), MadeUndisturbed(requests));
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<TestWorld, Variant>>& info) {
  return testing::PrintToString(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Worlds, PolicyHybridWorlds,
                         testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                                          testing::ValuesIn(kVariants)),
                         NameOf);

TEST(PolicyHybridCpu, StepsAreCutInTheMiddle) {
  // Each step of the offline request takes 40 ms, in two layers. Without a profile the policy
  // learns that from two steps; then every arrival cuts the step that it meets.
  TwoWorlds run;
  run.layer_pause = Duration::Millis(20);
  std::vector<RequestSpec> requests = {TokenRequest(0, 40, 16)};
  requests[0].request_class = 1;
  for (const std::int64_t at_ms : {127, 270, 415, 550}) {
    requests.push_back(TokenRequest(at_ms * 1'000'000, 9, 1));
  }
  const auto make = [] {
    return policy_testing::MakePolicy("conserve", {{"fit_steps", "2"}, {"ttft_target", "1us"}});
  };
  const RunSummary summary = run.Run(TestWorld::kCpu, make, requests);
  ExpectNothingRefused(summary);
  EXPECT_GT(Lines(run, LineKind::kDecision, DecisionCode::kAbort), 0);
  EXPECT_GT(Lines(run, LineKind::kEvent, EventCode::kStepAborted), 0);
  EXPECT_EQ(run.tokens.made(), MadeUndisturbed(requests));
}

// ---- Whatever happens ----

// Every event of a hardened build checks all books.
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 80;
#else
constexpr std::uint64_t kSeeds = 400;
#endif

std::vector<RequestSpec> Bursts(std::uint64_t seed) {
  Rng rng(seed, "hybrid bursts");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    at += rng.Below(3) == 0 ? 0 : rng.Below(80);
    RequestSpec spec = TokenRequest(at, 1 + rng.Below(40), 1 + rng.Below(24));
    spec.request_class = rng.Below(2);
    if (rng.Below(6) == 0) spec.leaves = Time::Nanos(at + rng.Below(900));
    requests.push_back(spec);
  }
  return requests;
}

Settings RandomSettings(Rng* rng, bool hygen) {
  Settings settings = {{"max_num_seqs", std::to_string(1 + rng->Below(8))},
                       {"max_num_batched_tokens", std::to_string(4 + rng->Below(60))},
                       {"fallback_tokens", std::to_string(1 + rng->Below(8))},
                       {"fit_steps", std::to_string(1 + rng->Below(12))}};
  const auto ns = [rng](std::uint32_t most) { return std::to_string(1 + rng->Below(most)) + "ns"; };
  if (hygen) {
    settings.push_back({"step_budget", ns(60)});
    settings.push_back({"predictor", rng->Below(2) == 0 ? "fitted" : "profile"});
    settings.push_back({"offline_order", rng->Below(2) == 0 ? "fcfs" : "prefix"});
    settings.push_back({"offline_kv", rng->Below(3) == 0 ? "recompute" : "swap"});
    return settings;
  }
  settings.push_back({"tbt_target", ns(60)});
  settings.push_back({"ttft_target", ns(80)});
  settings.push_back({"token_sizing", rng->Below(4) == 0 ? "false" : "true"});
  const char* const kKv[] = {"checkpoint", "checkpoint", "swap", "recompute"};
  settings.push_back({"offline_kv", kKv[rng->Below(4)]});
  return settings;
}

/// Small pools, scarce host tiers and copies slower than steps; devices that fail in the middle.
/// Fake devices complain of every block that is read and was not written.
TEST(PolicyHybridBooks, AgreeAndNobodyIsLeftWhateverHappens) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(4), Duration::Nanos(1));
  std::uint64_t copies = 0, drops = 0, faults = 0, cuts = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "hybrid setup");
    TestRun run;
    run.device.total_blocks = 16 + rng.Below(20);
    const std::uint32_t host_blocks[] = {0, 3, 11, 200};
    run.device.host_blocks = host_blocks[rng.Below(4)];
    run.device.host_link = {Duration::Nanos(rng.Below(60)), 1'000'000'000};
    run.device.block_bytes = rng.Below(8);
    run.device.max_model_len_tokens = 64;
    run.device.max_step_tokens = rng.Below(3) == 0 ? 10 : 0;
    run.device.queue_depth = 1 + rng.Below(2);
    run.device.layers = 1 + rng.Below(4);
    run.devices = 1 + rng.Below(2);
    run.options.tie_seed = rng.Below(2) * seed;
    run.options.prefix_cache = rng.Below(3) == 0;
    run.options.identify_blocks = run.options.prefix_cache || rng.Below(2) == 0;
    if (rng.Below(3) > 0) run.model = &model;
    const std::uint32_t slow = rng.Below(3);
    run.step_time = [slow](const FakeStep& step) {
      return Duration::Nanos(4 + static_cast<std::int64_t>(slow * step.entries.size()) * 5);
    };
    const bool fails = rng.Below(2) == 0;
    const Fault fault = {{0}, Time::Nanos(400), Time::Nanos(700), /*loses=*/rng.Below(2) == 0};
    if (fails) run.options.faults = {&fault, 1};
    const bool hygen = rng.Below(2) == 0;
    const Settings settings = RandomSettings(&rng, hygen);
    const auto policy = policy_testing::MakePolicy(hygen ? "hygen" : "conserve", settings);
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
    for (const LogRecord& line : run.recorder.log) {
      cuts += line.kind == static_cast<std::uint8_t>(LineKind::kDecision) &&
              line.code == static_cast<std::uint8_t>(DecisionCode::kAbort);
    }
    faults += fails;
  }
  EXPECT_GT(copies, 3 * kSeeds);
  EXPECT_GT(drops, 3 * kSeeds);
  EXPECT_GT(cuts, kSeeds / 4);
  EXPECT_GT(faults, kSeeds / 4);
}

}  // namespace
}  // namespace schedtwin
