// HpaScaler against Kubernetes' rules, written out.
#include <gtest/gtest.h>

#include <cstdint>

#include "policies/parts/hpa_scaler.h"

namespace schedtwin {
namespace {

Time At(std::int64_t seconds) { return Time::Nanos(seconds * 1'000'000'000); }

HpaScaler::Options Options(double target, std::uint32_t most = 100) {
  HpaScaler::Options options;
  options.target = target;
  options.max_replicas = most;
  return options;
}

TEST(HpaScaler, IsReadyTimesRatioRoundedUp) {
  EXPECT_EQ(HpaScaler(Options(50)).FromMean(At(0), 4, 4, 75), 6u);
  EXPECT_EQ(HpaScaler(Options(50)).FromMean(At(0), 4, 4, 76), 7u);   // 6.08
  EXPECT_EQ(HpaScaler(Options(50)).FromMean(At(0), 6, 4, 100), 8u);  // of the ready, not of all
  EXPECT_EQ(HpaScaler(Options(10)).FromTotal(At(0), 3, 41), 5u);
}

TEST(HpaScaler, KeepsWhatIsWithinTolerance) {
  for (const double mean : {90.5, 100.0, 109.5}) {
    EXPECT_EQ(HpaScaler(Options(100)).FromMean(At(0), 7, 7, mean), 7u);
    EXPECT_EQ(HpaScaler(Options(100)).FromTotal(At(0), 7, 7 * mean), 7u);
  }
  EXPECT_EQ(HpaScaler(Options(100)).FromMean(At(0), 7, 7, 111), 8u);
  EXPECT_EQ(HpaScaler(Options(100)).FromTotal(At(0), 7, 777), 8u);
}

TEST(HpaScaler, GoesDownOnlyAsFarAsItsWindowWanted) {
  HpaScaler scaler(Options(10));
  EXPECT_EQ(scaler.FromTotal(At(0), 5, 70), 7u);
  std::uint32_t current = 7;
  for (int t = 15; t <= 300; t += 15) {
    current = scaler.FromTotal(At(t), current, t < 60 ? 40 : 20);
    ASSERT_EQ(current, 7u) << t;
  }
  current = scaler.FromTotal(At(315), current, 20);
  EXPECT_EQ(current, 4u) << "the 7 of t = 0 is out; that of t = 15 to 45 was 4";
  for (int t = 330; t <= 345; t += 15) current = scaler.FromTotal(At(t), current, 20);
  EXPECT_EQ(current, 4u);
  EXPECT_EQ(scaler.FromTotal(At(360), current, 20), 2u);
}

TEST(HpaScaler, GoesUpAtOnceButNotByMoreThanItsLimits) {
  EXPECT_EQ(HpaScaler(Options(1)).FromTotal(At(0), 2, 50), 6u) << "4 replicas a period";
  EXPECT_EQ(HpaScaler(Options(1)).FromTotal(At(0), 20, 99), 40u) << "or 100 percent";
  HpaScaler scaler(Options(1));
  EXPECT_EQ(scaler.FromTotal(At(0), 2, 50), 6u);
  EXPECT_EQ(scaler.FromTotal(At(5), 6, 50), 6u) << "of the same period";
  EXPECT_EQ(scaler.FromTotal(At(15), 6, 50), 12u);
  EXPECT_EQ(scaler.FromTotal(At(30), 12, 50), 24u);
}

TEST(HpaScaler, StaysWithinItsBounds) {
  HpaScaler::Options options = Options(1, 8);
  options.min_replicas = 2;
  HpaScaler scaler(options);
  EXPECT_EQ(scaler.FromTotal(At(0), 5, 100), 8u);
  EXPECT_EQ(scaler.FromTotal(At(1000), 8, 0), 2u);
  EXPECT_EQ(scaler.FromTotal(At(2000), 0, 1), 2u) << "from nothing";
}

// The trap: a backlog that stays high while replicas start.
TEST(HpaScaler, MeanNeitherCountsNorAwaitsThoseThatStart) {
  HpaScaler by_mean(Options(10)), by_total(Options(10));
  EXPECT_EQ(by_mean.FromMean(At(0), 4, 4, 20), 8u);
  EXPECT_EQ(by_mean.FromMean(At(15), 8, 4, 40), 16u) << "80 waiting, four still starting";
  EXPECT_EQ(by_total.FromTotal(At(0), 4, 80), 8u);
  EXPECT_EQ(by_total.FromTotal(At(15), 8, 80), 8u);
}

}  // namespace
}  // namespace schedtwin
