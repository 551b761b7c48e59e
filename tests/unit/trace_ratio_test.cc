// Ratio and ExactScale: what the user typed is what scales the trace, to the last nanosecond.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policies/api/rng.h"
#include "traces/ratio.h"

namespace schedtwin {
namespace {

__extension__ using Wide = __int128;

TEST(Ratio, KeepsDecimalsExactly) {
  EXPECT_EQ(ParseRatio("2", "x").value(), (Ratio{2, 1}));
  EXPECT_EQ(ParseRatio("0.5", "x").value(), (Ratio{1, 2}));
  EXPECT_EQ(ParseRatio("1.1", "x").value(), (Ratio{11, 10}));
  EXPECT_EQ(ParseRatio("0.000001", "x").value(), (Ratio{1, 1'000'000}));
  EXPECT_EQ(ParseRatio("1.500", "x").value(), (Ratio{3, 2}));
  EXPECT_EQ(ParseRatio("3.", "x").value(), (Ratio{3, 1}));
  EXPECT_EQ(ParseRatio(".25", "x").value(), (Ratio{1, 4}));
  EXPECT_EQ(ParseRatio("1000000000000", "x").value(), (Ratio{1'000'000'000'000, 1}));
  EXPECT_EQ(ParseRatio("123.456789012", "x").value(), (Ratio{30864197253, 250000000}));
  EXPECT_TRUE(ParseRatio("1.0", "x").value().is_one());
}

TEST(Ratio, PrintsWhatItParsed) {
  for (const std::string text : {"1", "2", "0.5", "1.1", "0.000001", "123.25", "1000000000000"}) {
    EXPECT_EQ(ToString(ParseRatio(text, "x").value()), text);
  }
  EXPECT_EQ(ToString(Ratio{1, 3}), "1/3");
}

TEST(Ratio, RefusesAnythingElseInOneLine) {
  for (const std::string text : {"", ".", "0", "0.0", "-1", "+1", "1e3", "1,5", "1.2.3", "2x", " 2",
                                 "nan", "inf", "0.0000000000001", "1234567890123", "1/2"}) {
    const auto ratio = ParseRatio(text, "--rate-scale");
    ASSERT_FALSE(ratio.ok()) << text;
    EXPECT_EQ(std::string(ratio.status().message()),
              "--rate-scale cannot be '" + text +
                  "'; it takes a number above zero such as 2, 0.5 or 1.25, with at most 12 digits");
  }
}

// Against 128-bit integers, over sizes and ratios from small to the limits.
TEST(ExactScale, AgreesWithWideIntegers) {
  Rng rng(1, "scale");
  const auto draw = [&rng](int max_bits) {
    return static_cast<std::int64_t>(rng.Next64() >>
                                     (64 - 1 - rng.Below(static_cast<std::uint32_t>(max_bits))));
  };
  constexpr std::int64_t kMax = 1'000'000'000'000;
  int compared = 0;
  for (int i = 0; i < 300'000; ++i) {
    const std::int64_t numerator = 1 + draw(40) % kMax;
    const std::int64_t denominator = 1 + draw(40) % kMax;
    const std::int64_t x = draw(62);
    const ExactScale scale(numerator, denominator);
    if (!scale.Fits(x)) continue;
    ++compared;
    const Wide product = Wide{x} * numerator;
    ASSERT_EQ(scale.Floor(x), static_cast<std::int64_t>(product / denominator))
        << x << " * " << numerator << " / " << denominator;
    ASSERT_EQ(scale.Round(x),
              static_cast<std::int64_t>((2 * product + denominator) / (2 * Wide{denominator})))
        << x << " * " << numerator << " / " << denominator;
  }
  EXPECT_GT(compared, 100'000);
}

TEST(ExactScale, RoundsHalvesUp) {
  const ExactScale half(1, 2);
  EXPECT_EQ(half.Floor(5), 2);
  EXPECT_EQ(half.Round(5), 3);
  EXPECT_EQ(half.Round(4), 2);
  EXPECT_EQ(half.Round(0), 0);
  EXPECT_EQ(ExactScale(1, 3).Round(4), 1);
  EXPECT_EQ(ExactScale(1, 3).Round(5), 2);
}

TEST(ExactScale, KnowsWhatDoesNotFit) {
  EXPECT_TRUE(ExactScale(1, 1).Fits(std::int64_t{1} << 60));
  EXPECT_FALSE(ExactScale(1, 1).Fits(std::int64_t{1} << 61));
  EXPECT_FALSE(ExactScale(1'000'000, 1).Fits(3'600'000'000'000));
}

}  // namespace
}  // namespace schedtwin
