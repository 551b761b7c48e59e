// Lines of a log in words.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "experiments/log_text.h"
#include "policies/runtime/journal.h"

namespace schedtwin {
namespace {

LogRecord Line(EventCode code, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  return {
      0, Time(), static_cast<std::uint8_t>(LineKind::kEvent), static_cast<std::uint8_t>(code), a,
      b, c};
}
LogRecord Line(DecisionCode code, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  return {
      0, Time(), static_cast<std::uint8_t>(LineKind::kDecision), static_cast<std::uint8_t>(code), a,
      b, c};
}

constexpr std::uint64_t kPlan = PlanId{3, 7}.word();

TEST(LogText, SaysWhatHappened) {
  EXPECT_EQ(LineText(Line(EventCode::kPlanDone, kPlan, 1 | (12 << 8), 1)),
            "plan 3/7 is done after 12 steps: a request finished, 1 request finished");
  EXPECT_EQ(LineText(Line(EventCode::kStepTimes, kPlan, 1, 1'000'000'002)),
            "a step of plan 3/7 ran from 0.000000001 s to 1.000000002 s");
  EXPECT_EQ(LineText(Line(EventCode::kArrival, 4, 9 | (std::uint64_t{1} << 32), 7)),
            "request 4 arrives: 9 prompt tokens, 1 unit, at most 7 new tokens");
  EXPECT_EQ(LineText(Line(EventCode::kFinished, 4, 1)), "request 4 ends: rejected");
}

TEST(LogText, SaysWhatWasDecidedAndTheAnswer) {
  const std::uint64_t shape = 2 | (std::uint64_t{64} << 32) | (std::uint64_t{1} << 56);
  EXPECT_EQ(LineText(Line(DecisionCode::kLaunch, kPlan, shape)),
            "launch plan 3/7 on device 2, up to 64 steps, with the standing set: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kReserve, 5, 16 | (std::uint64_t{1} << 32), 9)),
            "reserve blocks for 16 tokens of request 5 on device 1: refused (no_memory)");
  EXPECT_EQ(LineText(Line(DecisionCode::kArm, 8, 5'000, 2)),
            "arm timer 2 with tag 8 for 0.000005000 s");
}

TEST(LogText, TakesAnyWords) {
  std::set<std::string> texts;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t kind = 0; kind < 4; ++kind) {
    for (std::uint32_t code = 0; code < 256; ++code) {
      for (const std::uint64_t word : {std::uint64_t{0}, kMost}) {
        const LogRecord line = {
            0,    Time(), static_cast<std::uint8_t>(kind), static_cast<std::uint8_t>(code), word,
            word, word};
        EXPECT_TRUE(texts.insert(LineText(line)).second) << kind << " " << code;
      }
    }
  }
  LogRecord line;
  line.time = Time::Nanos(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(LineTimeText(line), "-9223372036.854775808 s");
}

}  // namespace
}  // namespace schedtwin
