// Operations as the contract has them: what swaps, transfers, live stages, loads and unloads do to
// blocks and requests from the asking to the end, what cancels them, and what is refused. Copies
// and loads take 25 ns, steps 10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/timed_run.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

constexpr Link kLink = {Duration::Nanos(1), 1'000'000'000};

TransferSpec Swap(std::uint32_t request, Tier from, Tier to) {
  TransferSpec spec;
  spec.request = {request};
  spec.from = spec.to = {0};
  spec.from_tier = from;
  spec.to_tier = to;
  return spec;
}
TransferSpec SwapIn(std::uint32_t request) { return Swap(request, Tier::kHost, Tier::kDevice); }
TransferSpec Move(std::uint32_t request, std::uint32_t from, std::uint32_t to, bool live = false) {
  TransferSpec spec;
  spec.request = {request};
  spec.from = {from};
  spec.to = {to};
  spec.live = live;
  return spec;
}

Refusal PreemptNow(Context& context, std::uint32_t request, PreemptMode mode) {
  return context.actions().Preempt({request}, mode);
}

/// Two devices of ten blocks of four tokens, with eight more on the host of each. Requests arrive
/// at 0; request 0 has a prompt of eight tokens, computed from 1 to 11.
class Operation : public testing::TestWithParam<bool> {
 protected:
  Operation() {
    timed.run.devices = 2;
    timed.run.device.total_blocks = 10;
    timed.run.device.host_blocks = 8;
    timed.run.device.block_bytes = 64;
    timed.run.device.host_link = timed.run.device.peer_link = kLink;
    timed.run.options.identify_blocks = GetParam();
    timed.LaunchAt(1, 0);
  }
  TimedRun timed;
};

INSTANTIATE_TEST_SUITE_P(Blocks, Operation, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Identified" : "Counted");
});

// ---- Swaps ----

TEST_P(Operation, OverlappedSwapFreesWhenItIsDone) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwap), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kMoving, 9, 8, 1, 2}));
    EXPECT_EQ(context.request({0}).preemptions(), 1u);
  });
  timed.At(36, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6})); });
  timed.At(37, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 8, 1, 2}));
    EXPECT_EQ(context.request({0}).tier(), Tier::kHost);
    EXPECT_EQ(context.request({0}).device().value, 0u);
    EXPECT_EQ(context.actions().Transfer(SwapIn(0)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6})) << "taken at once where it goes to";
  });
  timed.At(62, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8}));
    EXPECT_EQ(context.request({0}).tier(), Tier::kDevice);
  });
  timed.LaunchAt(63, 0);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1", "37 swap out 0 at 0",
                                        "62 swap in 0 at 0", "73 done 0 finish 1"));
  const RequestRecord& record = *timed.run.recorder.Find(0);
  EXPECT_EQ(record.recomputed_tokens, 0u);
  EXPECT_EQ(record.preemptions, 1u);
  ASSERT_EQ(timed.run.recorder.operations.size(), 2u);
  const OperationRecord& out = timed.run.recorder.operations[0];
  EXPECT_EQ(out.bytes, 128u);
  EXPECT_EQ(out.asked, Time::Nanos(12));
  EXPECT_EQ(out.start, Time::Nanos(12));
  EXPECT_EQ(out.end, Time::Nanos(37));
  EXPECT_TRUE(out.ok);
}

TEST_P(Operation, OnlyWhatIsComputedIsMovedAndAllIsFreed) {
  timed.At(12, [](Context& context) {
    EXPECT_TRUE(context.memory({0}).Reserve({0}, 20));
    EXPECT_EQ(BooksOf(context, 0), (Books{5, 0, 8}));
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwap), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{5, 0, 6}));
  });
  timed.At(37, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6})); });
  timed.At(38, [](Context& context) {
    context.actions().Finish({0}, EndReason::kTimedOut);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8})) << "its end gives back the host's blocks";
  });
  timed.Run({TokenRequest(0, 8, 9)});
}

