#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "experiments/text.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::Optional;

constexpr std::array<std::string_view, 5> kPolicies = {"dynamic_batch", "fifo", "immediate",
                                                       "static_batch", "vllm_v1"};

TEST(Text, JoinsStringsAndNumbersWithoutLocale) {
  EXPECT_EQ(Cat("a", 1, ' ' == 32 ? std::string("b") : "", -2.5, 0.1), "a1b-2.50.1");
}

TEST(Text, SplitsAndKeepsEmptyParts) {
  EXPECT_THAT(Split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
}

TEST(Text, ParsesIntegersStrictly) {
  EXPECT_THAT(ParseInteger("-12"), Optional(-12));
  for (const char* text : {"", "1 ", " 1", "+1", "1e3", "0x10", "9223372036854775808"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(Text, CompactKeepsFourDigits) {
  EXPECT_EQ(Compact(0.12345), "0.1235");
  EXPECT_EQ(Compact(12.345), "12.35");
  EXPECT_EQ(Compact(1234.5), "1234");
  EXPECT_EQ(Compact(-1234567890), "-1.235e+09");
  EXPECT_EQ(Compact(0), "0.0000");
}

TEST(EditDistance, CountsLettersAndSwaps) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("fifo", "ffio"), 1);
  EXPECT_EQ(EditDistance("same", "same"), 0);
}

TEST(DidYouMean, FindsWhatWasMeantOrListsAll) {
  EXPECT_THAT(Nearest("vlmm_v1", kPolicies), Optional(std::string_view("vllm_v1")));
  EXPECT_THAT(Nearest("dynamic", kPolicies), Optional(std::string_view("dynamic_batch")));
  EXPECT_THAT(Nearest("fifo2", kPolicies), Optional(std::string_view("fifo")));
  EXPECT_EQ(Nearest("orca", kPolicies), std::nullopt);
  EXPECT_EQ(DidYouMean("ffo", kPolicies), "; did you mean 'fifo'?");
  EXPECT_EQ(DidYouMean("orca", kPolicies),
            "; known are dynamic_batch, fifo, immediate, static_batch, vllm_v1");
}

}  // namespace
}  // namespace schedtwin
