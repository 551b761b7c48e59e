// Rng: the generator is the published one, the streams are independent, the distributions are right
// and their bits are pinned, for every digest rests on them.
#include "policies/api/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace schedtwin {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words Philox(Words counter, std::array<std::uint32_t, 2> key) {
  const r123::Philox4x32::ctr_type out =
      r123::Philox4x32()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

// Random123's kat_vectors, philox4x32 10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t f = 0xffffffff;
  EXPECT_EQ(Philox({f, f, f, f}, {f, f}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::uint32_t> Draw(Rng rng, int count) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  for (std::uint32_t& word : words) word = rng.Next32();
  return words;
}

TEST(Rng, StreamsDifferBySeedNameAndEntity) {
  const std::vector<std::uint32_t> base = Draw(Rng(1, "arrivals", 0), 64);
  EXPECT_EQ(base, Draw(Rng(1, "arrivals", 0), 64));
  EXPECT_NE(base, Draw(Rng(2, "arrivals", 0), 64));
  EXPECT_NE(base, Draw(Rng(1, "lengths", 0), 64));
  EXPECT_NE(base, Draw(Rng(1, "arrivals", 1), 64));
  EXPECT_NE(base, Draw(Rng(1, "arrivals", std::uint64_t{1} << 32), 64));
}

TEST(Rng, CountsEveryWordDrawn) {
  Rng rng(1, "test");
  EXPECT_EQ(rng.draws(), 0u);
  rng.Next32();
  EXPECT_EQ(rng.draws(), 1u);
  rng.Next64();
  EXPECT_EQ(rng.draws(), 3u);
  rng.Uniform();
  EXPECT_EQ(rng.draws(), 5u);
  rng.Exponential();
  EXPECT_EQ(rng.draws(), 7u);
}

TEST(Rng, ACopyContinuesFromTheSamePosition) {
  Rng rng(7, "test");
  for (int i = 0; i < 5; ++i) rng.Next32();
  Rng copy = rng;
  EXPECT_EQ(Draw(rng, 20), Draw(copy, 20));
}

// A change here changes the digest of every run that draws: it must be meant.
TEST(Rng, BitsArePinned) {
  EXPECT_EQ(Draw(Rng(1, "arrivals"), 4),
            (std::vector<std::uint32_t>{0xe8e91382, 0x788109bc, 0x18b5345a, 0x4842cf04}));
  Rng rng(1, "pinned", 3);
  EXPECT_EQ(rng.Uniform(), 0x1.6235c3ee66a82p-2);
  EXPECT_EQ(rng.Exponential(), 0x1.5620fff370b87p+0);
  EXPECT_EQ(rng.Normal(), 0x1.692ba685709fp+0);
  EXPECT_EQ(FixedExp(1.25), 0x1.bec38edb0fafp+1);
  EXPECT_EQ(FixedNormalQuantile(0.1), -0x1.4813c36e26d34p+0);
  EXPECT_EQ(FixedNormalQuantile(0.4), -0x1.036d6c4a04b5ap-2);
}

TEST(FixedLog, IsWithinOneUnitInTheLastPlace) {
  Rng rng(1, "log");
  double worst = 0;
  const auto check = [&](double x) {
    const double got = FixedLog(x);
    const long double exact = std::log(static_cast<long double>(x));
    const double ulp =
        std::nextafter(std::abs(got), std::numeric_limits<double>::infinity()) - std::abs(got);
    worst = std::max(worst, static_cast<double>(std::abs(got - exact) / ulp));
  };
  for (int i = 0; i < 1'000'000; ++i) check(rng.Uniform());
  for (int i = 0; i < 200'000; ++i) check(0.5 + rng.Uniform());               // both sides of 1
  for (int i = 0; i < 200'000; ++i) check(1 + 1e-6 * (rng.Uniform() - 0.5));  // where it is near 0
  for (int i = -1074; i < 1024; ++i) check(std::ldexp(1 + rng.Uniform() / 2, i));
  EXPECT_LT(worst, 1);
}

TEST(FixedLog, IsExactAtOneAndFiniteAtTheEnds) {
  EXPECT_EQ(FixedLog(1), 0);
  EXPECT_DOUBLE_EQ(FixedLog(std::numeric_limits<double>::denorm_min()),
                   std::log(std::numeric_limits<double>::denorm_min()));
  EXPECT_DOUBLE_EQ(FixedLog(std::numeric_limits<double>::max()),
                   std::log(std::numeric_limits<double>::max()));
}

TEST(FixedExp, IsWithinOneUnitInTheLastPlace) {
  Rng rng(1, "exp");
  double worst = 0;
  const auto check = [&](double x) {
    const double got = FixedExp(x);
    const long double exact = std::exp(static_cast<long double>(x));
    const double ulp = std::nextafter(got, std::numeric_limits<double>::infinity()) - got;
    worst = std::max(worst, static_cast<double>(std::abs(got - exact) / ulp));
  };
  for (int i = 0; i < 500'000; ++i) check(1400 * rng.Uniform() - 700);
  for (int i = 0; i < 500'000; ++i) check(10 * rng.Uniform() - 5);
  for (int i = 0; i < 200'000; ++i) check(1e-6 * (rng.Uniform() - 0.5));
  for (int i = -1000; i <= 1000; ++i) check(i * 0.34657359027997264);  // where the reduction turns
  EXPECT_LT(worst, 1);
}

TEST(FixedExp, IsExactAtZeroAndRightAtTheEnds) {
  EXPECT_EQ(FixedExp(0), 1);
  EXPECT_EQ(FixedExp(-0.0), 1);
  EXPECT_EQ(FixedExp(710), std::numeric_limits<double>::infinity());
  EXPECT_EQ(FixedExp(std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(FixedExp(-746), 0);
  EXPECT_EQ(FixedExp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_DOUBLE_EQ(FixedExp(709.78), std::exp(709.78));
  EXPECT_EQ(FixedExp(-745.13), std::numeric_limits<double>::denorm_min());
}

TEST(FixedNormalQuantile, InvertsTheDistributionFunction) {
  const auto upper_tail = [](double z) {
    return std::erfc(static_cast<long double>(z) / std::sqrt(2.0L)) / 2;
  };
  Rng rng(1, "quantile");
  for (int i = 0; i < 200'000; ++i) {
    const double p = rng.Uniform();
    const double z = FixedNormalQuantile(p);
    const long double density = std::exp(-0.5L * z * z) / std::sqrt(2 * std::acos(-1.0L));
    // How far off z is, from how far off its probability is.
    const long double off = (upper_tail(-z) - p) / density;
    ASSERT_LT(std::abs(off), 2e-15L * std::max(1.0L, std::abs(static_cast<long double>(z)))) << p;
  }
  // Down to where the last approximation takes over, and beyond.
  for (double p = 0.25; p > 1e-300; p *= 0.1) {
    const double z = FixedNormalQuantile(p);
    EXPECT_NEAR(static_cast<double>(upper_tail(-z) / p), 1, 1e-12) << p;
    EXPECT_LT(z, FixedNormalQuantile(2 * p));
  }
  EXPECT_EQ(FixedNormalQuantile(0.5), 0);
  EXPECT_NEAR(FixedNormalQuantile(0.975), 1.959963984540054, 1e-15);
  for (const double p : {0.25, 0.125, 0.0625, 1.0 / 1024}) {  // exact in both tails
    EXPECT_EQ(FixedNormalQuantile(1 - p), -FixedNormalQuantile(p));
  }
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};

template <class DrawOne>
Moments MomentsOf(int count, DrawOne draw) {
  std::vector<double> values;
  Moments m;
  for (int i = 0; i < count; ++i) {
    values.push_back(draw());
    m.mean += values.back() / count;
  }
  for (const double value : values) {
    const double d = value - m.mean;
    m.variance += d * d / count;
    m.skewness += d * d * d / count;
    m.kurtosis += d * d * d * d / count;
  }
  m.skewness /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

constexpr int kMany = 2'000'000;  // deviations of the estimates below are given for this many

TEST(Rng, ExponentialHasItsMoments) {
  Rng rng(3, "moments");
  const Moments m = MomentsOf(kMany, [&] { return rng.Exponential(); });
  EXPECT_NEAR(m.mean, 1, 5 * 0.00071);
  EXPECT_NEAR(m.variance, 1, 5 * 0.002);
  EXPECT_NEAR(m.skewness, 2, 0.1);
  EXPECT_NEAR(m.kurtosis, 9, 1);
}

TEST(Rng, NormalHasItsMoments) {
  Rng rng(4, "moments");
  const Moments m = MomentsOf(kMany, [&] { return rng.Normal(); });
  EXPECT_NEAR(m.mean, 0, 5 * 0.00071);
  EXPECT_NEAR(m.variance, 1, 5 * 0.001);
  EXPECT_NEAR(m.skewness, 0, 5 * 0.00173);
  EXPECT_NEAR(m.kurtosis, 3, 5 * 0.00346);
}

TEST(Rng, UniformStaysInsideTheOpenIntervalAndIsFlat) {
  Rng rng(5, "uniform");
  constexpr int kCells = 100;
  std::array<double, kCells> cells = {};
  for (int i = 0; i < kMany; ++i) {
    const double u = rng.Uniform();
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    ++cells[static_cast<std::size_t>(u * kCells)];
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kMany) / kCells;
  for (const double cell : cells) chi_square += (cell - expected) * (cell - expected) / expected;
  EXPECT_LT(chi_square, 149);  // 99 degrees of freedom: exceeded once in a thousand
  EXPECT_GT(chi_square, 59);
}

TEST(Rng, BelowIsFlatAndStaysBelow) {
  Rng rng(6, "below");
  std::array<double, 7> cells = {};
  for (int i = 0; i < 700'000; ++i) {
    const std::uint32_t value = rng.Below(7);
    ASSERT_LT(value, 7u);
    ++cells[value];
  }
  for (const double cell : cells) EXPECT_NEAR(cell, 100'000, 5 * 293);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.Below(1), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.Below(0xffffffffu), 0xffffffffu);
}

TEST(Rng, NeighbouringStreamsAreUncorrelated) {
  double sum = 0;
  constexpr int kPairs = 200'000;
  for (std::uint64_t entity = 0; entity < kPairs; ++entity) {
    sum += (Rng(1, "x", entity).Uniform() - 0.5) * (Rng(1, "x", entity + 1).Uniform() - 0.5) * 12;
  }
  EXPECT_NEAR(sum / kPairs, 0, 5 / std::sqrt(kPairs));
}

}  // namespace
}  // namespace schedtwin