TEST_P(Operation, BlockingSwapFreesAtOnceAndTheDeviceWaitsForIt) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwapBlocking), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6})) << "no step reads them";
    EXPECT_EQ(ProgressOf(context, 0).state, RequestState::kMoving);
  });
  timed.LaunchAt(13, 1);
  timed.EndAllAt(60, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 36, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "37 swap out 0 at 0", "47 done 0 finish 1"));
  EXPECT_EQ(timed.run.fakes[0].steps[1].start, Time::Nanos(37)) << "after the copy";
}

TEST_P(Operation, BlockingSwapBehindAStepIsFencedUntilTheStepEnds) {
  timed.LaunchAt(12, 1);
  timed.At(15, [](Context& context) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwapBlocking), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 2, 6}));
  });
  timed.At(22, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6})); });
  timed.EndAllAt(60, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "22 done 0 finish 1", "47 swap out 0 at 0"));
  EXPECT_EQ(timed.run.recorder.operations[0].start, Time::Nanos(22));
}

TEST_P(Operation, BlockingSwapInIsBetweenTheSteps) {
  timed.At(12, [](Context& context) { PreemptNow(context, 0, PreemptMode::kSwap); });
  timed.LaunchAt(35, 1);
  timed.At(40, [](Context& context) {
    TransferSpec in = SwapIn(0);
    in.blocking = true;
    EXPECT_EQ(context.actions().Transfer(in).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{5, 2, 6})) << "the step has begun before the release";
  });
  timed.At(70, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8})); });
  timed.EndAllAt(80, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(), testing::Contains("70 swap in 0 at 0")) << "45, and 25 from then on";
}

// ---- Transfers ----

TEST_P(Operation, TransferTakesThereAndFreesHereWhenAllHasArrived) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
    EXPECT_EQ(context.request({0}).device().value, 0u) << "until all of it has arrived";
  });
  timed.At(37, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
    EXPECT_EQ(context.request({0}).device().value, 1u);
  });
  timed.LaunchAt(38, 0, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 0u);
  EXPECT_EQ(timed.run.recorder.Find(0)->preemptions, 0u) << "a transfer is no preemption";
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(48));
}

TEST_P(Operation, FromTheHostToAnotherDevice) {
  timed.At(12, [](Context& context) { PreemptNow(context, 0, PreemptMode::kSwap); });
  timed.At(40, [](Context& context) {
    TransferSpec spec = Move(0, 0, 1);
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kOnHost);
    spec.from_tier = Tier::kHost;
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6}));
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
  });
  timed.At(65, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(context.request({0}).tier(), Tier::kDevice);
  });
  timed.LaunchAt(66, 0, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), testing::Contains("65 transfer 0 at 1"));
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 0u);
}

TEST_P(Operation, FromADeviceToAnothersHost) {
  timed.At(12, [](Context& context) {
    TransferSpec spec = Move(0, 0, 1);
    spec.to_tier = Tier::kHost;
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 6}));
  });
  timed.At(37, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(context.request({0}).device().value, 1u);
    EXPECT_EQ(context.request({0}).tier(), Tier::kHost);
  });
  timed.EndAllAt(38, 1);
  timed.Run({TokenRequest(0, 8, 2)});
}

// ---- Live stages: a prompt of ten tokens, two full blocks of three ----

TEST_P(Operation, AfterAStageOnlyTheRestIsCopied) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1, true)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0).state, RequestState::kWaiting) << "it goes on where it is";
  });
  timed.LaunchAt(12, 0, 0, {.max_steps = 4});
  timed.At(37, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{6, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8})) << "what it brought over stays taken";
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kDuplicateEntry);
  });
  timed.At(53, [](Context& context) {  // 14 tokens are computed: four blocks
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 1), (Books{6, 0, 8}));
  });
  timed.At(78, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{6, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 15, 14, 5, 4}));
  });
  timed.LaunchAt(79, 0, 1);
  timed.Run({TokenRequest(0, 10, 6)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "11 done 0 steps 1", "37 stage 0 at 1",
                          "52 done 0 steps 4", "78 transfer 0 at 1", "89 done 1 finish 1"));
  ASSERT_EQ(timed.run.recorder.operations.size(), 2u);
  EXPECT_EQ(timed.run.recorder.operations[0].bytes, 2 * 64u);
  EXPECT_EQ(timed.run.recorder.operations[1].bytes, 2 * 64u) << "four blocks, two are there";
}

