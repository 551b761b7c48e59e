// Rates of events: each form against a naive model that keeps all events.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/parts/ewma_rate.h"
#include "policies/parts/rate_window.h"

namespace schedtwin {
namespace {

Time At(std::int64_t ms) { return Time::Nanos(ms * 1'000'000); }

using Events = std::vector<std::pair<Time, std::uint64_t>>;

/// Bursts, ties and gaps longer than any window below.
Events SomeEvents() {
  Rng rng(1, "events");
  Events events;
  std::int64_t ms = 7;
  for (int i = 0; i < 3000; ++i) {
    events.emplace_back(At(ms), rng.Below(4));
    const std::uint32_t kind = rng.Below(50);
    ms += kind == 0 ? rng.Below(30'000) : kind < 25 ? 0 : rng.Below(100);
  }
  return events;
}

TEST(RateWindow, IsTheSumOverTheWindow) {
  const Duration window = Duration::Millis(1000);
  RateWindow rate(window);
  const Events events = SomeEvents();
  for (std::size_t i = 0; i < events.size(); ++i) {
    rate.Add(events[i].first, events[i].second);
    // Now, and a little later if nothing comes before that.
    for (const Duration later : {Duration(), Duration::Millis(37)}) {
      const Time now = events[i].first + later;
      if (i + 1 < events.size() && events[i + 1].first < now) continue;
      std::uint64_t total = 0;
      for (std::size_t k = 0; k <= i; ++k) {
        if (now - events[k].first < window) total += events[k].second;
      }
      ASSERT_EQ(rate.Total(now), total) << i;
      ASSERT_DOUBLE_EQ(rate.PerSecond(now), static_cast<double>(total));
    }
  }
}

TEST(RateWindow, EventLeavesWhenItIsAWindowOld) {
  RateWindow rate(Duration::Millis(500));
  EXPECT_EQ(rate.PerSecond(At(0)), 0);
  rate.Add(At(100));
  EXPECT_EQ(rate.PerSecond(At(599)), 2);
  EXPECT_EQ(rate.PerSecond(At(600)), 0);
}

TEST(BucketRate, IsTheSumOverTheBuckets) {
  BucketRate rate(Duration::Seconds(6), Duration::Seconds(1));
  const Events events = SomeEvents();
  const auto second = [](Time time) { return time.ns() / 1'000'000'000; };
  for (std::size_t i = 0; i < events.size(); ++i) {
    rate.Add(events[i].first, events[i].second);
    for (const Duration later : {Duration(), Duration::Millis(2500), Duration::Seconds(7)}) {
      const Time now = events[i].first + later;
      if (i + 1 < events.size() && events[i + 1].first < now) continue;
      std::uint64_t total = 0;
      for (std::size_t k = 0; k <= i; ++k) {
        if (second(now) - second(events[k].first) < 6) total += events[k].second;
      }
      ASSERT_EQ(rate.Total(now), total) << i;
      const auto buckets = std::min<std::int64_t>(6, second(now) - second(events[0].first) + 1);
      ASSERT_DOUBLE_EQ(rate.PerSecond(now),
                       static_cast<double>(total) / static_cast<double>(buckets));
    }
  }
}

TEST(BucketRate, YoungRateIsOverTheBucketsThereHaveBeen) {
  BucketRate rate(Duration::Seconds(60), Duration::Seconds(1));
  EXPECT_EQ(rate.PerSecond(At(500)), 0);
  rate.Add(At(10'300), 8);
  EXPECT_EQ(rate.PerSecond(At(10'999)), 8);
  EXPECT_EQ(rate.PerSecond(At(11'000)), 4);
  EXPECT_EQ(rate.PerSecond(At(69'999)), 8.0 / 60);
  EXPECT_EQ(rate.PerSecond(At(70'000)), 0);
}

TEST(EwmaRate, IsTheSumOfWhatIsLeftOfEach) {
  EwmaRate rate(Duration::Millis(800));
  const Events events = SomeEvents();
  for (std::size_t i = 0; i < events.size(); ++i) {
    rate.Add(events[i].first, events[i].second);
    double naive = 0;
    for (std::size_t k = 0; k <= i; ++k) {
      const double age = static_cast<double>((events[i].first - events[k].first).ns()) / 0.8e9;
      naive += static_cast<double>(events[k].second) / 0.8 * std::exp(-age);
    }
    ASSERT_NEAR(rate.PerSecond(events[i].first), naive, 1e-9 * (1 + naive)) << i;
  }
}

TEST(EwmaRate, ShowsAStepAfterItsTimeConstant) {
  EwmaRate rate(Duration::Seconds(10));
  for (int ms = 0; ms < 10'000; ms += 10) rate.Add(At(ms));
  EXPECT_NEAR(rate.PerSecond(At(10'000)), 100 * (1 - std::exp(-1.0)), 0.1);
  EXPECT_NEAR(rate.PerSecond(At(20'000)), 100 * (1 - std::exp(-1.0)) * std::exp(-1.0), 0.1);
}

}  // namespace
}  // namespace schedtwin
