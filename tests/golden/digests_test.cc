// Runs whose digests are written down: every preset, compiler and machine must come to the same 64
// bits, and so must every later version of the program. A row that changes is a change of what
// happens to requests (outcome) or of what policies are told and decide (decision): say in the
// commit which and why. The failure prints the row as it would have to be.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "policies/profile/profile.h"
#include "policies/runtime/digest.h"
#include "sim/simulate.h"
#include "tests/unit/policy_testing.h"
#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

struct Golden {
  const char* name;
  const char* policy;
  std::vector<std::pair<std::string, std::string>> settings;
  const char* profile;
  const char* trace;  ///< with seed 1
  std::uint32_t devices;
  std::uint32_t kv_blocks;  ///< 0: the profile's own
  const char* outcome;
  const char* decision;

  friend void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }
};

constexpr char kLlama[] = "llama3-8b-a100";
constexpr char kResnet[] = "resnet50-t4";
constexpr char kChat[] = "synth:azure_conv:count=250";
constexpr char kImages[] = "synth:poisson:count=1500,rate=90,units=2,unit_dist=exponential";
constexpr char kMixed[] =
    "synth:poisson:count=250,rate=8,prompt=900,output=120,token_dist=exponential";

const Golden kGolden[] = {
    {"Clockwork", "clockwork", {}, kResnet, kImages, 1, 0, "6194cad8d07796da", "4ede8bbd0a04d69b"},
    {"ClockworkAheadOnTwo",
     "clockwork",
     {{"default_slo", "60ms"}, {"schedule_ahead", "20ms"}},
     kResnet,
     kImages,
     2,
     0,
     "b1576e508809839a",
     "c2f5e165e929482d"},
    {"ComposedChat", "composed", {}, kLlama, kChat, 1, 0, "0ccac2f215121b39", "b6d476a33d3a0ab3"},
    {"ComposedByTwoChoices",
     "composed",
     {{"router", "power_of_two"}, {"victim_order", "longest_remaining"}},
     kLlama,
     kMixed,
     3,
     600,
     "e4cd59ccb6d84b9b",
     "e2259c39ee789692"},
    {"ComposedDynamoOnThree",
     "composed",
     {{"router", "dynamo_kv"}},
     kLlama,
     kMixed,
     3,
     600,
     "e03060496215c817",
     "34d83458fb885b6c"},
    {"ComposedScaled",
     "composed",
     {{"router", "dynamo_kv_2025"}, {"scaler", "hpa"}, {"scaler_target", "12"}},
     kLlama,
     kMixed,
     3,
     600,
     "2704f5bf9a0f46ad",
     "69db0a8d040f08af"},
    {"ConserveChat", "conserve", {}, kLlama, kChat, 1, 0, "e1d43cd84f7562d5", "66b6607b218ae561"},
    {"ConserveOfflineShortOfMemory",
     "conserve",
     {{"offline_class", "0"}},
     kLlama,
     kMixed,
     1,
     600,
     "a5fd4cd5dd442380",
     "7ebd1fb25e7efb54"},
    {"FastServeChat", "fastserve", {}, kLlama, kChat, 1, 0, "d6d75c4722661e8f", "6913fa862760a9e1"},
    {"FastServeShortOfMemory",
     "fastserve",
     {},
     kLlama,
     kMixed,
     1,
     600,
     "1168ff6a06b944be",
     "3d40bfee4ec703da"},
    {"FifoImages", "fifo", {}, kResnet, kImages, 1, 0, "3b91c855729aab96", "e063a846658f6d33"},
    {"FifoChatOnTwo", "fifo", {}, kLlama, kChat, 2, 0, "e19689cdae592c42", "60258537477ba201"},
    {"HygenChatOnTwo", "hygen", {}, kLlama, kChat, 2, 0, "bf22b51b88afbc19", "8fea93e1f0760000"},
    {"HygenOfflineShortOfMemory",
     "hygen",
     {{"offline_class", "0"}},
     kLlama,
     kMixed,
     1,
     600,
     "4c99e9c5947cdde6",
     "7e4838b486ea304e"},
    {"ImmediateOnThree",
     "immediate",
     {},
     kResnet,
     kImages,
     3,
     0,
     "cb311e4f752e80d4",
     "efcdd9354863d8a4"},
    {"DynamicBatch",
     "dynamic_batch",
     {},
     kResnet,
     kImages,
     1,
     0,
     "3f60182fb916bd91",
     "14fc38001cdf179b"},
    {"DynamicBatchOnTwo",
     "dynamic_batch",
     {{"max_batch_size", "8"}, {"max_queue_delay", "20ms"}},
     kResnet,
     kImages,
     2,
     0,
     "36fc56bbabf3bc81",
     "97e21ad1bbd13a3f"},
    {"LlumnixChat", "llumnix", {}, kLlama, kChat, 1, 0, "0ccac2f215121b39", "b6d476a33d3a0ab3"},
    {"LlumnixOnThree",
     "llumnix",
     {{"migrate_threshold", "30"}, {"max_num_batched_tokens", "512"}},
     kLlama,
     kMixed,
     3,
     250,
     "a79fd632d7defe08",
     "59f7c69439229a77"},
    {"StaticBatchImages",
     "static_batch",
     {},
     kResnet,
     kImages,
     1,
     0,
     "96a382d55c829276",
     "718dfb5e59378888"},
    {"StaticBatchChat",
     "static_batch",
     {},
     kLlama,
     kChat,
     1,
     0,
     "eb7c2954b86f0d50",
     "d68be7e011cfc755"},
    {"StaticBatchShrinking",
     "static_batch",
     {{"keep_padding", "false"}, {"reserve", "max_new_tokens"}, {"standing_set", "false"}},
     kLlama,
     kMixed,
     1,
     0,
     "f97f24155e5ae505",
     "3efd9b087ef7a2a9"},
    {"TritonDynamic",
     "triton_dynamic",
     {},
     kResnet,
     kImages,
     1,
     0,
     "96a382d55c829276",
     "351d788f60acd187"},
    {"TritonDynamicByPolicies",
     "triton_dynamic",
     {{"preferred_batch_size", "4:8"},
      {"max_queue_delay", "10ms"},
      {"preserve_ordering", "true"},
      {"default_timeout", "400ms"}},
     kResnet,
     kImages,
     2,
     0,
     "2d9ce390fa15c806",
     "8f63fd623e12f716"},
    {"VllmV1Chat", "vllm_v1", {}, kLlama, kChat, 1, 0, "0ccac2f215121b39", "b6d476a33d3a0ab3"},
    {"VllmV1ChatListedByStep",
     "vllm_v1",
     {{"standing_set", "false"}, {"plan_steps", "1"}},
     kLlama,
     kChat,
     1,
     0,
     "0ccac2f215121b39",
     "988ea1e2903433a2"},
    {"VllmV1OnThree",
     "vllm_v1",
     {{"max_num_batched_tokens", "512"}},
     kLlama,
     kMixed,
     3,
     0,
     "e3ca8b76051512b5",
     "e49f496db352b2d4"},
    {"VllmV1ShortOfMemory",
     "vllm_v1",
     {},
     kLlama,
     kMixed,
     1,
     600,
     "74a6afda52eeb130",
     "6e6cf18bf0b590b4"},
    {"VllmV1FirstChunkFits",
     "vllm_v1",
     {{"max_num_batched_tokens", "256"}, {"full_sequence_must_fit", "false"}},
     kLlama,
     kMixed,
     1,
     600,
     "1de440547f061503",
     "b4c555a2bbcc213f"},
    {"VllmV1LongPrefills",
     "vllm_v1",
     {{"long_prefill_token_threshold", "256"}, {"watermark", "0.02"}},
     kLlama,
     kMixed,
     1,
     600,
     "b21e90d556eb1658",
     "b5715699c72682d4"},
    {"VllmV1Async",
     "vllm_v1",
     {{"async_scheduling", "true"}},
     kLlama,
     kMixed,
     1,
     600,
     "d819b98fb2c30100",
     "4126c6f33ef9fb2b"},
    {"VtcShortOfMemory", "vtc", {}, kLlama, kMixed, 1, 600, "e7f1bb42f2a414e7", "86e7c3d87ccc933b"},
};