TEST_P(Operation, StageOfAStandingMemberCountsWhatItsSetHasComputed) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .standing = true, .max_steps = 3}).ok());
  });
  timed.At(35, [](Context& context) {  // 12 tokens are computed, and one is on its way
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kDuplicateEntry);
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1, true)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 1), (Books{7, 0, 8}));
  });
  timed.EndAllAt(61, 1);
  timed.Run({TokenRequest(0, 10, 9)});
  EXPECT_THAT(timed.Told(), testing::Contains("60 stage 0 at 1"));
}

TEST_P(Operation, WhoOnlyStandsWhereItWasMovedToRanThereLast) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kNone);
  });
  timed.At(40, [](Context& context) {
    EXPECT_EQ(context.actions().Join({1}, {0}), Refusal::kNone);
    EXPECT_TRUE(context.actions().Launch({.device = {1}, .standing = true, .max_steps = 9}).ok());
  });
  timed.Run({TokenRequest(0, 10, 3)});
  EXPECT_EQ(timed.run.recorder.Find(0)->device, DeviceId{1});
}

TEST_P(Operation, SecondStageBuildsOnTheFirst) {
  timed.At(12, [](Context& context) { context.actions().Transfer(Move(0, 0, 1, true)); });
  timed.LaunchAt(12, 0, 0, {.max_steps = 4});
  timed.At(53, [](Context& context) {  // three full blocks
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1, true)).refusal, Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 1), (Books{7, 0, 8}));
  });
  timed.At(78, [](Context& context) { EXPECT_EQ(BooksOf(context, 1), (Books{7, 0, 8})); });
  timed.EndAllAt(79, 1);
  timed.Run({TokenRequest(0, 10, 9)});
  EXPECT_EQ(timed.run.recorder.operations[1].bytes, 64u);
}

/// What gives up a stage that is done: the other device has its two blocks back at once.
void ExpectStageGivenUp(TimedRun* timed, std::function<void(Context&, OpId)> give_up) {
  OpId stage;
  timed->At(12, [&stage](Context& context) {
    stage = context.actions().Transfer(Move(0, 0, 1, true)).id;
  });
  timed->At(40, [&](Context& context) {
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
    give_up(context, stage);
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(context.actions().CancelOperation(stage), Refusal::kUnknownOperation);
  });
  timed->EndAllAt(90, 2);
  timed->Run({TokenRequest(0, 10, 9), TokenRequest(0, 4, 9)});
}

TEST_P(Operation, StageIsGivenUpOnCancel) {
  ExpectStageGivenUp(&timed, [](Context& context, OpId stage) {
    const MemoryMark mark = context.memory({1}).Begin();
    EXPECT_EQ(context.actions().CancelOperation(stage), Refusal::kBadArgument);
    context.memory({1}).Commit(mark);
    EXPECT_EQ(context.actions().CancelOperation(stage), Refusal::kNone);
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 11, 10, 1, 3}));
  });
}
TEST_P(Operation, StageIsGivenUpOnRecompute) {
  ExpectStageGivenUp(&timed, [](Context& context, OpId) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kRecompute), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
  });
}
TEST_P(Operation, StageIsGivenUpWhenItsRequestEnds) {
  ExpectStageGivenUp(&timed, [](Context& context, OpId) {
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kCancelled), Refusal::kNone);
  });
}
TEST_P(Operation, StageIsGivenUpWhenItsBlocksAreReleased) {
  ExpectStageGivenUp(&timed,
                     [](Context& context, OpId) { EXPECT_TRUE(context.memory({0}).Release({0})); });
}
TEST_P(Operation, StageIsGivenUpWhenItsRequestIsSwappedOut) {
  ExpectStageGivenUp(&timed, [](Context& context, OpId) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwap), Refusal::kNone);
  });
}

