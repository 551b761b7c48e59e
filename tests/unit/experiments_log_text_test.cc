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
  EXPECT_EQ(LineText(Line(DecisionCode::kRoute, 5, 1)), "route request 5 to device 1: accepted");
  const std::uint64_t pair = 1 | (std::uint64_t{4} << 32) | (std::uint64_t{3} << 56);
  EXPECT_EQ(LineText(Line(DecisionCode::kRoute, 5, pair)),
            "route request 5 to device 1, to decode on device 3, as model 2: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kArm, 8, 5'000, 2)),
            "arm timer 2 with tag 8 for 0.000005000 s");
}

TEST(LogText, SaysWhatBecameOfDevicesAndOperations) {
  constexpr std::uint64_t kOperation = OpId{2, 5}.word();
  EXPECT_EQ(LineText(Line(EventCode::kOperationDone, kOperation, 0, 1)),
            "operation 2/5 (swap out) is done");
  EXPECT_EQ(LineText(Line(EventCode::kOperationDone, kOperation, 2, 0)),
            "operation 2/5 (transfer) has come to nothing");
  EXPECT_EQ(LineText(Line(EventCode::kOperationTimes, kOperation, 0, 2'000)),
            "operation 2/5 ran from 0.000000000 s to 0.000002000 s");
  EXPECT_EQ(LineText(Line(EventCode::kCacheChange, 1, 0, 3 | (std::uint64_t{2} << 32))),
            "prefix cache of device 1, device tier: 3 blocks stored, 2 evicted");
  EXPECT_EQ(LineText(Line(EventCode::kFault, 1)), "a fault of device 1 begins");
  EXPECT_EQ(LineText(Line(EventCode::kDeviceChange, 1, 4)), "device 1 has recovered");
  EXPECT_EQ(LineText(Line(EventCode::kCancel, 4, 1)),
            "request 4 is cancelled: its deadline has passed");
  EXPECT_EQ(LineText(Line(EventCode::kReport, 0, 5'000, 3 | (std::uint64_t{1} << 32))),
            "report of device 0 of 0.000005000 s: 3 requests waiting, 1 running");
  EXPECT_EQ(LineText(Line(EventCode::kStepAborted, kPlan, 0, 1)),
            "a step of plan 3/7 was cut; it ran from 0.000000000 s to 0.000000001 s");
}

TEST(LogText, SaysWhatWasAskedOfDevicesAndOperations) {
  const std::uint64_t nothing = std::uint64_t{0xffffffff} << 32;
  const std::uint64_t ways = 0 | (std::uint64_t{1} << 24) | (std::uint64_t{1} << 49);
  EXPECT_EQ(LineText(Line(DecisionCode::kTransfer, 4 | nothing, ways)),
            "transfer the KV of request 4 from device 0 to device 1 (host tier): accepted");
  const std::uint64_t modes = (std::uint64_t{1} << 50) | (std::uint64_t{1} << 51);
  EXPECT_EQ(LineText(Line(DecisionCode::kTransfer, 0xffffffff | (std::uint64_t{2} << 32), modes)),
            "transfer model 2 from device 0 to device 0, blocking, live: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kLoad, 1, 2, 24)),
            "load model 2 on device 1: refused (no_link)");
  EXPECT_EQ(LineText(Line(DecisionCode::kPreempt, 4, 2)),
            "preempt request 4 (swap, blocking): accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kScale, 2)), "scale to 2 devices: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kSetRole, 2, 1)),
            "set the role of device 2 to prefill: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kHold, 4)), "hold the response of request 4: accepted");
  EXPECT_EQ(LineText(Line(DecisionCode::kPin, 4, 0, 18)),
            "unpin the cached blocks of request 4: refused (bad_argument)");
  EXPECT_EQ(LineText(Line(DecisionCode::kAdopt, 4, 64 | (std::uint64_t{1} << 32), 32)),
            "adopt at most 64 cached tokens for request 4 on device 1: 32");
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
