// immediate, step by step: every request alone, on arrival, on the device with the fewest plans
// queued. Source: a server without a batcher. A launch of n units takes n ns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Units;
using ::testing::ElementsAre;

Script OneShot(std::uint32_t devices, std::uint32_t queue_depth,
               std::vector<RequestSpec> requests) {
  Script script{.policy = "immediate", .requests = std::move(requests), .devices = devices};
  script.device.kind = ModelKind::kOneShot;
  script.device.queue_depth = queue_depth;
  return script;
}

TEST(PolicyImmediate, NeverBatches) {
  const Played played = Play(OneShot(1, 4, {Units(0, 2), Units(0, 2), Units(1, 3)}));
  EXPECT_THAT(played.steps, ElementsAre("0-2 U0:2", "2-4 U1:2", "4-7 U2:3"));
  EXPECT_EQ(played.summary.steps, 3u);
}

TEST(PolicyImmediate, TakesTheLeastQueuedDevice) {
  // At 1 the devices hold 1, 1 and 0 plans; at 2, 1, 1 and 1: the tie goes to the lowest.
  const Played played = Play(OneShot(3, 2, {Units(0, 9), Units(0, 7), Units(1, 8), Units(2, 1)}));
  EXPECT_THAT(played.steps,
              ElementsAre("d0 0-9 U0:9", "d1 0-7 U1:7", "d2 1-9 U2:8", "d0 9-10 U3:1"));
}

TEST(PolicyImmediate, ChoosesAtArrivalAndNeverAgain) {
  // Request 2 is bound to device 0, which turns out to be the slow one; device 1 idles from 1 on.
  const Played played = Play(OneShot(2, 2, {Units(0, 9), Units(0, 1), Units(0, 4)}));
  EXPECT_THAT(played.steps, ElementsAre("d0 0-9 U0:9", "d1 0-1 U1:1", "d0 9-13 U2:4"));
}

TEST(PolicyImmediate, AnEndAtTheSameInstantCountsAsFree) {
  const Played played = Play(OneShot(2, 1, {Units(0, 9), Units(0, 4), Units(4, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("d0 0-9 U0:9", "d1 0-4 U1:4", "d1 4-5 U2:1"));
}

TEST(PolicyImmediate, FullQueuesHoldRequestsInOrderOfArrival) {
  // Request 3 comes at the instant at which the device becomes free: those who waited go first.
  const Played played = Play(OneShot(1, 1, {Units(0, 5), Units(1, 2), Units(2, 1), Units(5, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-5 U0:5", "5-7 U1:2", "7-8 U2:1", "8-9 U3:1"));
}

TEST(PolicyImmediate, WaitingRequestsTakeTheFirstSlotOfAnyDevice) {
  const Played played = Play(OneShot(2, 1, {Units(0, 9), Units(0, 3), Units(1, 2), Units(1, 2)}));
  EXPECT_THAT(played.steps,
              ElementsAre("d0 0-9 U0:9", "d1 0-3 U1:3", "d1 3-5 U2:2", "d1 5-7 U3:2"));
}

}  // namespace
}  // namespace schedtwin
