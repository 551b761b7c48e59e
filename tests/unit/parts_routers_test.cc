// Routers alone, on devices and requests as the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "policies/parts/dynamo_kv.h"
#include "policies/parts/dynamo_kv_2025.h"
#include "policies/parts/least_outstanding.h"
#include "policies/parts/power_of_two.h"
#include "policies/parts/reported_jsq.h"
#include "policies/parts/round_robin.h"
#include "policies/parts/session_affinity.h"
#include "policies/parts/token_jsq.h"
#include "tests/support/fake_context.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;

std::uint32_t Send(Router* router, const FakeContext& context, std::uint32_t request) {
  const DeviceId device = router->Pick(context, {request});
  router->OnSent(context, {request}, device);
  return device.value;
}

std::vector<std::uint32_t> SendMany(Router* router, const FakeContext& context, std::uint32_t first,
                                    std::uint32_t count) {
  std::vector<std::uint32_t> devices;
  for (std::uint32_t i = 0; i < count; ++i) devices.push_back(Send(router, context, first + i));
  return devices;
}

struct Kind {
  const char* name;
  std::unique_ptr<Router> (*make)();
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};
template <class R>
std::unique_ptr<Router> MakeRouter() {
  return std::make_unique<R>();
}

class EveryRouter : public testing::TestWithParam<Kind> {};

TEST_P(EveryRouter, PicksOnlyWhatIsUp) {
  const auto router = GetParam().make();
  FakeContext context(5);
  context.views[0].state = DeviceState::kFailed;
  context.views[1].state = DeviceState::kDraining;
  context.views[3].state = DeviceState::kStarting;
  std::set<std::uint32_t> used;
  for (std::uint32_t i = 0; i < 100; ++i) used.insert(Send(router.get(), context, i));
  EXPECT_THAT(used, ElementsAre(2, 4));
  context.views[4].state = DeviceState::kOff;
  for (std::uint32_t i = 100; i < 110; ++i) EXPECT_EQ(Send(router.get(), context, i), 2u);
  context.views[2].state = DeviceState::kFailed;
  EXPECT_FALSE(router->Pick(context, {200}).valid());
  context.views[3].state = DeviceState::kUp;
  EXPECT_EQ(router->Pick(context, {201}).value, 3u);
}

TEST_P(EveryRouter, DoesTheSameAgain) {
  FakeContext context(4);
  for (std::uint32_t i = 0; i < 300; ++i) context.cold[i].spec.session = i % 7;
  const auto one = GetParam().make();
  const auto other = GetParam().make();
  EXPECT_EQ(SendMany(one.get(), context, 0, 300), SendMany(other.get(), context, 0, 300));
}

TEST_P(EveryRouter, ForgetsWhatIsOver) {
  FakeContext context(3);
  const auto router = GetParam().make();
  // Were anything left behind by a thousand rounds, the loads would be far apart.
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const DeviceId device{Send(router.get(), context, i)};
    if (i % 2 == 0) {
      context.hot[i].output_tokens = 1;
      router->OnPrefilled(context, {i}, device);
    }
    router->OnEnd(context, {i}, device);
  }
  std::map<std::uint32_t, int> sent;
  for (std::uint32_t i = 3000; i < 3300; ++i) ++sent[Send(router.get(), context, i)];
  for (const auto& [device, count] : sent) EXPECT_NEAR(count, 100, 30) << device;
}

