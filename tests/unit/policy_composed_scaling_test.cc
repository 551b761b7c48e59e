// composed with a scaler, tick by tick; and routers that hear reports, a scaler and the prefix
// cache together, where memory is scarce: one outcome in all forms. A step takes 1 ns for each
// token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;

/// Four devices, of which one is there at the start; the scaler looks at 100, 200, ... ns.
Script Scaled(const Form& form, Settings settings, std::vector<RequestSpec> requests) {
  settings.insert(settings.begin(), {{"scaler", "hpa"},
                                     {"scaler_target", "2"},
                                     {"scale_interval", "100ns"},
                                     {"scale_down_window", "300ns"},
                                     {"router", "least_outstanding"}});
  Script script{.policy = "composed",
                .settings = policy_testing::In(form, settings),
                .requests = std::move(requests)};
  script.device.total_blocks = 64;
  script.device.block_tokens = 4;
  script.device.max_model_len_tokens = 4096;
  script.devices = 4;
  script.options.devices_at_start = 1;
  return script;
}

std::vector<std::uint32_t> DevicesOf(const Played& played) {
  std::vector<std::uint32_t> devices;
  for (const RequestRecord& request : played.requests) devices.push_back(request.device.value);
  return devices;
}

class ComposedScaling : public testing::TestWithParam<Form> {};

TEST_P(ComposedScaling, AddsWhatTheTotalAsksForAtTheTick) {
  // Five are outstanding at 100 ns: ceil(5 / 2) = 3 devices. Nobody moves; who comes then is
  // spread.
  std::vector<RequestSpec> requests(5, Tokens(0, 1, 100));
  requests.push_back(Tokens(99, 1, 100));
  for (int i = 0; i < 4; ++i) requests.push_back(Tokens(101, 1, 20));
  requests.erase(requests.begin());
  const Played played = Play(Scaled(GetParam(), {}, requests));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_THAT(DevicesOf(played), ElementsAre(0, 0, 0, 0, 0, 1, 2, 1, 2));
}

TEST_P(ComposedScaling, MeanMultipliesByThoseThatAreReady) {
  // 6 outstanding on the one that is ready, 3 times the target: ceil(3 * 1) = 3.
  std::vector<RequestSpec> requests(6, Tokens(0, 1, 100));
  for (int i = 0; i < 2; ++i) requests.push_back(Tokens(101, 1, 20));
  const Played played = Play(Scaled(GetParam(), {{"scaler_metric", "mean"}}, requests));
  EXPECT_THAT(DevicesOf(played), ElementsAre(0, 0, 0, 0, 0, 0, 1, 2));
}

TEST_P(ComposedScaling, DrainsTheHighestOnceTheWindowIsOver) {
  // 8 at 100 ns: all four devices. From about 150 ns one is left. The 4 of the first tick are out
  // of the window of 300 ns at 500 ns; until then who comes is spread over all.
  std::vector<RequestSpec> requests(7, Tokens(0, 1, 14));
  requests.push_back(Tokens(0, 1, 800));
  for (const std::int64_t at : {301, 301, 301, 501, 501, 501}) {
    requests.push_back(Tokens(at, 1, 2));
  }
  const Played played = Play(Scaled(GetParam(), {}, requests));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  const std::vector<std::uint32_t> devices = DevicesOf(played);
  EXPECT_THAT(std::vector(devices.begin() + 8, devices.begin() + 11), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::vector(devices.begin() + 11, devices.end()), ElementsAre(0, 0, 0));
}

TEST_P(ComposedScaling, KeepsAsManyAsItIsTold) {
  std::vector<RequestSpec> requests = {Tokens(0, 1, 400)};
  for (int i = 0; i < 3; ++i) requests.push_back(Tokens(101, 1, 2));
  const Played played = Play(Scaled(GetParam(), {{"min_devices", "2"}}, requests));
  EXPECT_THAT(DevicesOf(played), ElementsAre(0, 1, 0, 1)) << "never below two";
}

