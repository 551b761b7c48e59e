// What a policy asks for may be said in several ways: decodes listed in every plan or standing on
// the device, plans of one step or of thousands. What happens to requests must not depend on it:
// every policy for decoders, on real and on adversarial traffic, with ample memory and far too
// little, on one device and on three, has one outcome digest. And the digests are worth comparing:
// they repeat, and they differ where runs do.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/profile/profile.h"
#include "sim/simulate.h"
#include "tests/support/data.h"
#include "tests/unit/policy_testing.h"
#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::In;
using policy_testing::kForms;
using policy_testing::MakePolicy;
using policy_testing::ScriptSource;
using policy_testing::Settings;
using policy_testing::Tokens;

// The invariant sweep of the other presets costs as much per event as there are requests.
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kAzureRequests = 250;
constexpr std::uint32_t kBurstRequests = 300;
#else
constexpr std::uint64_t kAzureRequests = 2000;
constexpr std::uint32_t kBurstRequests = 3000;
#endif

/// A policy with settings that take it through a path of its own.
struct Variant {
  const char* name;
  const char* policy;
  std::vector<std::pair<std::string, std::string>> settings;
  bool preempts;  ///< when memory is short

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

std::string VariantName(const testing::TestParamInfo<Variant>& info) { return info.param.name; }

const Variant kVariants[] = {
    {"Composed", "composed", {}, true},
    {"ComposedSmallBudget",
     "composed",
     {{"max_num_batched_tokens", "24"}, {"victim_order", "fewest_generated"}},
     true},
    {"ComposedLongestRemaining",
     "composed",
     {{"router", "token_jsq"}, {"victim_order", "longest_remaining"}},
     true},
    {"ComposedStatic",
     "composed",
     {{"batcher", "static"}, {"router", "power_of_two"}, {"victim_order", "lowest_priority"}},
     true},
    {"ComposedDynamo", "composed", {{"router", "dynamo_kv"}}, true},
    {"Fifo", "fifo", {}, false},
    {"Llumnix", "llumnix", {}, true},
    {"LlumnixMultiStages",
     "llumnix",
     {{"stages", "multi"},
      {"last_stage_blocks", "4"},
      {"migration_interval", "20ms"},
      {"migrate_threshold", "30"},
      {"max_num_batched_tokens", "256"}},
     true},
    {"LlumnixByGap",
     "llumnix",
     {{"defragmentation", "false"},
      {"choice", "shortest_running"},
      {"migration_interval", "20ms"},
      {"migrate_threshold", "30"}},
     true},
    {"StaticBatch", "static_batch", {}, false},
    {"StaticBatchTight",
     "static_batch",
     {{"reserve", "max_new_tokens"}, {"keep_padding", "false"}, {"max_batch_size", "7"}},
     false},
    {"VllmV1", "vllm_v1", {}, true},
    {"VllmV1SmallBudget", "vllm_v1", {{"max_num_batched_tokens", "24"}}, true},
    {"VllmV1FirstChunkFits",
     "vllm_v1",
     {{"max_num_batched_tokens", "24"}, {"full_sequence_must_fit", "false"}},
     true},
    {"VllmV1Watermark", "vllm_v1", {{"watermark", "0.02"}}, true},
    {"VllmV1WholePrompts",
     "vllm_v1",
     {{"chunked_prefill", "false"}, {"max_num_batched_tokens", "8192"}},
     true},
    {"VllmV1Priority", "vllm_v1", {{"scheduling_policy", "priority"}}, true},
    {"VllmV1PriorityFirstChunkFits",
     "vllm_v1",
     {{"scheduling_policy", "priority"},
      {"max_num_batched_tokens", "24"},
      {"full_sequence_must_fit", "false"}},
     true},
    {"VllmV1LongPrefills",
     "vllm_v1",
     {{"long_prefill_token_threshold", "5"},
      {"max_num_batched_tokens", "24"},
      {"full_sequence_must_fit", "false"}},
     true},
    {"VllmV1PriorityLongPrefills",
     "vllm_v1",
     {{"scheduling_policy", "priority"},
      {"long_prefill_token_threshold", "5"},
      {"max_num_batched_tokens", "24"},
      {"full_sequence_must_fit", "false"}},
     true},
    {"VllmV1Async", "vllm_v1", {{"async_scheduling", "true"}}, true},
    {"VllmV1AsyncPriority",
     "vllm_v1",
     {{"async_scheduling", "true"},
      {"scheduling_policy", "priority"},
      {"max_num_batched_tokens", "24"}},
     true},
    {"VllmV1FewSeqs", "vllm_v1", {{"max_num_seqs", "6"}, {"max_num_batched_tokens", "512"}}, true},
    {"Vtc", "vtc", {}, true},
    {"VtcFewSeqs", "vtc", {{"max_num_batched_tokens", "24"}, {"max_num_seqs", "6"}}, true},
    {"VtcReleased", "vtc", {{"form", "released"}, {"weights", "1:2"}}, false},
};

/// Traffic and the devices it meets.
struct Workload {
  std::string name;
  std::vector<RequestSpec> requests;
  StepTimeModel model;
  DeviceInfo device;
  std::uint32_t devices = 1;
  bool deadlines_cancel = false;
  std::vector<Fault> faults;
};

RunSummary RunOn(const Workload& workload, const std::string& policy_name, const Settings& settings,
                 std::uint64_t seed = 1, Recorder* recorder = nullptr) {
  const std::unique_ptr<Policy> policy = MakePolicy(policy_name, settings);
  SimSetup setup;
  setup.model = &workload.model;
  setup.device = workload.device;
  setup.device.queue_depth = policy_testing::MinQueueDepth(policy_name, settings);
  setup.devices = workload.devices;
  setup.world.seed = seed;
  setup.world.deadlines_cancel = workload.deadlines_cancel;
  setup.world.faults = workload.faults;
  ScriptSource source(workload.requests);
  RequestSource* const sources[] = {&source};
  return Simulate(setup, policy.get(), sources, recorder, {.steps = recorder != nullptr});
}

std::vector<RequestSpec> Requests(const std::string& spec, std::uint64_t seed,
                                  const TraceSourceOptions& options) {
  std::vector<RequestSpec> requests;
  const auto trace = OpenTrace({.spec = spec, .seed = seed});
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return requests;
  const auto source = TraceSource::Create(*trace, options);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return requests;
  RequestSpec request;
  while ((*source)->Next(&request) == Pull::kRequest) requests.push_back(request);
  return requests;
}

/// One replica near saturation, or three; blocks for the longest request and little more if scarce.
Workload Azure(std::uint32_t devices, bool scarce) {
  TraceSourceOptions options;
  options.limit = kAzureRequests;
  options.rate_scale = {static_cast<std::int64_t>(devices), 1};
  const auto profile = LoadProfile("llama3-8b-a100");
  EXPECT_TRUE(profile.ok()) << profile.status();
  Workload workload{scarce ? "Azure, scarce" : "Azure", Requests(AzureConv(), 1, options),
                    StepTimeModel(*profile), DeviceInfoOf(*profile), devices};
  if (scarce) workload.device.total_blocks = 520;
  return workload;
}

/// Bursts at whole milliseconds, where a step takes a whole number of milliseconds too: arrivals,
/// ends of steps and ends of requests fall on one instant all the time. Short requests and blocks
/// of 4 tokens, so that memory is a matter of single blocks.
Workload Bursts(std::uint32_t devices, bool scarce, std::uint64_t seed) {
  Workload workload{scarce ? "bursts, scarce" : "bursts",
                    {},
                    StepTimeModel::Linear(Duration::Millis(2), Duration::Micros(1000)),
                    {},
                    devices};
  workload.device.block_tokens = 4;
  workload.device.total_blocks = scarce ? 18 : 4096;
  workload.device.block_bytes = 4096;
  workload.device.peer_link = {Duration::Micros(100), 1'000'000'000};
  workload.device.max_model_len_tokens = 64;
  Rng rng(seed, "bursts"), priorities(seed, "priorities");
  std::int64_t at_ms = 0;
  while (workload.requests.size() < kBurstRequests) {
    const std::uint32_t burst = 1 + rng.Below(4);
    for (std::uint32_t i = 0; i < burst; ++i) {
      // A few prompts exceed the small budgets, a few requests end with their first token.
      const std::uint32_t prompt = 1 + rng.Below(rng.Below(4) == 0 ? 40 : 12);
      const std::uint32_t output = 1 + rng.Below(24);
      workload.requests.push_back(Tokens(at_ms * 1'000'000, prompt, output));
      workload.requests.back().tenant = static_cast<std::uint32_t>(workload.requests.size() % 3);
      workload.requests.back().priority = static_cast<std::int32_t>(priorities.Below(3));
    }
    at_ms += rng.Below(static_cast<std::uint32_t>(120 / devices));
  }
  return workload;
}

/// The same, where every other request has a deadline at a whole millisecond, which many miss.
Workload BurstsWithDeadlines(std::uint32_t devices, std::uint64_t seed) {
  Workload workload = Bursts(devices, true, seed);
  workload.name += ", deadlines";
  workload.deadlines_cancel = true;
  Rng rng(seed, "deadlines");
  for (std::size_t i = 0; i < workload.requests.size(); i += 2) {
    RequestSpec& request = workload.requests[i];
    request.deadline = request.arrival + Duration::Millis(1 + rng.Below(120));
  }
  return workload;
}

/// And devices fail, with all that is on them, at the boundary of a step or in the middle of one.
Workload BurstsWithFaults(std::uint32_t devices, std::uint64_t seed) {
  Workload workload = BurstsWithDeadlines(devices, seed);
  workload.name += ", faults";
  const std::int64_t last_ns = workload.requests.back().arrival.ns();
  for (std::uint32_t i = 1; i <= 6; ++i) {
    const std::int64_t at = last_ns / 8 * i / 1'000'000 * 1'000'000 + (i % 2) * 300'000;
    workload.faults.push_back(
        {{i % devices}, Time::Nanos(at), Time::Nanos(at + 50'000'000), /*loses_requests=*/true});
  }
  return workload;
}

class PlanModes : public testing::TestWithParam<Variant> {
 protected:
  /// All forms against the first: one outcome.
  void ExpectOneOutcome(const Workload& workload) {
    SCOPED_TRACE(workload.name + ", " + std::to_string(workload.devices) + " devices");
    const Variant& variant = GetParam();
    const RunSummary first = RunOn(workload, variant.policy, In(kForms[0], variant.settings));
    ASSERT_EQ(first.result, RunResult::kFinished) << first.detail;
    EXPECT_EQ(first.requests, workload.requests.size());
    const bool scarce = workload.name.find("scarce") != std::string::npos;
    if (variant.preempts && scarce) {
      EXPECT_GT(first.preemptions, 0u);
    } else if (!variant.preempts) {
      EXPECT_EQ(first.preemptions, 0u);
    }
    if (workload.deadlines_cancel) {
      EXPECT_GT(first.ended[static_cast<int>(EndReason::kTimedOut)], workload.requests.size() / 20);
    }
    if (!workload.faults.empty()) {
      EXPECT_GT(first.ended[static_cast<int>(EndReason::kFailed)], 0u);
    }
    for (const Form& form : kForms) {
      SCOPED_TRACE(form.Name());
      const RunSummary other = RunOn(workload, variant.policy, In(form, variant.settings));
      ASSERT_EQ(other.result, RunResult::kFinished) << other.detail;
      EXPECT_EQ(other.outcome_digest, first.outcome_digest);
      EXPECT_EQ(other.steps, first.steps);
      EXPECT_EQ(other.preemptions, first.preemptions);
      EXPECT_EQ(other.last_end, first.last_end);
      for (int reason = 0; reason < 6; ++reason) {
        EXPECT_EQ(other.ended[reason], first.ended[reason]);
      }
      if (workload.faults.empty()) ExpectNothingRefused(other);
    }
  }

  /// A policy knows what it may ask for; only the listed form of vllm_v1 asks for blocks to find
  /// out.
  static void ExpectNothingRefused(const RunSummary& summary) {
    for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
      if (i == static_cast<std::size_t>(Refusal::kNoMemory)) continue;
      EXPECT_EQ(summary.refusals[i], 0u) << "reason " << i;
    }
  }
};

TEST_P(PlanModes, OneOutcomeOnAzureConv) {
  for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(Azure(devices, false));
}
TEST_P(PlanModes, OneOutcomeOnAzureConvShortOfMemory) {
  for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(Azure(devices, true));
}
TEST_P(PlanModes, OneOutcomeOnBurstsWithTies) {
  for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(Bursts(devices, false, 1));
}
TEST_P(PlanModes, OneOutcomeOnBurstsWithTiesShortOfMemory) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(Bursts(devices, true, seed));
  }
}