TEST_P(Operation, RequestThatFinishesDuringAStageEndsAndTheCopyFreesItsBlocks) {
  timed.LaunchAt(12, 0, 0);
  timed.At(11, [](Context& context) { context.actions().Transfer(Move(0, 0, 1, true)); });
  timed.policy.on_operation_done = [](Context& context, const OperationDone& done) {
    EXPECT_FALSE(done.ok);
    EXPECT_FALSE(context.live({0}));
  };
  timed.At(23, [](Context& context) {
    EXPECT_FALSE(context.live({0}));
    EXPECT_EQ(BooksOf(context, 0), (Books{7, 0, 8})) << "it still reads them";
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
  });
  timed.At(36, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
  });
  timed.EndAllAt(37, 2);
  timed.Run({TokenRequest(0, 10, 2), TokenRequest(0, 4, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kCompleted);
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(22));
  EXPECT_THAT(timed.Told(), testing::Contains("36 stage 0 at 1 not done"));
}

TEST_P(Operation, PreemptedDuringAStageCannotComeBackBeforeTheCopyHasEnded) {
  timed.At(12, [](Context& context) {
    const Started stage = context.actions().Transfer(Move(0, 0, 1, true));
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kRecompute), Refusal::kMoving);
    EXPECT_FALSE(context.memory({0}).Release({0}));
    EXPECT_EQ(context.actions().CancelOperation(stage.id), Refusal::kNone);
  });
  timed.At(13, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kRecompute), Refusal::kNone);
  });
  timed.EndAllAt(14, 1);
  timed.Run({TokenRequest(0, 10, 9)});
  EXPECT_THAT(timed.Told(), testing::Contains("12 stage 0 at 1 not done"));
}

// ---- Cancelling ----

TEST_P(Operation, CancelledInTheMiddleAllIsAsBefore) {
  OpId op;
  timed.At(12, [&op](Context& context) { op = context.actions().Transfer(Move(0, 0, 1)).id; });
  timed.At(20, [&op](Context& context) {
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kNone);
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kNone) << "it is on its way to end";
    EXPECT_EQ(ProgressOf(context, 0).state, RequestState::kMoving) << "told by its end";
  });
  timed.At(21, [&op](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 8, 1, 2}));
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kUnknownOperation);
  });
  timed.LaunchAt(22, 0);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 0 steps 1",
                                        "20 transfer 0 at 1 not done", "32 done 0 finish 1"));
  EXPECT_FALSE(timed.run.recorder.operations[0].ok);
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 0u);
}

TEST_P(Operation, CancelledBeforeItBeginsItNeverDoes) {
  OpId op;
  timed.LaunchAt(12, 1);
  timed.At(15, [&op](Context& context) {
    TransferSpec spec = Move(0, 0, 1);
    spec.blocking = true;
    op = context.actions().Transfer(spec).id;
  });
  timed.LaunchAt(14, 2, 1);
  timed.At(16, [&op](Context& context) {
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kNone);
  });
  timed.EndAllAt(50, 3);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  ASSERT_EQ(timed.run.recorder.operations.size(), 1u);
  const OperationRecord& record = timed.run.recorder.operations[0];
  EXPECT_FALSE(record.ok);
  EXPECT_EQ(record.start, record.end);
}

// It ends at 37, and so does a plan, of which the policy hears first.
TEST_P(Operation, CancelledTooLateItIsDone) {
  OpId op;
  timed.LaunchAt(11, 1, 0);
  timed.At(12, [&op](Context& context) { op = context.actions().Transfer(Move(0, 0, 1)).id; });
  timed.run.step_time = [](const FakeStep& step) {
    return Duration::Nanos(step.entries[0].request == 1 ? 26 : 10);
  };
  timed.policy.on_plan_done = [&op](Context& context, const PlanDone& done) {
    if (done.end != Time::Nanos(37)) return;
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kNone);
  };
  timed.EndAllAt(50, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "37 done 0 finish 1", "37 transfer 0 at 1"));
}

