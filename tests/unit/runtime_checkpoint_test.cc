// Checkpoints: a request's KV copied to the host tier while it runs, and kept there when it comes
// back, so that a swap-out copies only what is new. Copies take 25 ns, steps 10.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/timed_run.h"

namespace schedtwin {
namespace {

constexpr Link kLink = {Duration::Nanos(1), 1'000'000'000};

TransferSpec Between(Tier from, Tier to) {
  TransferSpec spec;
  spec.request = {0};
  spec.from = spec.to = {0};
  spec.from_tier = from;
  spec.to_tier = to;
  return spec;
}
TransferSpec Checkpoint() {
  TransferSpec spec = Between(Tier::kDevice, Tier::kHost);
  spec.live = true;
  return spec;
}
TransferSpec SwapInAndKeep() {
  TransferSpec spec = Between(Tier::kHost, Tier::kDevice);
  spec.keep = true;
  return spec;
}

Refusal Ask(Context& context, const TransferSpec& spec) {
  return context.actions().Transfer(spec).refusal;
}
Refusal SwapOut(Context& context, PreemptMode mode) { return context.actions().Preempt({0}, mode); }

/// A device of ten blocks of four tokens, with eight more on its host. Request 0 has a prompt of
/// eight tokens, computed from 1 to 11.
class RuntimeCheckpoint : public testing::TestWithParam<bool> {
 protected:
  RuntimeCheckpoint() {
    timed.run.device.total_blocks = 10;
    timed.run.device.host_blocks = 8;
    timed.run.device.block_bytes = 64;
    timed.run.device.host_link = kLink;
    timed.run.options.identify_blocks = GetParam();
    timed.LaunchAt(1, 0);
  }
  std::vector<std::uint64_t> BytesCopied() const {
    std::vector<std::uint64_t> bytes;
    for (const OperationRecord& record : timed.run.recorder.operations) {
      EXPECT_TRUE(record.ok);
      bytes.push_back(record.bytes);
    }
    return bytes;
  }
  TimedRun timed;
};

INSTANTIATE_TEST_SUITE_P(Blocks, RuntimeCheckpoint, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Identified" : "Counted");
});

TEST_P(RuntimeCheckpoint, GoesBesideTheRequestAndLaterCopiesOnlyWhatIsNew) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kNone);
    EXPECT_EQ(context.request({0}).state(), RequestState::kWaiting);
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6}));
  });
  timed.LaunchAt(13, 0);  // the ninth token, in a block of its own
  timed.At(38, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 0, 6}));
    EXPECT_EQ(SwapOut(context, PreemptMode::kSwapBlocking), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 5})) << "free at once";
  });
  timed.At(64, [](Context& context) { EXPECT_EQ(Ask(context, SwapInAndKeep()), Refusal::kNone); });
  timed.At(90, [](Context& context) {
    EXPECT_EQ(context.request({0}).tier(), Tier::kDevice);
    EXPECT_EQ(context.request({0}).scheduled_tokens(), 9u);
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 0, 5})) << "in both tiers";
    EXPECT_EQ(SwapOut(context, PreemptMode::kSwap), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 0, 5}))
        << "the last block is there, to be overwritten";
  });
  timed.At(116, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 5}));
    EXPECT_EQ(Ask(context, SwapInAndKeep()), Refusal::kNone);
  });
  timed.LaunchAt(142, 0);
  timed.At(153, [](Context& context) {
    EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 0, 5})) << "no further full block, none taken";
  });
  timed.At(179, [](Context& context) {
    context.actions().Finish({0}, EndReason::kTimedOut);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
  });
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_EQ(BytesCopied(), (std::vector<std::uint64_t>{128, 64, 192, 64, 192, 0}));
}

TEST_P(RuntimeCheckpoint, IsGivenUpWithWhatItCopied) {
  timed.At(12, [](Context& context) { EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kNone); });
  timed.At(38, [](Context& context) {
    EXPECT_EQ(SwapOut(context, PreemptMode::kRecompute), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8})) << "it is computed anew";
  });
  timed.LaunchAt(39, 0);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 8u);
}

TEST_P(RuntimeCheckpoint, RefusesWhatMakesNoSense) {
  timed.At(12, [](Context& context) {
    TransferSpec out = Between(Tier::kDevice, Tier::kHost);
    out.keep = true;
    EXPECT_EQ(Ask(context, out), Refusal::kBadArgument) << "a swap-out that keeps is a checkpoint";
    EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kNone);
    EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kMoving);
    EXPECT_EQ(SwapOut(context, PreemptMode::kSwap), Refusal::kMoving);
  });
  timed.At(38, [](Context& context) {
    EXPECT_EQ(SwapOut(context, PreemptMode::kSwapBlocking), Refusal::kNone);
  });
  timed.At(64, [](Context& context) {
    EXPECT_EQ(Ask(context, Checkpoint()), Refusal::kOnHost);
    TransferSpec blocking = SwapInAndKeep();
    blocking.blocking = true;
    EXPECT_EQ(Ask(context, blocking), Refusal::kBadArgument);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6}));
  });
  timed.EndAllAt(65, 1);
  timed.Run({TokenRequest(0, 8, 9)});
}

}  // namespace
}  // namespace schedtwin
