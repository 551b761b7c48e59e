// A run of a world with a real clock's disorder is replayed from its log exactly: every policy that
// ships, however it asks for its plans, with ample memory and too little, on one device and on
// three, whatever the seed.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/journal.h"
#include "tests/support/real_world.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::In;
using policy_testing::kForms;
using policy_testing::MakePolicy;
using policy_testing::Settings;

#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 20;
#else
constexpr std::uint64_t kSeeds = 60;
#endif

struct Replayed {
  const char* name;
  const char* policy;
  Settings settings;
  bool one_shot;

  friend void PrintTo(const Replayed& replayed, std::ostream* out) { *out << replayed.name; }
};

const Replayed kReplayed[] = {
    {"Clockwork",
     "clockwork",
     {{"default_slo", "2us"},
      {"slo_buffer", "10ns"},
      {"schedule_ahead", "100ns"},
      {"latest_delta", "40ns"},
      {"network_delay", "5ns"},
      {"lag", "50ns"},
      {"estimate_window", "3"}},
     true},
    {"Composed",
     "composed",
     {{"max_num_batched_tokens", "24"}, {"router", "power_of_two"}, {"response_cache", "4"}},
     false},
    {"ComposedDynamo",
     "composed",
     {{"router", "dynamo_kv"}, {"max_num_batched_tokens", "24"}},
     false},
    {"ComposedDynamo2025Scaled",
     "composed",
     {{"router", "dynamo_kv_2025"},
      {"scaler", "hpa"},
      {"scaler_target", "3"},
      {"scale_interval", "300ns"},
      {"scale_down_window", "900ns"}},
     false},
    {"Conserve",
     "conserve",
     {{"tbt_target", "40ns"}, {"ttft_target", "60ns"}, {"max_num_batched_tokens", "24"}},
     false},
    {"ConserveSwap",
     "conserve",
     {{"offline_kv", "swap"}, {"tbt_target", "40ns"}, {"token_sizing", "false"}},
     false},
    {"FastServe", "fastserve", {{"max_batch_size", "4"}, {"base_quantum", "30ns"}}, false},
    {"FastServeReactive",
     "fastserve",
     {{"max_batch_size", "6"}, {"proactive", "false"}, {"starvation_period", "20"}},
     false},
    {"FastServeRecompute", "fastserve", {{"preempt", "recompute"}}, false},
    {"Fifo", "fifo", {}, false},
    {"FifoOneShot", "fifo", {}, true},
    {"Hygen", "hygen", {{"step_budget", "40ns"}, {"max_num_batched_tokens", "24"}}, false},
    {"HygenByPrefix",
     "hygen",
     {{"step_budget", "60ns"},
      {"predictor", "profile"},
      {"offline_order", "prefix"},
      {"oldest_percent", "30"},
      {"offline_kv", "recompute"}},
     false},
    {"Immediate", "immediate", {}, true},
    {"Llumnix",
     "llumnix",
     {{"max_num_batched_tokens", "24"},
      {"max_num_seqs", "8"},
      {"migration_interval", "40ns"},
      {"migrate_threshold", "8"}},
     false},
    {"DynamicBatch", "dynamic_batch", {{"max_batch_size", "4"}, {"max_queue_delay", "70ns"}}, true},
    {"StaticBatch",
     "static_batch",
     {{"max_batch_size", "3"}, {"reserve", "max_new_tokens"}},
     false},
    {"StaticBatchShrinking",
     "static_batch",
     {{"max_batch_size", "5"}, {"reserve", "max_new_tokens"}, {"keep_padding", "false"}},
     false},
    {"StaticBatchOneShot", "static_batch", {{"max_batch_size", "3"}}, true},
    {"TritonDynamic",
     "triton_dynamic",
     {{"preferred_batch_size", "2:3"}, {"max_batch_size", "6"}, {"max_queue_delay", "1us"}},
     true},
    {"TritonDynamicLimited",
     "triton_dynamic",
     {{"max_batch_size", "4"},
      {"preserve_ordering", "true"},
      {"max_queue_size", "6"},
      {"rate_limit", "execution_count"},
      {"instance_resources", "R=1"},
      {"resource_supply", "R=2"}},
     true},
    {"VllmV1", "vllm_v1", {{"max_num_batched_tokens", "24"}, {"max_num_seqs", "8"}}, false},
    {"VllmV1Async",
     "vllm_v1",
     {{"max_num_batched_tokens", "24"}, {"max_num_seqs", "8"}, {"async_scheduling", "true"}},
     false},
    {"VllmV1Priority",
     "vllm_v1",
     {{"max_num_batched_tokens", "24"},
      {"scheduling_policy", "priority"},
      {"long_prefill_token_threshold", "7"}},
     false},
    {"Vtc", "vtc", {{"weights", "1:2"}, {"max_num_seqs", "4"}}, false},
    {"VtcReleased", "vtc", {{"form", "released"}}, false},
};