TEST_P(Operation, BlocksThatAreGivenAwayCannotBeTakenBack) {
  OpId op;
  timed.At(12, [&op](Context& context) {
    TransferSpec spec = Swap(0, Tier::kDevice, Tier::kHost);
    spec.blocking = true;
    op = context.actions().Transfer(spec).id;
    EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kAlreadyStarted);
  });
  timed.EndAllAt(40, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), testing::Contains("37 swap out 0 at 0"));
}

// ---- Requests that end while they are moved ----

TEST_P(Operation, BlocksOfAFinishedRequestAreHeldUntilTheCopyEnds) {
  timed.At(12, [](Context& context) { PreemptNow(context, 0, PreemptMode::kSwap); });
  timed.At(20, [](Context& context) {
    EXPECT_EQ(context.actions().Finish({0}, EndReason::kCancelled), Refusal::kNone);
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6}));
  });
  timed.At(36, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 6})); });
  timed.At(37, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8})); });
  timed.EndAllAt(38, 2);
  timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)});
  EXPECT_EQ(timed.run.recorder.Find(0)->end, Time::Nanos(20));
  EXPECT_THAT(timed.Told(), testing::Contains("37 swap out 0 at 0 not done"));
}

TEST_P(Operation, ClientLeavesWhileItsRequestIsMoved) {
  timed.At(12, [](Context& context) { context.actions().Transfer(Move(0, 0, 1)); });
  timed.At(21, [](Context& context) {
    EXPECT_FALSE(context.live({0}));
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8}));
  });
  timed.At(37, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
  });
  timed.EndAllAt(38, 2);
  std::vector<RequestSpec> requests = {TokenRequest(0, 8, 9), TokenRequest(0, 4, 1)};
  requests[0].leaves = Time::Nanos(20);
  timed.Run(requests);
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kCancelled);
}

// ---- Refusals ----

/// At 30 ns: request 0 is computed, 1 is being swapped out, 2 is swapped out, 3 runs, 4 stands,
/// 5 has nothing; all on device 0.
TEST_P(Operation, RefusesWithItsReason) {
  timed.run.device.total_blocks = 40;
  timed.run.device.queue_depth = 2;
  timed.decisions.clear();
  timed.At(1, [](Context& context) {
    std::vector<Entry> entries;
    for (std::uint32_t id = 0; id < 5; ++id) {
      entries.push_back(ReservedEntry(context, {0}, {id}));
    }
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = entries}).ok());
  });
  timed.At(12, [](Context& context) { PreemptNow(context, 2, PreemptMode::kSwap); });
  timed.At(37, [](Context& context) {
    PreemptNow(context, 1, PreemptMode::kSwap);
    LaunchOne(context, {0}, {3});
    context.actions().Join({0}, {4});
    context.memory({0}).Reserve({5}, 4);
  });
  timed.At(40, [](Context& context) {
    const std::string before = Readable(context, 6);
    const auto expect = [&](const TransferSpec& spec, Refusal why, const char* what) {
      const Started started = context.actions().Transfer(spec);
      EXPECT_EQ(started.refusal, why) << what;
      EXPECT_FALSE(started.id.valid()) << what;
      EXPECT_EQ(Readable(context, 6), before) << what;
    };
    expect(Move(1, 0, 1), Refusal::kMoving, "is moved already");
    expect(Move(2, 0, 1), Refusal::kOnHost, "on the host, not on the device");
    TransferSpec from_host = Move(0, 0, 1);
    from_host.from_tier = Tier::kHost;
    expect(from_host, Refusal::kWrongDevice, "on the device, not on the host");
    expect(Move(0, 1, 0), Refusal::kWrongDevice, "on the other device");
    expect(Move(3, 0, 1), Refusal::kDuplicateEntry, "in flight");
    expect(Move(3, 0, 1, true), Refusal::kDuplicateEntry, "in flight");
    expect(Move(4, 0, 1), Refusal::kDuplicateEntry, "standing");
    expect(Move(5, 0, 1), Refusal::kBadArgument, "nothing computed");
    expect(Move(0, 0, 0), Refusal::kBadArgument, "to where it is");
    expect(Move(0, 0, 9), Refusal::kUnknownDevice, "no such device");
    expect(Move(0, 9, 0), Refusal::kUnknownDevice, "no such device");
    expect(Move(77, 0, 1), Refusal::kUnknownRequest, "no such request");
    expect(TransferSpec{.from = {0}, .to = {1}}, Refusal::kUnknownRequest, "nothing to move");
    TransferSpec live = Move(0, 0, 1, true);
    live.to_tier = Tier::kHost;
    expect(live, Refusal::kBadArgument, "a stage is between devices, or to the device's own host");
    live = Move(0, 0, 1, true);
    live.blocking = true;
    expect(live, Refusal::kBadArgument, "a stage that blocks is none");
    const MemoryMark mark = context.memory({1}).Begin();
    expect(Move(0, 0, 1), Refusal::kBadArgument, "in a transaction");
    context.memory({1}).Commit(mark);
    EXPECT_EQ(context.actions().CancelOperation({}), Refusal::kUnknownOperation);
    EXPECT_EQ(context.actions().CancelOperation({99, 0}), Refusal::kUnknownOperation);

    for (const std::uint32_t id : {1u, 2u}) {
      const Refusal why = id == 1 ? Refusal::kMoving : Refusal::kOnHost;
      const Entry entry{{id}, 1};
      EXPECT_EQ(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).refusal, why);
      EXPECT_EQ(context.actions().Join({0}, {id}), why);
      EXPECT_FALSE(context.memory({0}).Reserve({id}, 40));
      EXPECT_EQ(PreemptNow(context, id, PreemptMode::kSwap), why);
      EXPECT_EQ(PreemptNow(context, id, PreemptMode::kSwapBlocking), why);
    }
    EXPECT_EQ(PreemptNow(context, 1, PreemptMode::kRecompute), Refusal::kMoving);
    EXPECT_EQ(context.actions().Route({1}, {1}), Refusal::kMoving);
    EXPECT_EQ(context.actions().Route({2}, {1}), Refusal::kWrongDevice);
    EXPECT_FALSE(context.memory({0}).Release({1}));
    EXPECT_EQ(Readable(context, 6), before);
  });
  timed.EndAllAt(70, 6);
  std::vector<RequestSpec> requests(6, TokenRequest(0, 8, 9));
  timed.Run(requests);
}

