// clockwork on one model, step by step. Source: NeoLou/clockwork_fork, controller/infer5
// (0d339e23). A batch of n units takes 10 + n ns. Unless a test says otherwise a request has 1000
// ns, all of them to aim at, and a device is given work 10 ns ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/clockwork/duration_window.h"
#include "policies/clockwork/work_tracker.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::MakePolicy;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Units;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Settings With(const Settings& more) {
  Settings settings = {{"default_slo", "1000ns"},  {"slo_buffer", "0ns"},
                       {"schedule_ahead", "10ns"}, {"latest_delta", "10ns"},
                       {"network_delay", "0ns"},   {"lag", "10ns"},
                       {"max_load_slo", "1000ns"}, {"default_estimate", "11ns"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

Script Controller(std::vector<RequestSpec> requests, const Settings& more = {}) {
  Script script{.policy = "clockwork",
                .settings = With(more),
                .requests = std::move(requests),
                .model = StepTimeModel::Linear(Duration::Nanos(10), Duration::Nanos(1))};
  script.device.kind = ModelKind::kOneShot;
  return script;
}

RequestSpec Due(std::int64_t at_ns, std::int64_t deadline_ns) {
  RequestSpec spec = Units(at_ns, 1);
  spec.deadline = Time::Nanos(deadline_ns);
  return spec;
}

void ExpectTimedOutAt(const Played& played, std::uint32_t request, std::int64_t at_ns) {
  EXPECT_EQ(played.requests[request].reason, EndReason::kTimedOut) << request;
  EXPECT_EQ(played.requests[request].end, Time::Nanos(at_ns)) << request;
}

// ---- Batches ----

TEST(PolicyClockwork, RunsTheLargestSizeThatFills) {
  const Played played = Play(Controller(std::vector<RequestSpec>(7, Units(0, 1))));
  EXPECT_THAT(played.steps,
              ElementsAre("0-14 U0:1 U1:1 U2:1 U3:1", "14-26 U4:1 U5:1", "26-37 U6:1"));
}

TEST(PolicyClockwork, WaitsForNoFullerBatch) {
  const Played played = Play(Controller({Units(0, 1), Units(1, 1), Units(2, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-11 U0:1", "11-23 U1:1 U2:1"));
}

TEST(PolicyClockwork, RunsOnlyTheSizesItIsGiven) {
  const Played played =
      Play(Controller(std::vector<RequestSpec>(4, Units(0, 1)), {{"batch_sizes", "1:3"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-13 U0:1 U1:1 U2:1", "13-24 U3:1"));
}

TEST(PolicyClockwork, RunsNoLargerSizeThanTheDeviceTakes) {
  Script script = Controller(std::vector<RequestSpec>(5, Units(0, 1)));
  script.device.max_step_tokens = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-12 U0:1 U1:1", "12-24 U2:1 U3:1", "24-35 U4:1"));
}

TEST(PolicyClockwork, RequestsGoInTheOrderOfTheirAims) {
  const Played played =
      Play(Controller({Units(0, 1), Due(1, 500), Due(2, 400)}, {{"batch_sizes", "1"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-11 U0:1", "11-22 U2:1", "22-33 U1:1"));
}

TEST(PolicyClockwork, WhoIsTooLateForTheBatchIsBehindItInEveryQueue) {
  // Request 0 could run alone until 11, or as one of two until 12, but four others fill a larger
  // batch, which ends at 14.
  const Played played =
      Play(Controller({Due(0, 12), Units(0, 1), Units(0, 1), Units(0, 1), Units(0, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-14 U1:1 U2:1 U3:1 U4:1"));
  ExpectTimedOutAt(played, 0, 0);
}

TEST(PolicyClockwork, WhoIsTooLateForALargeSizeRunsInASmallOne) {
  const Played played = Play(Controller({Due(0, 12), Units(0, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-12 U0:1 U1:1"));
}

// ---- Units ----

TEST(PolicyClockwork, SizesAreUnitsAndTheRestIsPadding) {
  EXPECT_THAT(Play(Controller({Units(0, 3), Units(0, 1)})).steps, ElementsAre("0-14 U0:3 U1:1"));
  EXPECT_THAT(Play(Controller({Units(0, 3), Units(0, 3)})).steps,
              ElementsAre("0-14 U0:3 pad:1", "14-28 U1:3 pad:1"));
}

TEST(PolicyClockwork, RejectsWhatNoBatchHolds) {
  const Played played = Play(Controller({Units(0, 17), Units(0, 16)}));
  EXPECT_THAT(played.steps, ElementsAre("0-26 U1:16"));
  EXPECT_EQ(played.requests[0].reason, EndReason::kRejected);
}

// ---- Deadlines ----

TEST(PolicyClockwork, DropsWhoCannotBeThroughInTime) {
  std::vector<RequestSpec> requests(16, Units(0, 1));
  requests.push_back(Due(1, 37));
  EXPECT_THAT(Play(Controller(requests)).steps, ::testing::Contains("26-37 U16:1"));
  requests.back() = Due(1, 36);
  const Played late = Play(Controller(requests));
  EXPECT_EQ(late.steps.size(), 1u);
  ExpectTimedOutAt(late, 16, 26);
}

TEST(PolicyClockwork, DropsAsSoonAsItPlans) {
  std::vector<RequestSpec> requests(16, Units(0, 1));
  requests.push_back(Due(1, 36));
  Script script = Controller(requests);
  script.device.queue_depth = 2;
  ExpectTimedOutAt(Play(script), 16, 17);  // 26, when the device is free, is 9 ns ahead
}

TEST(PolicyClockwork, AimsAtAnEndBeforeTheDeadline) {
  // Two batches of 16, and one that ends at 63; 30 before the deadline of 93.
  std::vector<RequestSpec> requests(33, Due(0, 93));
  EXPECT_EQ(Play(Controller(requests, {{"slo_buffer", "30ns"}})).summary.ended[0], 33u);
  requests.assign(33, Due(0, 92));
  const Played late = Play(Controller(requests, {{"slo_buffer", "30ns"}}));
  EXPECT_EQ(late.summary.ended[0], 32u);
  ExpectTimedOutAt(late, 32, 52);
}

TEST(PolicyClockwork, AimsNoSoonerThanScheduleAheadAndBuffer) {
  const Played played = Play(Controller({Due(0, 8)}, {{"schedule_ahead", "20ns"}}));
  EXPECT_THAT(played.steps, ElementsAre("0-11 U0:1")) << "late, as a batch takes 11 at least";
}

TEST(PolicyClockwork, PlansNoStartSoonerThanTheNetworkDelay) {
  EXPECT_THAT(Play(Controller({Due(0, 13)}, {{"network_delay", "2ns"}})).steps,
              ElementsAre("0-11 U0:1"));
  EXPECT_THAT(Play(Controller({Due(0, 13)}, {{"network_delay", "3ns"}})).steps, IsEmpty());
}

TEST(PolicyClockwork, RequestsOfNoUseEndWhenTheirAimHasCome) {
  Script script = Controller({Units(5, 1)}, {{"default_slo", "300ns"}});
  const Fault fault{{0}, Time::Nanos(0)};
  script.options.faults = {&fault, 1};
  ExpectTimedOutAt(Play(script), 0, 305);
}

// ---- Planning ahead ----

TEST(PolicyClockwork, PlansAheadWhereTheDeviceQueues) {
  // At 2 the device is free within less than 10 ns, so request 1 is sent, and 2 is too late to be
  // of its batch.
  std::vector<RequestSpec> requests = {Units(0, 1), Units(1, 1), Units(5, 1)};
  Script script = Controller(requests);
  script.device.queue_depth = 2;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-11 U0:1", "11-22 U1:1", "22-33 U2:1"));
  EXPECT_THAT(Play(Controller(requests)).steps, ElementsAre("0-11 U0:1", "11-23 U1:1 U2:1"));
}

TEST(PolicyClockwork, PlansNoFurtherThanScheduleAhead) {
  // Until 2 the device counts as busy for 10 ns or more; then request 1 is no longer alone.
  Script script = Controller({Units(0, 1), Units(1, 1), Units(2, 1)});
  script.device.queue_depth = 8;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-11 U0:1", "11-23 U1:1 U2:1"));
}

TEST(PolicyClockwork, DevicesGetOneBatchEachInTurn) {
  Script script =
      Controller(std::vector<RequestSpec>(6, Units(0, 1)), {{"schedule_ahead", "50ns"}});
  script.devices = 2;
  script.device.queue_depth = 4;
  EXPECT_THAT(Play(script).steps, ElementsAre("d0 0-14 U0:1 U1:1 U2:1 U3:1", "d1 0-12 U4:1 U5:1"));
}

// ---- Windows and estimates ----

/// Steps take what `step_time` says, whatever was estimated.
struct Measured {
  TestRun run;
  void Run(std::vector<RequestSpec> requests, const Settings& more = {}) {
    run.device = SmallOneShot();
    run.device.queue_depth = depth;
    const auto policy = MakePolicy("clockwork", With(more));
    const RunSummary summary = run.Run(policy.get(), std::move(requests));
    EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  }
  /// What came of a request.
  std::string End(std::uint32_t id) const {
    const RequestRecord* record = run.recorder.Find(id);
    if (record == nullptr) return "none";
    return (record->reason == EndReason::kCompleted ? "served " : "not served ") +
           std::to_string(record->end.ns());
  }
  std::uint32_t depth = 2;
};

TEST(PolicyClockwork, WhatStartsTooLateIsDroppedAndItsRequestsAreTimedOut) {
  // Request 1 is sent at 2 to start at 11, and at 21 at the latest; the device is free at 50. Then
  // the estimate is 50, and request 2 is run.
  Measured measured;
  measured.run.step_time = [](const FakeStep&) { return Duration::Nanos(50); };
  measured.Run({Units(0, 1), Units(1, 1), Units(60, 1)});
  EXPECT_EQ(measured.End(0), "served 50");
  EXPECT_EQ(measured.End(1), "not served 50");
  EXPECT_EQ(measured.End(2), "served 110");
}

TEST(PolicyClockwork, WhatStartsWithinItsWindowRuns) {
  Measured measured;
  measured.run.step_time = [](const FakeStep&) { return Duration::Nanos(21); };
  measured.Run({Units(0, 1), Units(1, 1)});
  EXPECT_EQ(measured.End(1), "served 42");
}

TEST(PolicyClockwork, OneMeasurementReplacesTheFirstEstimate) {
  // The second request has 40 ns, which is enough by the first estimate, and not by what was
  // measured.
  Measured measured;
  measured.run.step_time = [](const FakeStep&) { return Duration::Nanos(50); };
  measured.Run({Units(0, 1), Due(100, 140)}, {{"batch_sizes", "1"}});
  EXPECT_EQ(measured.End(1), "not served 100");
}

TEST(PolicyClockwork, EstimateIsTheLargestOfTheLastTen) {
  clockwork::DurationWindow window(10);
  window.Add(Duration::Nanos(30));
  for (int i = 0; i < 9; ++i) window.Add(Duration::Nanos(12));
  EXPECT_EQ(window.Percentile99(), Duration::Nanos(30));
  window.Add(Duration::Nanos(13));
  EXPECT_EQ(window.Percentile99(), Duration::Nanos(13));
}

TEST(PolicyClockwork, LongerWindowsHaveA99thPercentile) {
  clockwork::DurationWindow window(201);
  for (int i = 0; i <= 200; ++i) window.Add(Duration::Nanos(i));
  EXPECT_EQ(window.Percentile99(), Duration::Nanos(198));
}

TEST(PolicyClockwork, OverdueWorkMovesTheRestOnlyPastTheLag) {
  clockwork::WorkTracker tracker;
  const auto available = [&](std::int64_t now) {
    return tracker.Available(Time::Nanos(now), Duration::Nanos(5), Duration::Nanos(1)).ns();
  };
  EXPECT_EQ(available(100), 101);
  tracker.Add(1, Duration::Nanos(10), Time::Nanos(100));
  tracker.Add(2, Duration::Nanos(20), Time::Nanos(103));
  EXPECT_EQ(available(104), 130);
  EXPECT_EQ(available(115), 130) << "overdue by 5";
  EXPECT_EQ(available(118), 133) << "overdue by 8";
  tracker.End(1, Time::Nanos(119));
  EXPECT_EQ(available(119), 139);
  tracker.End(2, Time::Nanos(125));
  EXPECT_EQ(available(125), 126);
}

// ---- What goes wrong ----

TEST(PolicyClockwork, WhoLeavesIsOutOfEveryQueue) {
  RequestSpec leaves = Units(1, 1);
  leaves.leaves = Time::Nanos(5);
  EXPECT_THAT(Play(Controller({Units(0, 1), leaves, Units(2, 1)})).steps,
              ElementsAre("0-11 U0:1", "11-22 U2:1"));
}

TEST(PolicyClockwork, WhatAFailedDeviceHadGoesBackAndRunsAgain) {
  Measured measured;
  measured.run.step_time = [](const FakeStep&) { return Duration::Nanos(11); };
  const Fault fault{{0}, Time::Nanos(5), Time::Nanos(40)};
  measured.run.options.faults = {&fault, 1};
  measured.Run({Units(0, 1), Due(1, 45)});
  EXPECT_EQ(measured.End(0), "served 51");
  EXPECT_EQ(measured.End(1), "not served 40");
}

std::string CheckOf(const Settings& settings) {
  const PolicyInfo* info = FindPolicy("clockwork");
  Parameters parameters;
  std::string error;
  EXPECT_TRUE(Parameters::Parse(info->parameters, settings, &parameters, &error)) << error;
  return info->check(parameters);
}

TEST(PolicyClockwork, SaysWhatIsWrongWithItsParameters) {
  EXPECT_EQ(CheckOf({}), "");
  for (const char* sizes : {"", "2:4", "1:4:2", "1:1"}) {
    EXPECT_EQ(CheckOf({{"batch_sizes", sizes}}),
              "batch_sizes must rise from 1, such as 1:2:4:8:16");
  }
  EXPECT_EQ(CheckOf({{"schedule_ahead", "1ms"}}),
            "schedule_ahead must be longer than network_delay, or nothing is ever scheduled");
}

}  // namespace
}  // namespace schedtwin