std::vector<RequestSpec> RequestsOf(std::uint64_t seed, bool one_shot) {
  Rng rng(seed, "replay requests"), priorities(seed, "priorities");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  const std::uint32_t gap = 1 + rng.Below(120);
  for (std::uint32_t i = 0; i < 30; ++i) {
    at += rng.Below(4) == 0 ? 0 : rng.Below(gap);
    requests.push_back(one_shot ? UnitRequest(at, 1 + rng.Below(3))
                                : TokenRequest(at, 1 + rng.Below(40), 1 + rng.Below(24)));
    requests.back().max_new_tokens = one_shot ? 0 : 24;
    requests.back().tenant = i % 3;
    requests.back().request_class = i % 2;
    requests.back().priority = static_cast<std::int32_t>(priorities.Below(3));
  }
  return requests;
}

ReplaySetup SetupOf(std::uint64_t seed, bool one_shot, const StepTimeModel* model) {
  Rng rng(seed, "replay setup");
  ReplaySetup setup;
  setup.device = one_shot ? SmallOneShot() : SmallDecoder();
  setup.device.total_blocks = one_shot ? 0 : 18 + rng.Below(2) * 80;
  setup.device.max_step_tokens = one_shot ? 8 : 0;
  setup.device.max_model_len_tokens = one_shot ? 0 : 70;
  setup.device.host_blocks = one_shot ? 0 : 30;
  setup.device.host_link = {Duration::Nanos(15), 1'000'000'000};
  setup.device.peer_link = {Duration::Nanos(15), 1'000'000'000};
  setup.device.queue_depth = 1 + rng.Below(2);
  setup.devices = rng.Below(2) == 0 ? 1 : 3;
  setup.model = model;
  setup.world.seed = seed;
  setup.world.identify_blocks = !one_shot;
  return setup;
}

/// What the runs reach, so that the test is known to test something.
struct Reached {
  std::uint64_t preemptions = 0;
  std::uint64_t timers = 0;
  std::uint64_t together = 0;  ///< instants at which several steps' ends are told
  std::uint64_t silent = 0;    ///< steps' ends that left no other line
};

void Count(const std::vector<LogRecord>& log, Reached* reached) {
  for (std::size_t i = 0; i < log.size();) {
    std::uint64_t steps = 0, lines = 0;
    for (const Time now = log[i].time; i < log.size() && log[i].time == now; ++i, ++lines) {
      if (log[i].kind != static_cast<std::uint8_t>(LineKind::kEvent)) continue;
      steps += log[i].code == static_cast<std::uint8_t>(EventCode::kStepTimes);
      reached->timers += log[i].code == static_cast<std::uint8_t>(EventCode::kTimer);
    }
    reached->together += steps > 1;
    reached->silent += steps == lines;
  }
}

void ReplaySeed(const Replayed& replayed, const Settings& settings, std::uint64_t seed,
                Reached* reached) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(20), Duration::Nanos(1));
  const std::vector<RequestSpec> requests = RequestsOf(seed, replayed.one_shot);
  const ReplaySetup setup = SetupOf(seed, replayed.one_shot, &model);
  const auto policy = MakePolicy(replayed.policy, settings);
  const RealRun run = RunForReal(setup, seed, policy.get(), requests);
  EXPECT_EQ(run.summary.result, RunResult::kFinished) << run.summary.detail;
  const auto again = MakePolicy(replayed.policy, settings);
  const ReplayReport report = ReplayOf(run.setup, run.log, again.get(), requests);
  EXPECT_FALSE(report.divergence.has_value()) << "after line " << report.lines;
  EXPECT_EQ(report.lines, run.log.size());
  EXPECT_EQ(report.summary.result, run.summary.result);
  EXPECT_EQ(report.summary.decision_digest, run.summary.decision_digest);
  EXPECT_EQ(report.summary.outcome_digest, run.summary.outcome_digest);
  reached->preemptions += run.summary.preemptions;
  Count(run.log, reached);
}

class ReplayOfRealRuns : public testing::TestWithParam<Replayed> {};

TEST_P(ReplayOfRealRuns, IsExactForEverySeed) {
  const Replayed& replayed = GetParam();
  // One that decides ahead has a single form.
  const bool ahead = policy_testing::MinQueueDepth(replayed.policy, replayed.settings) > 1;
  const bool forms =
      !replayed.one_shot && !ahead && policy_testing::HasDecodeMode(*FindPolicy(replayed.policy));
  Reached reached;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const auto& form : kForms) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (forms ? ", " + form.Name() : ""));
      ReplaySeed(replayed, forms ? In(form, replayed.settings) : replayed.settings, seed, &reached);
      if (HasFailure()) return;
      if (!forms) break;
    }
  }
  const std::string policy = replayed.policy;
  EXPECT_GT(reached.together, kSeeds / 2) << "two devices' steps in one wake";
  EXPECT_GE(reached.silent, forms ? kSeeds : 0) << "boundaries inside plans";
  if (policy == "vllm_v1" || policy == "fastserve" || policy == "llumnix" || policy == "conserve" ||
      policy == "hygen") {
    EXPECT_GT(reached.preemptions, kSeeds);
  }
  if (policy == "dynamic_batch") {
    EXPECT_GT(reached.timers, kSeeds / 2);
  }
}

std::string NameOf(const testing::TestParamInfo<Replayed>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Policies, ReplayOfRealRuns, testing::ValuesIn(kReplayed), NameOf);

}  // namespace
}  // namespace schedtwin