TEST_P(Operation, RefusesWhatDoesNotFit) {
  timed.run.device.host_blocks = 1;
  timed.At(12, [](Context& context) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwap), Refusal::kNoMemory);
    EXPECT_EQ(context.request({0}).preemptions(), 0u);
    EXPECT_TRUE(context.memory({1}).Reserve({1}, 36));
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kNoMemory);
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1, true)).refusal, Refusal::kNoMemory);
    EXPECT_EQ(BooksOf(context, 1), (Books{1, 0, 1}));
  });
  timed.EndAllAt(13, 2);
  const RunSummary summary = timed.Run({TokenRequest(0, 8, 9), TokenRequest(0, 4, 9)});
  EXPECT_EQ(summary.refusals[static_cast<int>(Refusal::kNoMemory)], 3u);
  EXPECT_EQ(summary.preemptions, 0u);
}

TEST_P(Operation, RefusesWhereThereIsNoWay) {
  timed.run.device.host_link = timed.run.device.peer_link = {};
  timed.At(12, [](Context& context) {
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kSwap), Refusal::kNoLink);
    EXPECT_EQ(context.actions().Transfer(Move(0, 0, 1)).refusal, Refusal::kNoLink);
    EXPECT_FALSE(context.services().TransferTime({0}, {1}, 3).has_value());
  });
  timed.EndAllAt(13, 1);
  timed.Run({TokenRequest(0, 8, 9)});
}

TEST_P(Operation, TransferTimeIsWhatTheLinkSays) {
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.services().TransferTime({0}, {1}, 3), Duration::Nanos(1 + 3 * 64));
    EXPECT_EQ(context.services().TransferTime({0}, {0}, 1), Duration::Nanos(1 + 64));
  });
  timed.EndAllAt(13, 1);
  timed.Run({TokenRequest(0, 8, 9)});
}

// ---- Weights: room for 45 of small (10), middle (20) and large (40) ----