INSTANTIATE_TEST_SUITE_P(Routers, EveryRouter,
                         testing::Values(Kind{"RoundRobin", MakeRouter<RoundRobin>},
                                         Kind{"LeastOutstanding", MakeRouter<LeastOutstanding>},
                                         Kind{"PowerOfTwo", MakeRouter<PowerOfTwo>},
                                         Kind{"TokenJsq", MakeRouter<TokenJsq>},
                                         Kind{"ReportedJsq", MakeRouter<ReportedJsq>},
                                         Kind{"SessionAffinity", MakeRouter<SessionAffinity>},
                                         Kind{"DynamoKv", MakeRouter<DynamoKv>},
                                         Kind{"DynamoKv2025", MakeRouter<DynamoKv2025>}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(RoundRobin, GoesInTurnAndOn) {
  FakeContext context(3);
  RoundRobin router;
  EXPECT_THAT(SendMany(&router, context, 0, 4), ElementsAre(0, 1, 2, 0));
  context.views[1].state = DeviceState::kFailed;
  EXPECT_THAT(SendMany(&router, context, 4, 3), ElementsAre(2, 0, 2));
  context.views[0].state = context.views[2].state = DeviceState::kFailed;
  EXPECT_EQ(router.Next(context).value, 0u) << "for those who wait for it to come back";
  EXPECT_EQ(router.Next(context).value, 1u);
}

TEST(LeastOutstanding, FillsTheEmptiest) {
  FakeContext context(3);
  LeastOutstanding router;
  EXPECT_THAT(SendMany(&router, context, 0, 4), ElementsAre(0, 1, 2, 0));
  router.OnEnd(context, {1}, {1});
  router.OnEnd(context, {2}, {2});
  EXPECT_THAT(SendMany(&router, context, 4, 3), ElementsAre(1, 2, 1));  // 2, 0 and 0 before
}

TEST(PowerOfTwo, KeepsLoadsCloserThanOneRandomChoiceWould) {
  FakeContext context(64);
  PowerOfTwo router;
  std::map<std::uint32_t, int> load;
  for (std::uint32_t i = 0; i < 1024; ++i) ++load[Send(&router, context, i)];
  int most = 0;
  for (const auto& [device, count] : load) most = std::max(most, count);
  // 16 on average. Of one random choice each the fullest of 64 has 26 or so, of two 18 or 19.
  EXPECT_EQ(load.size(), 64u);
  EXPECT_LE(most, 20);
}

TEST(PowerOfTwo, ComparesTwoDifferentDevices) {
  FakeContext context(2);
  PowerOfTwo router;
  router.OnSent(context, {0}, {0});
  for (std::uint32_t i = 1; i < 200; ++i) EXPECT_EQ(router.Pick(context, {i}).value, 1u);
}

TEST(PowerOfTwo, DrawIsTheRequestsOwn) {
  FakeContext context(16), other_seed(16, 2);
  PowerOfTwo router;
  std::vector<std::uint32_t> forwards, backwards, other;
  for (std::uint32_t i = 0; i < 50; ++i) {
    forwards.push_back(router.Pick(context, {i}).value);
    other.push_back(router.Pick(other_seed, {i}).value);
  }
  for (std::uint32_t i = 50; i-- > 0;) backwards.push_back(router.Pick(context, {i}).value);
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(forwards, backwards);
  EXPECT_NE(forwards, other);
}

TEST(TokenJsq, CountsPromptsUntilComputedAndOneEach) {
  FakeContext context(2);
  for (std::uint32_t i = 0; i < 8; ++i) context.hot[i].prompt_tokens = i == 0 ? 100 : 30;
  TokenJsq router;
  EXPECT_THAT(SendMany(&router, context, 0, 5), ElementsAre(0, 1, 1, 1, 1));
  EXPECT_EQ(Send(&router, context, 5), 0u);  // 101 and 4 times 31 before
  EXPECT_EQ(router.pending_tokens({0}), 132u);
  EXPECT_EQ(router.pending_tokens({1}), 124u);
  context.hot[0].output_tokens = 1;
  router.OnPrefilled(context, {0}, {0});
  EXPECT_EQ(router.pending_tokens({0}), 32u);
  router.OnEnd(context, {0}, {0});
  router.OnEnd(context, {1}, {1});  // given up before its prompt was computed
  EXPECT_EQ(router.pending_tokens({0}), 31u);
  EXPECT_EQ(router.pending_tokens({1}), 93u);
}

DeviceReport Report(std::uint32_t device, std::int64_t taken, std::uint32_t waiting,
                    std::uint32_t running) {
  DeviceReport report;
  report.id = {device};
  report.taken = Time::Nanos(taken);
  report.waiting = waiting;
  report.running = running;
  return report;
}

TEST(ReportedJsq, GoesByReportsAndByWhatItHasSentSince) {
  FakeContext context(2);
  ReportedJsq router;
  router.OnReport(Report(0, 0, 3, 4));
  router.OnReport(Report(1, 0, 1, 3));
  context.SetNow(Time::Nanos(10));
  EXPECT_THAT(SendMany(&router, context, 0, 4), ElementsAre(1, 1, 1, 0));  // 7 and 4 before
  // Taken before those were sent: it comes late, and they still count.
  router.OnReport(Report(1, 5, 0, 3));
  EXPECT_THAT(SendMany(&router, context, 4, 2), ElementsAre(1, 1));
  router.OnReport(Report(1, 11, 20, 0));
  EXPECT_EQ(Send(&router, context, 6), 0u);
}

TEST(ReportedJsq, HerdsIfItOnlyGoesByReports) {
  FakeContext context(2);
  ReportedJsq router(/*optimistic=*/false);
  router.OnReport(Report(0, 0, 1, 0));
  EXPECT_THAT(SendMany(&router, context, 0, 5), ElementsAre(1, 1, 1, 1, 1));
}

TEST(SessionAffinity, KeepsASessionWhereItIs) {
  FakeContext context(8);
  SessionAffinity router;
  std::map<std::uint64_t, std::uint32_t> home;
  std::set<std::uint32_t> used;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    context.cold[i].spec.session = 1 + i % 50;
    const std::uint32_t device = Send(&router, context, i);
    router.OnEnd(context, {i}, {device});  // one at a time: nothing is ever full
    used.insert(device);
    const auto [it, first] = home.emplace(1 + i % 50, device);
    ASSERT_EQ(it->second, device);
  }
  EXPECT_EQ(used.size(), 8u);
}

TEST(SessionAffinity, DeviceThatFailsMovesItsOwnSessionsOnly) {
  FakeContext context(8);
  SessionAffinity router;
  const auto homes = [&] {
    std::vector<std::uint32_t> devices;
    for (std::uint32_t i = 0; i < 400; ++i) {
      context.cold[i].spec.session = 1 + i;
      devices.push_back(router.Pick(context, {i}).value);
    }
    return devices;
  };
  const std::vector<std::uint32_t> before = homes();
  context.views[3].state = DeviceState::kFailed;
  const std::vector<std::uint32_t> after = homes();
  int moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 3) {
      ++moved;
      EXPECT_NE(after[i], 3u);
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
  EXPECT_GT(moved, 0);
  context.views[3].state = DeviceState::kUp;
  EXPECT_EQ(homes(), before);
}

TEST(SessionAffinity, NoDeviceIsAboveItsBound) {
  FakeContext context(8);
  SessionAffinity router(125);
  std::map<std::uint32_t, std::uint32_t> load;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    context.cold[i].spec.session = 5;  // all of one session
    const std::uint32_t device = Send(&router, context, i);
    ASSERT_LE(++load[device], (125 * (i + 1) + 799) / 800);
  }
  EXPECT_EQ(load.size(), 7u) << "six at 1.25 times the mean of 125 and one with the rest";
}

}  // namespace
}  // namespace schedtwin