TEST_P(ComposedScaling, WhoWaitsForADeviceThatGoesIsServedElsewhere) {
  // Five of seven are left at 100 ns: a second device. The 2 of that tick are out of the window at
  // 500 ns, when four are there: request 7 runs on device 1 to its end, and request 9, which waits
  // behind it, goes to device 0.
  std::vector<RequestSpec> requests(7, Tokens(0, 1, 45));
  for (int i = 0; i < 4; ++i) requests.push_back(Tokens(495, 1, 80));
  const Played played = Play(
      Scaled(GetParam(), {{"router", "round_robin"}, {"max_num_seqs", "1"}, {"scaler_target", "4"}},
             requests));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_THAT(DevicesOf(played), ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0));
  EXPECT_EQ(played.requests[7].end, Time::Nanos(575));
}

TEST_P(ComposedScaling, WhoWaitsForADeviceThatIsDownCanLeave) {
  // As above, but device 0 is down from 498 to 700 ns: who waited on device 1 waits for it, bound
  // to none, and leaves before it is back.
  std::vector<RequestSpec> requests(7, Tokens(0, 1, 45));
  for (int i = 0; i < 4; ++i) requests.push_back(Tokens(495, 1, 80));
  requests[9].leaves = Time::Nanos(600);
  Script script =
      Scaled(GetParam(), {{"router", "round_robin"}, {"max_num_seqs", "1"}, {"scaler_target", "4"}},
             requests);
  const Fault faults[] = {{{0}, Time::Nanos(498), Time::Nanos(700), /*loses_requests=*/false}};
  script.options.faults = faults;
  const Played played = Play(script);
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  EXPECT_EQ(played.requests[9].reason, EndReason::kCancelled);
  for (const std::uint32_t id : {7, 8, 10}) {
    EXPECT_EQ(played.requests[id].reason, EndReason::kCompleted) << id;
  }
}

TEST_P(ComposedScaling, AsksForNoMoreThanThereAre) {
  std::vector<RequestSpec> requests(40, Tokens(0, 1, 30));
  for (int i = 0; i < 3; ++i) requests.push_back(Tokens(101, 1, 2));
  const Played played = Play(Scaled(GetParam(), {}, requests));
  ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  for (const std::uint64_t refusals : played.summary.refusals) EXPECT_EQ(refusals, 0u);
  EXPECT_EQ(DevicesOf(played).back(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Forms, ComposedScaling, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

// ---- One outcome in all forms ----

std::vector<RequestSpec> Rush(std::uint64_t seed) {
  Rng rng(seed, "requests");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  while (requests.size() < 300) {
    at += rng.Below(rng.Below(3) == 0 ? 60 : 6);
    requests.push_back(Tokens(at, 1 + rng.Below(30), 1 + rng.Below(40)));
  }
  return requests;
}

class ComposedReports : public testing::TestWithParam<const char*> {};

TEST_P(ComposedReports, OneOutcomeInAllForms) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    for (const bool optimistic : {true, false}) {
      std::vector<std::uint64_t> outcomes;
      for (const Form& form : policy_testing::kForms) {
        Script script = Scaled(form,
                               {{"router", GetParam()},
                                {"optimistic_updates", optimistic ? "true" : "false"},
                                {"scaler_target", "6"}},
                               Rush(seed));
        script.device.total_blocks = 40;
        script.device.max_model_len_tokens = 80;
        script.options.report_interval = Duration::Nanos(25);
        script.options.report_delay = Duration::Nanos(7);
        script.options.prefix_cache = true;
        const Played played = Play(script);
        ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
        EXPECT_EQ(played.summary.ended[0], 300u);
        EXPECT_GT(played.summary.preemptions, 0u);
        for (const std::uint64_t refusals : played.summary.refusals) EXPECT_EQ(refusals, 0u);
        outcomes.push_back(played.summary.outcome_digest);
      }
      EXPECT_THAT(outcomes, testing::Each(outcomes[0])) << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Routers, ComposedReports,
                         testing::Values("round_robin", "dynamo_kv", "dynamo_kv_2025",
                                         "reported_jsq"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace schedtwin