TEST_P(PlanModes, OneOutcomeOnBurstsWithDeadlinesShortOfMemory) {
  for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(BurstsWithDeadlines(devices, 1));
}
TEST_P(PlanModes, OneOutcomeOnBurstsWithFaults) {
  for (const std::uint32_t devices : {1u, 3u}) ExpectOneOutcome(BurstsWithFaults(devices, 1));
}

TEST_P(PlanModes, DigestsRepeatAndTellRunsApart) {
  const Variant& variant = GetParam();
  std::map<std::uint64_t, std::string> decisions;
  std::set<std::uint64_t> outcomes;
  for (const Form& form : {kForms[0], kForms[2]}) {
    for (const bool scarce : {false, true}) {
      const Workload workload = Bursts(1, scarce, 5);
      const Settings settings = In(form, variant.settings);
      const RunSummary once = RunOn(workload, variant.policy, settings);
      const RunSummary again = RunOn(workload, variant.policy, settings);
      EXPECT_EQ(once.outcome_digest, again.outcome_digest);
      EXPECT_EQ(once.decision_digest, again.decision_digest);
      EXPECT_EQ(once.events, again.events);
      outcomes.insert(once.outcome_digest);
      decisions.emplace(once.decision_digest, form.Name());
    }
  }
  if (variant.preempts) {
    EXPECT_EQ(outcomes.size(), 2u) << "memory made no difference";
  }
  EXPECT_GE(decisions.size(), 2u) << "listed plans are other decisions than standing ones";
}