class GoldenDigests : public testing::TestWithParam<Golden> {};

TEST_P(GoldenDigests, AreTheSameEverywhere) {
  const Golden& golden = GetParam();
  const auto profile = LoadProfile(golden.profile);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const StepTimeModel model(*profile);
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(*profile);
  setup.device.queue_depth = policy_testing::MinQueueDepth(golden.policy, golden.settings);
  if (golden.kv_blocks > 0) setup.device.total_blocks = golden.kv_blocks;
  setup.devices = golden.devices;
  const auto trace = OpenTrace({.spec = golden.trace, .seed = 1});
  ASSERT_TRUE(trace.ok()) << trace.status();
  TraceSourceOptions view;
  view.as_units = profile->kind == ModelKind::kOneShot;
  const auto source = TraceSource::Create(*trace, view);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::unique_ptr<Policy> policy = policy_testing::MakePolicy(golden.policy, golden.settings);
  ASSERT_NE(policy, nullptr);
  RequestSource* const sources[] = {source->get()};
  const RunSummary summary = Simulate(setup, policy.get(), sources, nullptr, {});
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.requests, (*source)->size());
  EXPECT_EQ(summary.preemptions > 0, golden.kv_blocks > 0);
  const std::string outcome = DigestText(summary.outcome_digest);
  const std::string decision = DigestText(summary.decision_digest);
  EXPECT_TRUE(outcome == golden.outcome && decision == golden.decision)
      << golden.name << ": \"" << outcome << "\", \"" << decision << "\"";
}

std::string GoldenName(const testing::TestParamInfo<Golden>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Runs, GoldenDigests, testing::ValuesIn(kGolden), GoldenName);

}  // namespace
}  // namespace schedtwin
