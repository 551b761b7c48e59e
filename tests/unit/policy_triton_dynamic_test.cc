// triton_dynamic's batching passes, batch by batch: preferred sizes, delay, payloads that grow. The
// expected schedules follow from the rules of triton-inference-server/core's
// dynamic_batch_scheduler.cc (01ea7d90). A batch takes 100 us; times are in us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_triton_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Units;
using triton_testing::At;
using triton_testing::Batches;
using triton_testing::Burst;
using triton_testing::Requests;
using triton_testing::Settings;
using triton_testing::Triton;
using triton_testing::WithShape;
using triton_testing::operator+;
using ::testing::ElementsAre;

// An instance that is busy until 100, and then `queued` requests at 10.
Requests Busy(std::uint32_t queued) { return Requests{At(0, 32)} + Burst(10, queued); }

TEST(PolicyTritonDynamic, NineGoTogetherWhereEightIsTheLargestPreferred) {
  // The first pass takes 8 and leaves the payload open; the mark in front of the ninth counts as
  // none, so the second pass adds it.
  const Settings settings = {{"preferred_batch_size", "4:8"}, {"max_queue_delay", "200us"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(9))), ElementsAre("0 x32", "100 x9"));
}

TEST(PolicyTritonDynamic, FixedVariantTakesEightOfNine) {
  const Settings settings = {
      {"preferred_batch_size", "4:8"}, {"max_queue_delay", "200us"}, {"variant", "fixed"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(9))), ElementsAre("0 x32", "100 x8", "210 x1"));
}

TEST(PolicyTritonDynamic, SecondPassAddsOneOfMany) {
  // 12 queued: 8, then the tenth marks behind the ninth: 9. The three left are not late until 210.
  const Settings settings = {{"preferred_batch_size", "4:8"}, {"max_queue_delay", "200us"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(12))), ElementsAre("0 x32", "100 x9", "210 x3"));
}

TEST(PolicyTritonDynamic, NoDelayTakesTheLargestPreferred) {
  const Settings settings = {{"preferred_batch_size", "4:8"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(9))), ElementsAre("0 x32", "100 x8", "200 x1"));
}

TEST(PolicyTritonDynamic, NoDelayTakesAllBelowThePreferred) {
  const Settings settings = {{"preferred_batch_size", "4:8"}};
  EXPECT_THAT(Batches(Triton(settings, Burst(0, 3))), ElementsAre("0 x3"));
}

TEST(PolicyTritonDynamic, PreferredSizeIsTheMaximumIfNoneIsGiven) {
  const Settings settings = {{"max_queue_delay", "200us"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(40))), ElementsAre("0 x32", "100 x32", "210 x8"));
}

TEST(PolicyTritonDynamic, SizesAreUnits) {
  const Settings settings = {{"preferred_batch_size", "4"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 2), At(5, 2)})), ElementsAre("5 x4"));
}

TEST(PolicyTritonDynamic, PreferredSizeIsLaunchedAtOnce) {
  const Settings settings = {{"preferred_batch_size", "4:8"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, Burst(0, 3) + Burst(7, 1))), ElementsAre("7 x4"));
}

TEST(PolicyTritonDynamic, AgeEqualToTheDelayIsLate) {
  // One that comes at that very instant goes with it.
  const Settings settings = {{"preferred_batch_size", "8"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0), At(50)})), ElementsAre("50 x2"));
}

TEST(PolicyTritonDynamic, LateBatchesIgnorePreferredSizes) {
  // A queue policy: nothing is formed ahead, and at 100 all six are late.
  const Settings settings = {
      {"preferred_batch_size", "4:8"}, {"max_queue_delay", "50us"}, {"max_queue_size", "100"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(6))), ElementsAre("0 x32", "100 x6"));
}

TEST(PolicyTritonDynamic, LateBatchesGoUpToTheMaximum) {
  const Settings settings = {{"preferred_batch_size", "4:8"},
                             {"max_queue_delay", "50us"},
                             {"max_batch_size", "32"},
                             {"max_queue_size", "100"}};
  EXPECT_THAT(Batches(Triton(settings, Busy(40))), ElementsAre("0 x32", "100 x32", "200 x8"));
}

TEST(PolicyTritonDynamic, WaitsForWholeMicrosecondsAndTakesLessForNone) {
  // At 0.4 us 9.6 us are left, cut to 9: at 9.4 us another 0.6, cut to nothing.
  const Settings settings = {
      {"preferred_batch_size", "8"}, {"max_queue_delay", "10us"}, {"enforce_equal_shape", "true"}};
  EXPECT_THAT(Play(Triton(settings, {Units(0, 1), Units(400, 1)})).steps,
              ElementsAre("9400-109400 U0:1 U1:1"));
}

TEST(PolicyTritonDynamic, FixedVariantWaitsToTheNanosecond) {
  const Settings settings = {{"preferred_batch_size", "8"},
                             {"max_queue_delay", "10us"},
                             {"enforce_equal_shape", "true"},
                             {"variant", "fixed"}};
  EXPECT_THAT(Play(Triton(settings, {Units(0, 1), Units(400, 1)})).steps,
              ElementsAre("10000-110000 U0:1 U1:1"));
}

TEST(PolicyTritonDynamic, DelayIsCutToMicroseconds) {
  const Settings settings = {{"preferred_batch_size", "8"}, {"max_queue_delay", "1999ns"}};
  EXPECT_THAT(Play(Triton(settings, {Units(0, 1)})).steps, ElementsAre("1000-101000 U0:1"));
}