TEST_P(PlanModes, AnotherSeedOfTheTraceIsAnotherOutcome) {
  TraceSourceOptions options;
  options.limit = 100;
  Workload workload = Azure(1, false);
  std::set<std::uint64_t> outcomes, decisions;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    workload.requests = Requests("synth:azure_conv", seed, options);
    const RunSummary run = RunOn(workload, GetParam().policy, GetParam().settings);
    outcomes.insert(run.outcome_digest);
    decisions.insert(run.decision_digest);
  }
  EXPECT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(decisions.size(), 3u);
}

TEST_P(PlanModes, RunThatDrawsNothingIsTheSameUnderEverySeed) {
  Workload workload = Azure(1, false);
  std::set<std::uint64_t> outcomes, decisions;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    workload.requests = Requests("synth:deterministic:count=100,rate=5", seed, {});
    const RunSummary run = RunOn(workload, GetParam().policy, GetParam().settings, seed);
    ASSERT_EQ(run.ended[0], 100u);
    outcomes.insert(run.outcome_digest);
    decisions.insert(run.decision_digest);
  }
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(decisions.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Policies, PlanModes, testing::ValuesIn(kVariants), VariantName);

// The bursts are what they are said to be: many arrivals fall on the very end of a step.
TEST(PlanModesWorkload, BurstsTieWithEndsOfSteps) {
  const Workload workload = Bursts(1, true, 1);
  policy_testing::KeepAll kept;
  ASSERT_EQ(RunOn(workload, "vllm_v1", {}, 1, &kept).result, RunResult::kFinished);
  std::set<std::int64_t> ends;
  for (const StepRecord& step : kept.steps) ends.insert(step.end.ns());
  std::uint64_t ties = 0;
  for (const RequestRecord& request : kept.requests) ties += ends.count(request.arrival.ns());
  EXPECT_GT(ties, kBurstRequests / 20);
}

// Parts put together as vLLM has them are vLLM.
TEST(PlanModesWorkload, ComposedOfVllmsPartsDoesWhatVllmV1Does) {
  const Settings small_budget = {{"max_num_batched_tokens", "24"}};
  for (const std::uint32_t devices : {1u, 3u}) {
    for (const bool scarce : {false, true}) {
      EXPECT_EQ(RunOn(Azure(devices, scarce), "composed", {}).outcome_digest,
                RunOn(Azure(devices, scarce), "vllm_v1", {}).outcome_digest);
      const Workload bursts = Bursts(devices, scarce, 4);
      EXPECT_EQ(RunOn(bursts, "composed", small_budget).outcome_digest,
                RunOn(bursts, "vllm_v1", small_budget).outcome_digest);
    }
  }
}

// Every policy for decoders is among the variants, but for those that have no modes.
TEST(PlanModesWorkload, CoversEveryDecoderPolicy) {
  for (const PolicyInfo* info : Policies()) {
    bool covered = !info->decoder || !policy_testing::HasDecodeMode(*info);
    for (const Variant& variant : kVariants) covered |= info->name == variant.policy;
    EXPECT_TRUE(covered) << info->name;
  }
}

}  // namespace
}  // namespace schedtwin
