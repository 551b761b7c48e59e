// What old reports do to routers, in simulation: the share of the fleet's load that the fullest
// device has. Eight devices, 56 requests a second, about eight on each device; the ratio of the
// largest to the mean number outstanding, at the arrivals after the first ten seconds.
//
// A router that goes by reports alone sends all that arrive between two of them to one device. What
// it has sent since, counted on top, mends it. Prints the table of policies/parts/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "sim/simulate.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::MakePolicy;
using policy_testing::ScriptSource;
using policy_testing::Settings;

constexpr std::uint32_t kDevices = 8;
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint32_t kRequests = 2'000;
#else
constexpr std::uint32_t kRequests = 12'000;
#endif

std::vector<RequestSpec> Traffic() {
  Rng rng(7, "arrivals");
  std::vector<RequestSpec> requests;
  double at = 0;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    at += rng.Exponential() / 56;
    RequestSpec request = {.arrival = Time::Nanos(static_cast<std::int64_t>(at * 1e9))};
    request.prompt_tokens = 1 + static_cast<std::uint32_t>(400 * rng.Exponential());
    request.output_tokens = 1 + static_cast<std::uint32_t>(80 * rng.Exponential());
    requests.push_back(request);
  }
  return requests;
}

/// 99th percentile of largest over mean outstanding.
double Imbalance(const std::vector<RequestRecord>& records) {
  struct Move {
    Time at;
    std::uint32_t device;
    bool arrives;
  };
  std::vector<Move> moves;
  for (const RequestRecord& record : records) {
    moves.push_back({record.arrival, record.device.value, true});
    moves.push_back({record.end, record.device.value, false});
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.at < b.at; });
  std::vector<double> outstanding(kDevices), ratios;
  double total = 0;
  for (const Move& move : moves) {
    outstanding[move.device] += move.arrives ? 1 : -1;
    total += move.arrives ? 1 : -1;
    if (!move.arrives || move.at < Time::Nanos(10'000'000'000)) continue;
    ratios.push_back(*std::max_element(outstanding.begin(), outstanding.end()) * kDevices / total);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() * 99 / 100];
}

struct Reports {
  Duration interval;
  Duration delay;
};
constexpr Reports kFresh = {Duration::Millis(1), Duration()};
constexpr Reports kOld = {Duration::Seconds(1), Duration()};

double ImbalanceOf(const std::string& router, bool optimistic, const Reports& reports) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Millis(8), Duration::Micros(40));
  SimSetup setup;
  setup.model = &model;
  setup.devices = kDevices;
  setup.device.total_blocks = 4'000;
  setup.device.block_tokens = 16;
  setup.device.max_model_len_tokens = 8'192;
  setup.world.report_interval = reports.interval;
  setup.world.report_delay = reports.delay;
  const auto policy = MakePolicy(
      "composed", {{"router", router}, {"optimistic_updates", optimistic ? "true" : "false"}});
  ScriptSource source(Traffic());
  RequestSource* const sources[] = {&source};
  policy_testing::KeepAll kept;
  const RunSummary summary = Simulate(setup, policy.get(), sources, &kept, {});
  EXPECT_EQ(summary.ended[0], kRequests) << summary.detail;
  const double imbalance = Imbalance(kept.requests);
  std::cout << "| `" << router << "` | " << (optimistic ? "yes" : "no") << " | "
            << reports.interval.ns() / 1'000'000 << " ms | " << std::fixed << std::setprecision(2)
            << imbalance << " |\n";
  return imbalance;
}

struct ByReports {
  const char* router;
  double within;  ///< of what fresh reports give: with those that are old and what was sent since
};

class RouterStaleness : public testing::TestWithParam<ByReports> {};

TEST_P(RouterStaleness, OldReportsHerdUnlessWhatWasSentIsCounted) {
  const double fresh = ImbalanceOf(GetParam().router, false, kFresh);
  const double old = ImbalanceOf(GetParam().router, false, kOld);
  const double optimistic = ImbalanceOf(GetParam().router, true, kOld);
  EXPECT_GE(old, 2 * fresh);
  EXPECT_LE(optimistic, GetParam().within * fresh);
}

INSTANTIATE_TEST_SUITE_P(ByReports, RouterStaleness,
                         testing::Values(ByReports{"dynamo_kv_2025", 1.2},
                                         ByReports{"reported_jsq", 1.5}),
                         [](const auto& param_info) {
                           return std::string(param_info.param.router);
                         });

// Routers with books of their own do not hear reports: how old these are changes nothing.
TEST(RouterStalenessOfOwnBooks, DoesNotMatter) {
  for (const char* router : {"dynamo_kv", "power_of_two", "round_robin"}) {
    const double fresh = ImbalanceOf(router, true, kFresh);
    EXPECT_EQ(ImbalanceOf(router, true, kOld), fresh) << router;
    EXPECT_EQ(ImbalanceOf(router, false, kOld), fresh) << router;
  }
}

}  // namespace
}  // namespace schedtwin