TEST(PolicyTritonDynamic, FirstRequestPassesNoSizeTest) {
  const Settings settings = {
      {"preferred_batch_size", "4"}, {"max_batch_size", "8"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 40)})), ElementsAre("0 x40"));
  EXPECT_THAT(Batches(Triton(settings, {At(0, 6), At(0, 1)})), ElementsAre("0 x6", "100 x1"));
}

TEST(PolicyTritonDynamic, MisfitEndsTheBatchThoughOneBehindWouldFit) {
  const Settings settings = {{"max_batch_size", "4"}};
  EXPECT_THAT(Play(Triton(settings, {At(0, 3), At(0, 3), At(0, 1)})).steps,
              ElementsAre("0-100000 U0:3", "100000-200000 U1:3 U2:1"));
}

TEST(PolicyTritonDynamic, PayloadGrowsUntilAnInstanceTakesIt) {
  EXPECT_THAT(Batches(Triton({}, {At(0, 32), At(10), At(40), At(99)})),
              ElementsAre("0 x32", "100 x3"));
}

TEST(PolicyTritonDynamic, RequestAtTheInstantAtWhichAnInstanceIsFreeStillGrowsThePayload) {
  EXPECT_THAT(Batches(Triton({}, {At(0, 32), At(10), At(100)})), ElementsAre("0 x32", "100 x2"));
}

TEST(PolicyTritonDynamic, NoDelaySaturatesAPayloadAtAPreferredSize) {
  const Settings settings = {{"preferred_batch_size", "2:8"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 32), At(10), At(20), At(30)})),
              ElementsAre("0 x32", "100 x2", "200 x1"));
}

TEST(PolicyTritonDynamic, LatePayloadGrowsByWhatComesBeforeItIsTaken) {
  // Late at 60 with nobody to take it; the next one does not wait for its own delay. Shapes only so
  // that every arrival wakes the batcher.
  const Settings settings = {
      {"preferred_batch_size", "4"}, {"max_queue_delay", "50us"}, {"enforce_equal_shape", "true"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 32), At(10), At(70)})),
              ElementsAre("0 x32", "100 x2"));
}

TEST(PolicyTritonDynamic, ArrivalBelowTheNextPreferredSizeDoesNotWakeTheBatcher) {
  // As before, but nobody looks at the second one until the payload is taken.
  const Settings settings = {{"preferred_batch_size", "4"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 32), At(10), At(70)})),
              ElementsAre("0 x32", "100 x1", "200 x1"));
}

TEST(PolicyTritonDynamic, TwoPayloadsForEachInstanceAreFormedAhead) {
  // 1 and 1 wait; the two behind stay in the queue until one is taken, and go together.
  const Settings settings = {{"preferred_batch_size", "1:2"}, {"max_batch_size", "32"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 32), At(1), At(2), At(3), At(4)})),
              ElementsAre("0 x32", "100 x1", "200 x1", "300 x2"));
}

TEST(PolicyTritonDynamic, AnyQueuePolicyEndsFormingAhead) {
  const Requests requests = Requests{At(0, 32)} + Burst(10, 4) + Burst(20, 4);
  EXPECT_THAT(Batches(Triton({{"preferred_batch_size", "4:8"}}, requests)),
              ElementsAre("0 x32", "100 x4", "200 x4"));
  const std::pair<std::string, std::string> policies[] = {{"max_queue_size", "100"},
                                                          {"default_timeout", "1s"},
                                                          {"allow_timeout_override", "true"},
                                                          {"priority_levels", "1"}};
  for (const auto& policy : policies) {
    SCOPED_TRACE(policy.first);
    const Settings settings = {
        {"preferred_batch_size", "4:8"}, policy, {"default_priority_level", "1"}};
    EXPECT_THAT(Batches(Triton(settings, requests)), ElementsAre("0 x32", "100 x8"));
  }
}

TEST(PolicyTritonDynamic, AnActionForTimeoutsThatThereAreNotKeepsFormingAhead) {
  const Settings settings = {{"preferred_batch_size", "4:8"}, {"timeout_action", "delay"}};
  EXPECT_THAT(Batches(Triton(settings, Requests{At(0, 32)} + Burst(10, 4) + Burst(20, 4))),
              ElementsAre("0 x32", "100 x4", "200 x4"));
}

TEST(PolicyTritonDynamic, ShapesAreMixedUnlessTheModelForbidsIt) {
  const Requests requests = {WithShape(0, 1), WithShape(0, 1), WithShape(0, 2), WithShape(0, 1)};
  EXPECT_THAT(Batches(Triton({}, requests)), ElementsAre("0 x4"));
  EXPECT_THAT(Batches(Triton({{"enforce_equal_shape", "true"}}, requests)),
              ElementsAre("0 x2", "100 x1", "200 x1"));
}

TEST(PolicyTritonDynamic, AnotherShapeEndsTheWaitOfTheBatchBeforeIt) {
  const Settings settings = {{"enforce_equal_shape", "true"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {WithShape(0, 1), WithShape(5, 2)})),
              ElementsAre("5 x1", "105 x1"));
}

TEST(PolicyTritonDynamic, BatchesAreNeverMoreThanTheDeviceTakes) {
  policy_testing::Script script = Triton({{"preferred_batch_size", "4:16"}}, Burst(0, 12));
  script.device.max_step_tokens = 8;
  EXPECT_THAT(Batches(script), ElementsAre("0 x8", "100 x4"));
}

}  // namespace
}  // namespace schedtwin
