// triton_dynamic's queues: timeouts, maximum sizes, priority levels. Expected schedules follow from
// triton-inference-server/core's scheduler_utils.cc (05295b70). A batch takes 100 us; times are in
// us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_triton_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Played;
using triton_testing::At;
using triton_testing::Batches;
using triton_testing::Burst;
using triton_testing::Requests;
using triton_testing::Settings;
using triton_testing::Triton;
using triton_testing::WithPriority;
using triton_testing::WithTimeout;
using triton_testing::operator+;
using ::testing::ElementsAre;

Settings One(Settings more) {
  more.insert(more.begin(), {"max_batch_size", "1"});
  return more;
}

TEST(PolicyTritonDynamicQueues, TimeoutIsStrict) {
  // The second is looked at when it has waited exactly 100.
  const Requests requests = Burst(0, 2);
  EXPECT_THAT(Batches(Triton(One({{"default_timeout", "100us"}}), requests)),
              ElementsAre("0 x1", "100 x1"));
  const Played late = Play(Triton(One({{"default_timeout", "99us"}}), requests));
  EXPECT_THAT(late.steps, ElementsAre("0-100000 U0:1"));
  EXPECT_EQ(late.requests[1].reason, EndReason::kTimedOut);
}

TEST(PolicyTritonDynamicQueues, TimeoutIsSeenOnlyWhenAPassComesBy) {
  const Played played = Play(Triton(One({{"default_timeout", "20us"}}), Burst(0, 2)));
  EXPECT_EQ(played.requests[1].end, Time::Nanos(100'000));
}

TEST(PolicyTritonDynamicQueues, TimeoutIsSeenByThePollWhileAllInstancesAreBusy) {
  policy_testing::Script script = Triton(One({{"default_timeout", "20us"}}), Burst(0, 2));
  script.model = StepTimeModel::Linear(Duration::Seconds(2), Duration());
  const Played played = Play(script);
  EXPECT_EQ(played.requests[1].reason, EndReason::kTimedOut);
  EXPECT_EQ(played.requests[1].end, Time() + Duration::Millis(500));
}

TEST(PolicyTritonDynamicQueues, BatchLeavesJustBeforeItsFirstTimeout) {
  // The wait is cut to the nearest timeout: at 30 nothing is left to wait for, and nobody is late.
  const Settings settings = {
      {"max_batch_size", "8"}, {"max_queue_delay", "80us"}, {"default_timeout", "30us"}};
  EXPECT_THAT(Batches(Triton(settings, {At(0), At(10)})), ElementsAre("30 x2"));
}

TEST(PolicyTritonDynamicQueues, OverrideBelowTheDefaultCounts) {
  const Settings settings = One({{"default_timeout", "1s"}, {"allow_timeout_override", "true"}});
  const Played played = Play(Triton(settings, {At(0), WithTimeout(0, 50)}));
  EXPECT_EQ(played.requests[1].reason, EndReason::kTimedOut);
}

TEST(PolicyTritonDynamicQueues, OverrideAboveTheDefaultIsIgnored) {
  const Settings settings = One({{"default_timeout", "50us"}, {"allow_timeout_override", "true"}});
  const Played played = Play(Triton(settings, {At(0), WithTimeout(0, 1'000'000)}));
  EXPECT_EQ(played.requests[1].reason, EndReason::kTimedOut);
}

TEST(PolicyTritonDynamicQueues, OverrideIsIgnoredWithoutADefault) {
  const Settings settings = One({{"allow_timeout_override", "true"}});
  EXPECT_THAT(Batches(Triton(settings, {At(0), WithTimeout(0, 50)})),
              ElementsAre("0 x1", "100 x1"));
}

TEST(PolicyTritonDynamicQueues, OverrideIsIgnoredUnlessAllowed) {
  const Settings settings = One({{"default_timeout", "1s"}});
  EXPECT_THAT(Batches(Triton(settings, {At(0), WithTimeout(0, 50)})),
              ElementsAre("0 x1", "100 x1"));
}

TEST(PolicyTritonDynamicQueues, DelayedRequestsAreOvertakenByFreshOnes) {
  const Settings settings = One({{"default_timeout", "50us"}, {"timeout_action", "delay"}});
  const Played played = Play(Triton(settings, {At(0), At(10), At(90), At(190)}));
  EXPECT_THAT(played.steps, ElementsAre("0-100000 U0:1", "100000-200000 U2:1", "200000-300000 U3:1",
                                        "300000-400000 U1:1"));
}

TEST(PolicyTritonDynamicQueues, FullQueueRejects) {
  const Played played = Play(Triton(One({{"max_queue_size", "2"}}), {At(0), At(1), At(2), At(3)}));
  EXPECT_EQ(played.requests[3].reason, EndReason::kRejected);
  EXPECT_EQ(played.requests[3].end, Time::Nanos(3'000));
  EXPECT_EQ(played.summary.ended[0], 3u) << "the one that runs does not count";
}

TEST(PolicyTritonDynamicQueues, DelayedRequestsCountForTheMaximum) {
  const Settings settings =
      One({{"default_timeout", "50us"}, {"timeout_action", "delay"}, {"max_queue_size", "2"}});
  // At 100 the third runs and the second is delayed; the fourth is the second of two again.
  const Played played = Play(Triton(settings, {At(0), At(10), At(90), At(110), At(111)}));
  EXPECT_EQ(played.requests[3].reason, EndReason::kCompleted);
  EXPECT_EQ(played.requests[4].reason, EndReason::kRejected);
}

TEST(PolicyTritonDynamicQueues, MaximumIsEachLevelsOwn) {
  const Settings settings =
      One({{"max_queue_size", "1"}, {"priority_levels", "2"}, {"default_priority_level", "2"}});
  const Played played =
      Play(Triton(settings, {At(0), WithPriority(1, 1), WithPriority(2, 1), WithPriority(3, 2)}));
  EXPECT_EQ(played.requests[2].reason, EndReason::kRejected);
  EXPECT_THAT(played.steps,
              ElementsAre("0-100000 U0:1", "100000-200000 U1:1", "200000-300000 U3:1"));
}

TEST(PolicyTritonDynamicQueues, LowLevelsWaitAsLongAsThereAreHigherOnes) {
  const Settings settings = One({{"priority_levels", "2"}, {"default_priority_level", "2"}});
  const Played played = Play(
      Triton(settings, {At(0), WithPriority(1, 2), WithPriority(50, 1), WithPriority(150, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-100000 U0:1", "100000-200000 U2:1", "200000-300000 U3:1",
                                        "300000-400000 U1:1"));
}

TEST(PolicyTritonDynamicQueues, PriorityBeyondTheLevelsIsTheDefaultLevel) {
  const Settings settings = One({{"priority_levels", "3"}, {"default_priority_level", "2"}});
  const Played played = Play(Triton(settings, {At(0), WithPriority(1, 3), WithPriority(2, 7),
                                               WithPriority(3, 0), WithPriority(4, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-100000 U0:1", "100000-200000 U4:1", "200000-300000 U2:1",
                                        "300000-400000 U3:1", "400000-500000 U1:1"));
}

TEST(PolicyTritonDynamicQueues, LevelsHavePoliciesOfTheirOwn) {
  const char config[] =
      "dynamic_batching { priority_levels: 2 default_priority_level: 1\n"
      "  priority_queue_policy { key: 2 value { max_queue_size: 1 } } }";
  const Played played =
      Play(Triton(One({{"config", config}}), {At(0), WithPriority(1, 1), WithPriority(1, 1),
                                              WithPriority(1, 2), WithPriority(1, 2)}));
  EXPECT_EQ(played.summary.ended[0], 4u);
  EXPECT_EQ(played.requests[4].reason, EndReason::kRejected);
}

TEST(PolicyTritonDynamicQueues, WhatNoInstanceCanRunIsRejectedAndTheRestGoesOn) {
  // The device has room for the first of two models: a launch for the second is refused.
  const ModelInfo models[] = {{"a", 1}, {"b", 1}};
  for (const char* ordered : {"false", "true"}) {
    for (const char* limit : {"off", "execution_count"}) {
      policy_testing::Script script =
          Triton({{"preserve_ordering", ordered}, {"rate_limit", limit}}, {At(0), At(10), At(300)});
      script.requests[1].model = {1};
      script.options.models = models;
      script.device.weights_bytes = 1;
      const policy_testing::Played played = policy_testing::Play(script);
      EXPECT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
      EXPECT_EQ(played.requests[0].reason, EndReason::kCompleted);
      EXPECT_EQ(played.requests[1].reason, EndReason::kRejected);
      EXPECT_EQ(played.requests[2].reason, EndReason::kCompleted);
    }
  }
}

TEST(PolicyTritonDynamicQueues, IdlePollFindsWhatWasNotWorthAWake) {
  // The first leaves while the batcher waits for it and one more. The next is one of two, and
  // nobody looks at it until the poll; then it waits for its delay, which is over.
  RequestSpec leaves = At(0);
  leaves.leaves = Time::Nanos(10'000);
  const Settings settings = {{"preferred_batch_size", "2"}, {"max_queue_delay", "50us"}};
  EXPECT_THAT(Batches(Triton(settings, {leaves, At(100)})), ElementsAre("500050 x1"));
}

}  // namespace
}  // namespace schedtwin
