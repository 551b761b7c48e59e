// BatchMeans on records whose interval can be worked out by hand.
#include "tests/support/batch_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace schedtwin {
namespace {

constexpr std::uint64_t kBatches = BatchMeans::kBatches;

// Batches of one request of 1 ns each, `gap_ns` after the last one, that is `time_ns` in the
// system; both by the batch's number.
template <class Gap, class Sojourn>
Interval Feed(Gap gap_ns, Sojourn time_ns, double rate) {
  BatchMeans means({.rate = rate});
  std::int64_t at = 0;
  for (std::uint64_t i = 0; i < kBatches + 2; ++i) {
    RequestRecord record;
    record.id = {static_cast<std::uint32_t>(i)};
    record.units = 1;
    record.arrival = Time::Nanos(at);
    record.end = Time::Nanos(at + time_ns(i));
    means.OnRequest(record);
    at += gap_ns(i);
  }
  return means.Get(0);
}

TEST(BatchMeansTest, SpreadThatTheControlDoesNotExplain) {
  // Times 90, 90, 110, 110; gaps 8, 12, 8, 12: no correlation, so the plain interval but for one
  // degree of freedom: t(0.995; 126) * sqrt(128 * 10^2 / 126 / 128).
  const Interval interval = Feed([](std::uint64_t i) { return i % 2 == 0 ? 8 : 12; },
                                 [](std::uint64_t i) { return i % 4 < 2 ? 90 : 110; }, 0.1);
  EXPECT_NEAR(interval.mean, 100, 1e-9);
  EXPECT_NEAR(interval.half_width, 2.6154 * 10 / std::sqrt(126.0), 1e-9);
  EXPECT_TRUE(interval.Holds(102));
  EXPECT_FALSE(interval.Holds(103));
}

TEST(BatchMeansTest, SpreadThatTheControlExplains) {
  // Times go down with the gap: 120 after 8 ns, 100 after 12. Gaps of 10 ns were to be expected
  // and came, so the mean stays and nothing is left of the spread.
  const auto time = [](std::uint64_t i) { return i % 2 == 0 ? 120 : 100; };
  const Interval interval = Feed([](std::uint64_t i) { return i % 2 == 0 ? 8 : 12; }, time, 0.1);
  EXPECT_NEAR(interval.mean, 110, 1e-9);
  EXPECT_NEAR(interval.half_width, 0, 1e-6);
  // Had 11 ns been expected, less would wait: 5 ns per ns.
  EXPECT_NEAR(Feed([](std::uint64_t i) { return i % 2 == 0 ? 8 : 12; }, time, 1.0 / 11).mean, 105,
              1e-9);
}

TEST(BatchMeansTest, LeavesOutTheFirstBatchAndTheLast) {
  const Interval interval =
      Feed([](std::uint64_t i) { return i % 2 == 0 ? 8 : 12; },
           [](std::uint64_t i) { return i == 0 || i == kBatches + 1 ? 1'000'000 : 100; }, 0.1);
  EXPECT_NEAR(interval.mean, 100, 1e-9);
}

TEST(BatchMeansTest, ClassesHaveIntervalsOfTheirOwn) {
  BatchMeans means({.measure = BatchMeans::Measure::kWait, .classes = 2, .batch = 4});
  for (std::uint32_t i = 0; i < 4 * (kBatches + 2); ++i) {
    RequestRecord record;
    record.id = {i};
    record.units = 1;
    record.priority = i % 4 == 0 ? 0 : 1;
    record.arrival = Time::Nanos(i + (i % 8 == 0 ? 0 : 1));
    record.first_start = record.arrival + Duration::Nanos(record.priority == 0 ? 10 : 30);
    record.end = record.first_start + Duration::Nanos(1'000);
    means.OnRequest(record);
  }
  EXPECT_NEAR(means.Get(0).mean, 10, 1e-9);
  EXPECT_NEAR(means.Get(1).mean, 30, 1e-9);
}

TEST(BatchMeansTest, VerdictOfSeeds) {
  const SeedsVerdict verdict({{9, 2}, {11, 3}, {16, 1}}, 10);
  EXPECT_EQ(verdict.held, 2u);
  EXPECT_NEAR(verdict.mean, 12, 1e-12);
  EXPECT_NEAR(verdict.widest, 0.3, 1e-12);
}

}  // namespace
}  // namespace schedtwin
