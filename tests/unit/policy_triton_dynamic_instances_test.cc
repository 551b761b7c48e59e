// triton_dynamic's instances: merging at the dequeue, response order, rate limiter. Expected
// schedules follow from triton-inference-server/core's instance_queue.cc (05295b70) and
// rate_limiter.cc (03e0913e). A batch takes 100 us where no other model is named; times are in us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/two_worlds.h"
#include "tests/unit/policy_triton_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using triton_testing::At;
using triton_testing::Batches;
using triton_testing::Burst;
using triton_testing::Requests;
using triton_testing::Settings;
using triton_testing::Triton;
using triton_testing::operator+;
using ::testing::ElementsAre;

// The first instance is away from 30 us to 1 ms.
const Fault kFault[] = {{{0}, Time::Nanos(30'000), Time::Nanos(1'000'000), false}};

TEST(PolicyTritonDynamicInstances, EachInstanceTakesABatch) {
  EXPECT_THAT(Batches(Triton({{"max_batch_size", "2"}}, Burst(0, 5), 2)),
              ElementsAre("d0 0 x2", "d1 0 x2", "d0 100 x1"));
}

// Three in a payload by 20, and two more by 50: they are late where their oldest is older than the
// delay when the instance is free.
Script ToMerge(std::int64_t second_us, const char* max_batch_size, const char* variant) {
  const Settings settings = {{"preferred_batch_size", "2"},
                             {"max_queue_delay", "50us"},
                             {"max_batch_size", max_batch_size},
                             {"variant", variant}};
  return Triton(settings, {At(0, 8), At(10), At(10), At(20), At(second_us), At(50)});
}

TEST(PolicyTritonDynamicInstances, PayloadsThatAreOlderThanTheDelayAreMerged) {
  EXPECT_THAT(Batches(ToMerge(49, "8", "bug_compatible")), ElementsAre("0 x8", "100 x5"));
}

TEST(PolicyTritonDynamicInstances, PayloadExactlyAsOldAsTheDelayIsNotMerged) {
  EXPECT_THAT(Batches(ToMerge(50, "8", "bug_compatible")), ElementsAre("0 x8", "100 x3", "200 x2"));
}

TEST(PolicyTritonDynamicInstances, PayloadsAreNotMergedBeyondTheMaximum) {
  EXPECT_THAT(Batches(ToMerge(49, "4", "bug_compatible")), ElementsAre("0 x8", "100 x3", "200 x2"));
}

// A payload of 2, late at 70, that does not fit behind the one of 3 at 100; 2 more come at 160.
// Shapes only so that every arrival wakes the batcher.
Script ThatDoesNotFit(const char* variant) {
  const Settings settings = {{"preferred_batch_size", "3:4"},
                             {"max_queue_delay", "50us"},
                             {"max_batch_size", "4"},
                             {"enforce_equal_shape", "true"},
                             {"variant", variant}};
  return Triton(settings, {At(0, 8), At(10, 3), At(20, 2), At(160, 2)});
}

TEST(PolicyTritonDynamicInstances, PayloadThatDidNotFitAtAMergeIsClosed) {
  EXPECT_THAT(Batches(ThatDoesNotFit("bug_compatible")),
              ElementsAre("0 x8", "100 x3", "200 x2", "300 x2"));
}

TEST(PolicyTritonDynamicInstances, FixedVariantLeavesItOpen) {
  EXPECT_THAT(Batches(ThatDoesNotFit("fixed")), ElementsAre("0 x8", "100 x3", "200 x4"));
}

TEST(PolicyTritonDynamicInstances, NothingIsMergedWithoutADelay) {
  const Settings settings = {{"preferred_batch_size", "2"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 8), At(10), At(11), At(12), At(13)})),
              ElementsAre("0 x8", "100 x2", "200 x2"));
}

// One request takes 80, the other 10, on an instance of its own.
Script LongAndShort(const char* preserve_ordering) {
  Script script = Triton({{"max_batch_size", "8"}, {"preserve_ordering", preserve_ordering}},
                         {At(0, 8), At(0, 1)}, 2);
  script.model = StepTimeModel::Linear(Duration(), Duration::Micros(10));
  return script;
}

