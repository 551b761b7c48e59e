// Every router of `composed`, on reports where it hears them, and its scaler: the same in the
// simulator and on the processor, whose run is replayed.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/texts.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Settings;

MakePolicy Composed(const Settings& settings) {
  return [settings] { return policy_testing::MakePolicy("composed", settings); };
}

/// Three conversations of ten requests, a millisecond apart, that begin alike.
std::vector<RequestSpec> Conversations(Texts* texts) {
  std::vector<RequestSpec> requests;
  for (std::uint64_t i = 0; i < 30; ++i) {
    requests.push_back(texts->Request(static_cast<std::int64_t>(i) * 1'000'000,
                                      {{1, 16}, {2 + i % 3, 40}, {10 + i, 8}}, 6));
    requests.back().session = 1 + i % 3;
  }
  return requests;
}

class EveryRouter : public testing::TestWithParam<std::tuple<TestWorld, std::string>> {};

TEST_P(EveryRouter, ServesOnReportsWithAPrefixCache) {
  const auto& [world, router] = GetParam();
  TwoWorlds run;
  run.devices = 3;
  run.options.prefix_cache = true;
  run.options.report_interval = Duration::Millis(2);
  run.options.report_delay = Duration::Micros(500);
  Texts texts;
  const RunSummary summary = run.Run(world, Composed({{"router", router}}), Conversations(&texts));
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 30u);
  for (const std::uint64_t refusals : summary.refusals) EXPECT_EQ(refusals, 0u);
  std::uint32_t cached = 0;
  for (const RequestRecord& record : run.recorder.requests) cached += record.cached_tokens;
  EXPECT_GT(cached, 0u);
}

std::vector<std::string> Routers() {
  for (const ParameterSpec& spec : FindPolicy("composed")->parameters) {
    if (spec.name == "router") return {spec.choices.begin(), spec.choices.end()};
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryRouter,
                         testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                                          testing::ValuesIn(Routers())),
                         [](const auto& param_info) {
                           return std::string(std::get<0>(param_info.param) == TestWorld::kSim
                                                  ? "sim_"
                                                  : "cpu_") +
                                  std::get<1>(param_info.param);
                         });

class ScaledWorld : public testing::TestWithParam<TestWorld> {};

TEST_P(ScaledWorld, HpaAddsDevicesAndTheyServe) {
  TwoWorlds run;
  run.devices = 3;
  run.options.devices_at_start = 1;
  // Requests go on for 0.4 s, long after any pause of a slow machine.
  run.layer_pause = Duration::Millis(2);
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 80; ++i) requests.push_back(TokenRequest(i * 5'000'000, 9, 12));
  const RunSummary summary = run.Run(GetParam(),
                                     Composed({{"router", "least_outstanding"},
                                               {"scaler", "hpa"},
                                               {"scaler_target", "2"},
                                               {"scale_interval", "10ms"},
                                               {"scale_down_window", "20ms"}}),
                                     requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 80u);
  std::set<std::uint32_t> before, after;
  for (const RequestRecord& record : run.recorder.requests) {
    (record.admitted < Time::Nanos(10'000'000) ? before : after).insert(record.device.value);
  }
  EXPECT_EQ(before, std::set<std::uint32_t>({0}));
  EXPECT_EQ(after.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, ScaledWorld, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace schedtwin
