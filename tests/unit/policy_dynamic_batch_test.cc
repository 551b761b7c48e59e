// dynamic_batch, step by step. Source: the core of Triton Inference Server's dynamic batcher,
// core/src/dynamic_batch_scheduler.cc (73aad7c3): sizes are sums of request sizes, a batch is late
// when the age of its oldest is >= the delay. A launch takes 10 ns and 1 ns for each unit.
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

Script Batcher(const std::string& max_batch_size, const std::string& max_queue_delay,
               std::vector<RequestSpec> requests) {
  Script script{
      .policy = "dynamic_batch",
      .settings = {{"max_batch_size", max_batch_size}, {"max_queue_delay", max_queue_delay}},
      .requests = std::move(requests),
      .model = StepTimeModel::Linear(Duration::Nanos(10), Duration::Nanos(1))};
  script.device.kind = ModelKind::kOneShot;
  return script;
}

TEST(PolicyDynamicBatch, FullBatchIsLaunchedAtOnce) {
  const Played played =
      Play(Batcher("4", "100ns", {Units(0, 1), Units(1, 1), Units(2, 1), Units(3, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("3-17 U0:1 U1:1 U2:1 U3:1"));
}

TEST(PolicyDynamicBatch, SizeIsUnitsNotRequests) {
  const Played played = Play(Batcher("4", "100ns", {Units(0, 2), Units(1, 2), Units(2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("1-15 U0:2 U1:2", "102-113 U2:1"));
}

TEST(PolicyDynamicBatch, WaitsForTheDelayOfTheOldest) {
  // The second request's own delay would end at 160; one that comes at the very end still joins.
  const Played played = Play(Batcher("4", "100ns", {Units(0, 1), Units(60, 1), Units(100, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("100-113 U0:1 U1:1 U2:1"));
}

TEST(PolicyDynamicBatch, EachBatchHasItsOwnDelay) {
  const Played played = Play(Batcher("4", "20ns", {Units(0, 1), Units(40, 1), Units(50, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("20-31 U0:1", "60-72 U1:1 U2:1"));
}

TEST(PolicyDynamicBatch, AgeEqualToTheDelayIsLate) {
  // The device is free again at 21, when request 1 is exactly 10 ns old.
  const Played at = Play(Batcher("4", "10ns", {Units(0, 1), Units(11, 1)}));
  EXPECT_THAT(at.steps, ElementsAre("10-21 U0:1", "21-32 U1:1"));
  const Played before = Play(Batcher("4", "10ns", {Units(0, 1), Units(12, 1)}));
  EXPECT_THAT(before.steps, ElementsAre("10-21 U0:1", "22-33 U1:1"));
}

TEST(PolicyDynamicBatch, RequestsThatGrewLateWhileTheDeviceWasBusyGoTogetherWhenItIsFree) {
  const Played played =
      Play(Batcher("8", "5ns", {Units(0, 8), Units(1, 1), Units(2, 1), Units(17, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-18 U0:8", "18-31 U1:1 U2:1 U3:1"));
}

TEST(PolicyDynamicBatch, WhatIsLeftOverWaitsForItsOwnDelay) {
  const Played played = Play(
      Batcher("4", "100ns",
              {Units(0, 1), Units(0, 1), Units(0, 1), Units(0, 1), Units(0, 1), Units(50, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-14 U0:1 U1:1 U2:1 U3:1", "100-112 U4:1 U5:1"));
}

TEST(PolicyDynamicBatch, FirstInTheQueueIsNeverOvertakenByOneThatFits) {
  // 3 + 3 exceeds the maximum, and the 1 behind would fit: it waits with the one before it.
  const Played played = Play(Batcher("4", "50ns", {Units(0, 3), Units(0, 3), Units(0, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-13 U0:3", "13-27 U1:3 U2:1"));
}

TEST(PolicyDynamicBatch, RequestLargerThanTheMaximumRunsAloneAndAtOnce) {
  EXPECT_THAT(Play(Batcher("4", "100ns", {Units(0, 9), Units(30, 1)})).steps,
              ElementsAre("0-19 U0:9", "130-141 U1:1"));
  // Behind another it makes the queue full, and neither waits for the delay.
  EXPECT_THAT(Play(Batcher("4", "100ns", {Units(0, 1), Units(1, 9)})).steps,
              ElementsAre("1-12 U0:1", "12-31 U1:9"));
}

TEST(PolicyDynamicBatch, NoDelayTakesWhatIsThere) {
  const Played played = Play(
      Batcher("4", "0ns",
              {Units(0, 1), Units(0, 1), Units(1, 1), Units(2, 1), Units(12, 1), Units(12, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 U0:1 U1:1", "12-26 U2:1 U3:1 U4:1 U5:1"));
}

TEST(PolicyDynamicBatch, DevicesShareOneQueue) {
  Script script = Batcher(
      "2", "100ns",
      {Units(0, 1), Units(0, 1), Units(0, 1), Units(0, 1), Units(1, 1), Units(1, 1), Units(1, 1)});
  script.devices = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 0-12 U0:1 U1:1", "d1 0-12 U2:1 U3:1",
                                              "d0 12-24 U4:1 U5:1", "d0 101-112 U6:1"));
}

TEST(PolicyDynamicBatch, AnotherDeviceKeepsTheTimeOfWhatIsLeftOver) {
  Script script = Batcher("2", "30ns", {Units(0, 1), Units(5, 1), Units(5, 1)});
  script.devices = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 5-17 U0:1 U1:1", "d0 35-46 U2:1"));
  script.requests.back() = Units(5, 2);
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 5-17 U0:1 U1:1", "d1 5-17 U2:2"));
}

TEST(PolicyDynamicBatch, DeviceLimitIsAMaximumToo) {
  Script script = Batcher("32", "100ns", {Units(0, 2), Units(1, 1), Units(2, 3)});
  script.device.max_step_tokens = 3;
  EXPECT_THAT(Play(script).steps, ElementsAre("1-14 U0:2 U1:1", "14-27 U2:3"));
}

}  // namespace
}  // namespace schedtwin