class Weights : public testing::Test {
 protected:
  Weights() {
    timed.run.devices = 2;
    timed.run.device.weights_bytes = 45;
    timed.run.device.load_link = timed.run.device.peer_link = kLink;
    timed.run.options.models = kModels;
  }
  static inline const ModelInfo kModels[] = {{"small", 10}, {"middle", 20}, {"large", 40}};
  TimedRun timed;
};

TEST_F(Weights, LoadNeedsRoomThatUnloadsGiveBackWhenTheyAreDone) {
  timed.At(1, [](Context& context) {
    EXPECT_EQ(context.device({0}).loaded_models, 0b011u) << "what fits, in the order of the list";
    EXPECT_EQ(context.actions().Load({0}, {2}).refusal, Refusal::kNoMemory);
    EXPECT_EQ(context.actions().Load({0}, {1}).refusal, Refusal::kBadArgument) << "is loaded";
    EXPECT_EQ(context.actions().Load({0}, {3}).refusal, Refusal::kBadArgument) << "no such model";
    EXPECT_EQ(context.actions().Load({9}, {0}).refusal, Refusal::kUnknownDevice);
    EXPECT_EQ(context.actions().Unload({0}, {2}).refusal, Refusal::kNotLoaded);
    EXPECT_EQ(context.services().LoadTime({0}, {2}), Duration::Nanos(41));
    EXPECT_EQ(context.actions().Unload({0}, {0}).refusal, Refusal::kNone);
    EXPECT_EQ(context.actions().Unload({0}, {1}).refusal, Refusal::kNone);
    EXPECT_EQ(context.device({0}).loaded_models, 0u) << "nothing can be launched any more";
    EXPECT_EQ(context.actions().Load({0}, {2}).refusal, Refusal::kNoMemory) << "they still go";
  });
  timed.At(26, [](Context& context) {
    EXPECT_EQ(context.actions().Load({0}, {2}).refusal, Refusal::kNone);
    EXPECT_EQ(context.actions().Load({0}, {2}).refusal, Refusal::kBadArgument) << "on its way";
    EXPECT_EQ(context.actions().Load({0}, {0}).refusal, Refusal::kNoMemory) << "room is taken";
    EXPECT_FALSE(context.device({0}).loaded({2}));
  });
  timed.At(51, [](Context& context) { EXPECT_EQ(context.device({0}).loaded_models, 0b100u); });
  timed.EndAllAt(52, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "26 unload 0 at 0", "26 unload 1 at 0",
                                        "26 device 0 capacity", "26 device 0 capacity",
                                        "51 load 2 at 0", "51 device 0 capacity"));
}

TEST_F(Weights, UnloadIsRefusedWhileAPlanOrKvNeedsTheModel) {
  timed.LaunchAt(1, 0);
  timed.At(5, [](Context& context) {
    EXPECT_EQ(context.actions().Unload({0}, {1}).refusal, Refusal::kModelInUse);
    EXPECT_EQ(context.actions().Unload({1}, {1}).refusal, Refusal::kNone) << "not there";
  });
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Unload({0}, {1}).refusal, Refusal::kModelInUse) << "its KV";
    EXPECT_EQ(PreemptNow(context, 0, PreemptMode::kRecompute), Refusal::kNone);
    EXPECT_EQ(context.actions().Unload({0}, {1}).refusal, Refusal::kNone);
    const Entry entry = ReservedEntry(context, {0}, {0});
    EXPECT_EQ(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).refusal,
              Refusal::kNotLoaded);
  });
  timed.EndAllAt(40, 1);
  std::vector<RequestSpec> requests = {TokenRequest(0, 8, 9)};
  requests[0].model = {1};
  timed.Run(requests);
}