TEST(PolicyTritonDynamicInstances, ResponsesLeaveAsTheyAreReady) {
  EXPECT_EQ(Play(LongAndShort("false")).requests[1].end, Time::Nanos(10'000));
}

TEST(PolicyTritonDynamicInstances, ResponsesWaitForThoseBeforeThem) {
  const Played played = Play(LongAndShort("true"));
  EXPECT_EQ(played.requests[0].end, Time::Nanos(80'000));
  EXPECT_EQ(played.requests[1].end, Time::Nanos(80'000));
}

// Cancels and faults cut steps, which Play does not compare: here n units take 100 + 2n.
void PlayDisturbed(const Script& script, TwoWorlds* run) {
  run->device = script.device;
  run->devices = script.devices;
  run->options = script.options;
  const auto make = [&] { return policy_testing::MakePolicy(script.policy, script.settings); };
  EXPECT_EQ(run->Run(TestWorld::kSim, make, script.requests).result, RunResult::kFinished);
}

TEST(PolicyTritonDynamicInstances, ResponsesDoNotWaitForAClientThatHasLeft) {
  Script script = LongAndShort("true");
  script.requests[0].leaves = Time::Nanos(110'000);
  TwoWorlds run;
  PlayDisturbed(script, &run);
  EXPECT_EQ(run.recorder.Find(0)->reason, EndReason::kCancelled);
  EXPECT_EQ(run.recorder.Find(1)->end, Time::Nanos(110'000)) << "ready at 102";
}

Settings Limited(Settings more) {
  more.insert(more.begin(), {{"max_batch_size", "1"}, {"rate_limit", "execution_count"}});
  return more;
}

TEST(PolicyTritonDynamicInstances, PriorityTwoHasHalfTheTurnsOfOne) {
  // One resource for both. By executions x priority: 0 and 0, 1 and 0, 1 and 2, 2 and 2, 3 and 2,
  // 3 and 4.
  const Settings settings = Limited({{"instance_resources", "R=1"}, {"instance_priority", "1:2"}});
  EXPECT_THAT(
      Batches(Triton(settings, Burst(0, 6), 2)),
      ElementsAre("d0 0 x1", "d1 100 x1", "d0 200 x1", "d0 300 x1", "d1 400 x1", "d0 500 x1"));
}

TEST(PolicyTritonDynamicInstances, InstancesWithoutResourcesRunTogether) {
  EXPECT_THAT(Batches(Triton(Limited({}), Burst(0, 3), 2)),
              ElementsAre("d0 0 x1", "d1 0 x1", "d0 100 x1"));
}

TEST(PolicyTritonDynamicInstances, ResourcesCountOnlyWithTheRateLimiter) {
  const Settings settings = {{"max_batch_size", "1"}, {"instance_resources", "R=1"}};
  EXPECT_THAT(Batches(Triton(settings, Burst(0, 2), 2)), ElementsAre("d0 0 x1", "d1 0 x1"));
}

TEST(PolicyTritonDynamicInstances, SupplyIsTheMostThatOneInstanceNeedsUnlessGiven) {
  const Settings settings = Limited({{"instance_resources", "R=1;R=1"}});
  EXPECT_THAT(Batches(Triton(settings, Burst(0, 2), 2)), ElementsAre("d0 0 x1", "d1 100 x1"));
  Settings two = settings;
  two.push_back({"resource_supply", "R=2"});
  EXPECT_THAT(Batches(Triton(two, Burst(0, 2), 2)), ElementsAre("d0 0 x1", "d1 0 x1"));
}

// Of three there are two for the first and two for the second; the third needs the one left over.
Settings HeadOfLine(const char* variant) {
  return Limited(
      {{"instance_resources", "R=2;R=2;R=1"}, {"resource_supply", "R=3"}, {"variant", variant}});
}

TEST(PolicyTritonDynamicInstances, BlockedInstanceHoldsUpThoseBehindIt) {
  // When the first is done one is tried, the second; the third waits for the next occasion.
  EXPECT_THAT(Batches(Triton(HeadOfLine("bug_compatible"), Burst(0, 3), 3)),
              ElementsAre("d0 0 x1", "d1 100 x1", "d2 200 x1"));
}

TEST(PolicyTritonDynamicInstances, FixedVariantLetsAllRunThatCan) {
  EXPECT_THAT(Batches(Triton(HeadOfLine("fixed"), Burst(0, 3), 3)),
              ElementsAre("d0 0 x1", "d1 100 x1", "d2 100 x1"));
}

TEST(PolicyTritonDynamicInstances, PayloadGrowsWhileItsInstanceWaitsForResources) {
  const Settings settings = {
      {"max_batch_size", "8"}, {"rate_limit", "execution_count"}, {"instance_resources", "R=1"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0, 8), At(10), At(60)}, 2)),
              ElementsAre("d0 0 x8", "d1 100 x2"));
}

TEST(PolicyTritonDynamicInstances, BatchOfAFailedInstanceIsTakenByAnotherOne) {
  for (const char* limit : {"off", "execution_count"}) {
    SCOPED_TRACE(limit);
    Script script = Triton({{"max_batch_size", "4"}, {"rate_limit", limit}}, Burst(0, 4), 2);
    script.options.faults = kFault;
    TwoWorlds run;
    PlayDisturbed(script, &run);
    for (std::uint32_t id = 0; id < 4; ++id) {
      EXPECT_EQ(run.recorder.Find(id)->reason, EndReason::kCompleted);
      EXPECT_EQ(run.recorder.Find(id)->end, Time::Nanos(138'000));
    }
  }
}

TEST(PolicyTritonDynamicInstances, RequestsThatComeWhileNoInstanceIsUpAreServedAfterwards) {
  for (const char* limit : {"off", "execution_count"}) {
    SCOPED_TRACE(limit);
    Script script = Triton({{"max_batch_size", "4"}, {"rate_limit", limit}}, {At(50), At(60)});
    script.options.faults = kFault;
    TwoWorlds run;
    PlayDisturbed(script, &run);
    EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(1'104'000));
    EXPECT_EQ(run.recorder.Find(1)->end, Time::Nanos(1'104'000));
  }
}

}  // namespace
}  // namespace schedtwin