TEST_F(Weights, OneStepRunsOneModel) {
  timed.At(1, [](Context& context) {
    const Entry entries[] = {ReservedEntry(context, {0}, {0}), ReservedEntry(context, {0}, {1})};
    const Launched mixed = context.actions().Launch({.device = {0}, .entries = entries});
    EXPECT_EQ(mixed.refusal, Refusal::kMixedModels);
    EXPECT_EQ(mixed.entry, 1u);
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = {entries, 1}}).ok());
  });
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
    LaunchOne(context, {0}, {1});
  });
  timed.At(23, [](Context& context) {
    EXPECT_EQ(context.actions().Join({0}, {1}), Refusal::kMixedModels);
  });
  timed.EndAllAt(24, 2);
  std::vector<RequestSpec> requests(2, TokenRequest(0, 8, 9));
  requests[1].model = {1};
  timed.Run(requests);
}

TEST_F(Weights, ComeFromAPeerThatHasThem) {
  const auto move = [](std::uint32_t from, std::uint32_t to, std::uint32_t model) {
    TransferSpec spec;
    spec.weights = {model};
    spec.from = {from};
    spec.to = {to};
    return spec;
  };
  timed.At(1, [=](Context& context) {
    Actions& actions = context.actions();
    EXPECT_EQ(actions.Transfer(move(1, 0, 0)).refusal, Refusal::kBadArgument) << "is loaded";
    EXPECT_EQ(actions.Unload({0}, {0}).refusal, Refusal::kNone);
    EXPECT_EQ(actions.Transfer(move(1, 0, 2)).refusal, Refusal::kNotLoaded);
    EXPECT_EQ(actions.Transfer(move(0, 0, 1)).refusal, Refusal::kBadArgument);
    TransferSpec live = move(1, 0, 0);
    live.live = true;
    EXPECT_EQ(actions.Transfer(live).refusal, Refusal::kBadArgument);
  });
  timed.At(26, [=](Context& context) {
    EXPECT_EQ(context.actions().Transfer(move(1, 0, 0)).refusal, Refusal::kNone);
  });
  timed.At(51, [](Context& context) {
    EXPECT_EQ(context.device({0}).loaded_models, 0b011u);
    EXPECT_EQ(context.device({1}).loaded_models, 0b011u) << "a copy";
  });
  timed.EndAllAt(52, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_EQ(timed.run.fakes[0].operations[1].command.entries, 2u) << "from device 1";
  EXPECT_EQ(timed.run.fakes[0].operations[1].command.bytes(), 10u);
}

TEST_F(Weights, CancelledLoadsAndUnloadsAreAsBefore) {
  OpId unload, load;
  timed.At(1, [&](Context& context) { unload = context.actions().Unload({0}, {1}).id; });
  timed.At(5, [&](Context& context) {
    EXPECT_EQ(context.actions().CancelOperation(unload), Refusal::kNone);
  });
  timed.At(6, [&](Context& context) {
    EXPECT_EQ(context.device({0}).loaded_models, 0b011u) << "it has not gone";
    unload = context.actions().Unload({0}, {1}).id;
  });
  timed.At(31, [&](Context& context) { load = context.actions().Load({0}, {1}).id; });
  timed.At(40, [&](Context& context) {
    EXPECT_EQ(context.actions().CancelOperation(load), Refusal::kNone);
  });
  timed.At(41, [&](Context& context) {
    EXPECT_EQ(context.device({0}).loaded_models, 0b001u) << "it has not come";
    EXPECT_EQ(context.actions().Load({0}, {1}).refusal, Refusal::kNone) << "its room is free";
  });
  timed.EndAllAt(70, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), testing::IsSupersetOf({"5 unload 1 at 0 not done", "31 unload 1 at 0",
                                                   "40 load 1 at 0 not done", "66 load 1 at 0"}));
}

TEST_F(Weights, NoWayNoLoad) {
  timed.run.device.load_link = timed.run.device.peer_link = {};
  timed.At(1, [](Context& context) {
    context.actions().Unload({0}, {1});
    EXPECT_FALSE(context.services().LoadTime({0}, {1}).has_value());
  });
  timed.At(27, [](Context& context) {
    EXPECT_EQ(context.actions().Load({0}, {1}).refusal, Refusal::kNoLink);
  });
  timed.EndAllAt(28, 1);
  timed.Run({TokenRequest(0, 8, 9)});
}

}  // namespace
}  // namespace schedtwin
