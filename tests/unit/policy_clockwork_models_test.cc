// clockwork on several models: whose batch is next, which model is loaded where, which makes room.
// A batch of n units of the first model takes 10 + n ns; a load takes 20 ns and 1 ns for each byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/clockwork/load_priority.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::MakePolicy;
using policy_testing::Settings;
using policy_testing::Units;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RequestSpec Of(std::uint32_t model, std::int64_t at_ns, std::int64_t deadline_ns) {
  RequestSpec spec = Units(at_ns, 1);
  spec.model = {model};
  spec.deadline = Time::Nanos(deadline_ns);
  return spec;
}

/// Models of these sizes, of which the device has room for `room`.
struct Models {
  std::vector<ModelInfo> models;
  std::uint64_t room = 0;
  std::uint32_t devices = 1;
  StepTimeModel first = StepTimeModel::Linear(Duration::Nanos(10), Duration::Nanos(1));
  StepTimeModel others = first;
  bool linked = true;

  class Recorder final : public schedtwin::Recorder {
   public:
    void OnRequest(const RequestRecord& record) override { requests.push_back(record); }
    void OnStep(const StepRecord&) override {}
    void OnLog(const LogRecord&) override {}
    void OnNote(Time, std::string_view) override {}
    void OnOperation(const OperationRecord& record) override {
      const bool loads = record.kind == static_cast<std::uint8_t>(OperationKind::kLoad);
      operations.push_back(std::to_string(record.start.ns()) + "-" +
                           std::to_string(record.end.ns()) + (loads ? " load " : " unload ") +
                           std::to_string(record.model.value));
    }
    std::vector<RequestRecord> requests;
    std::vector<std::string> operations;
  };
  Recorder recorder;

  /// What came of each request, by id.
  std::vector<std::string> Run(const std::vector<RequestSpec>& requests) {
    DeviceInfo info;
    info.kind = ModelKind::kOneShot;
    info.weights_bytes = room;
    if (linked) info.load_link = {Duration::Nanos(20), 1'000'000'000};
    const std::vector<const StepTimeModel*> more(models.size() - 1, &others);
    SimSetup setup = {&first, info, devices, {}, more};
    setup.world.models = models;
    const auto policy = MakePolicy("clockwork", {{"default_slo", "1000ns"},
                                                 {"slo_buffer", "0ns"},
                                                 {"schedule_ahead", "10ns"},
                                                 {"network_delay", "0ns"},
                                                 {"max_load_slo", "1000ns"}});
    ListSource source(requests);
    RequestSource* const sources[] = {&source};
    const RunSummary summary = Simulate(setup, policy.get(), sources, &recorder, {});
    EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    std::sort(recorder.requests.begin(), recorder.requests.end(),
              [](const RequestRecord& a, const RequestRecord& b) { return a.id < b.id; });
    std::vector<std::string> ends;
    for (const RequestRecord& record : recorder.requests) {
      const bool served = record.reason == EndReason::kCompleted;
      ends.push_back((served ? std::to_string(record.first_start.ns()) + "-" : "dropped ") +
                     std::to_string(record.end.ns()));
    }
    return ends;
  }
};

TEST(PolicyClockworkModels, EarlierDeadlineGoesFirst) {
  Models run{.models = {{"a", 1}, {"b", 1}}};
  EXPECT_THAT(run.Run({Of(0, 0, 900), Of(0, 1, 200), Of(1, 2, 100)}),
              ElementsAre("0-11", "22-33", "11-22"));
}

TEST(PolicyClockworkModels, LatestStartCountsNotTheDeadline) {
  // By 89 the first model's must start, by 79 that of the second, which takes 51.
  Models run{.models = {{"a", 1}, {"b", 1}}};
  run.others = StepTimeModel::Linear(Duration::Nanos(50), Duration::Nanos(1));
  EXPECT_THAT(run.Run({Of(0, 0, 900), Of(0, 1, 100), Of(1, 2, 130)}),
              ElementsAre("0-11", "62-73", "11-62"));
}

TEST(PolicyClockworkModels, OneBatchIsOfOneModel) {
  Models run{.models = {{"a", 1}, {"b", 1}}};
  EXPECT_THAT(run.Run({Of(0, 0, 900), Of(1, 0, 900), Of(0, 0, 900), Of(1, 0, 900)}),
              ElementsAre("0-12", "12-24", "0-12", "12-24"));
}

TEST(PolicyClockworkModels, LoadsWhatIsAskedForAndMakesRoom) {
  Models run{.models = {{"a", 6}, {"b", 6}}, .room = 10};
  EXPECT_THAT(run.Run({Of(1, 5, 900)}), ElementsAre("31-42"));
  EXPECT_THAT(run.recorder.operations, ElementsAre("5-5 unload 0", "5-31 load 1"));
}

TEST(PolicyClockworkModels, LoadsBesideTheSteps) {
  Models run{.models = {{"a", 6}, {"b", 6}}, .room = 10, .devices = 2};
  EXPECT_THAT(run.Run({Of(0, 0, 900), Of(1, 0, 900)}), ElementsAre("0-11", "26-37"));
}

TEST(PolicyClockworkModels, EvictsNoModelThatAPlanNeeds) {
  Models run{.models = {{"a", 6}, {"b", 6}}, .room = 10};
  EXPECT_THAT(run.Run({Of(0, 0, 900), Of(1, 1, 900)}), ElementsAre("0-11", "37-48"));
  EXPECT_THAT(run.recorder.operations, ElementsAre("11-11 unload 0", "11-37 load 1"));
}

TEST(PolicyClockworkModels, EvictsTheLeastRecentlyUsed) {
  Models run{.models = {{"a", 4}, {"b", 4}, {"c", 4}}, .room = 8};
  run.Run({Of(0, 0, 900), Of(1, 20, 900), Of(2, 50, 900)});
  EXPECT_THAT(run.recorder.operations, ElementsAre("50-50 unload 0", "50-74 load 2"));
  Models other{.models = {{"a", 4}, {"b", 4}, {"c", 4}}, .room = 8};
  other.Run({Of(1, 0, 900), Of(0, 20, 900), Of(2, 50, 900)});
  EXPECT_THAT(other.recorder.operations, ElementsAre("50-50 unload 1", "50-74 load 2"));
}

TEST(PolicyClockworkModels, EvictsWhatNobodyWaitsForFirst) {
  // At 43 the second model is the least recently used, but a request waits for it.
  Models run{.models = {{"a", 4}, {"b", 4}, {"c", 4}, {"d", 4}}, .room = 12};
  run.Run({Of(1, 0, 900), Of(0, 20, 900), Of(2, 40, 900), Of(1, 42, 900), Of(3, 43, 900)});
  EXPECT_THAT(run.recorder.operations, ElementsAre("43-43 unload 0", "43-67 load 3"));
}

TEST(PolicyClockworkModels, EvictsAsManyAsItTakes) {
  Models run{.models = {{"a", 4}, {"b", 4}, {"c", 8}}, .room = 8};
  EXPECT_THAT(run.Run({Of(2, 0, 900)}), ElementsAre("28-39"));
  EXPECT_THAT(run.recorder.operations, ElementsAre("0-0 unload 0", "0-0 unload 1", "0-28 load 2"));
}

TEST(PolicyClockworkModels, LoadsTheModelThatIsWantedMost) {
  Models run{.models = {{"a", 6}, {"b", 6}, {"c", 6}}, .room = 10};
  run.Run({Of(1, 0, 900), Of(2, 0, 900), Of(2, 0, 900)});
  EXPECT_EQ(run.recorder.operations[1], "0-26 load 2");
}

TEST(PolicyClockworkModels, RequestsForAModelThatCannotBeLoadedTimeOut) {
  Models too_large{.models = {{"a", 6}, {"b", 20}}, .room = 10};
  EXPECT_THAT(too_large.Run({Of(1, 0, 300)}), ElementsAre("dropped 300"));
  Models no_way{.models = {{"a", 6}, {"b", 6}}, .room = 10};
  no_way.linked = false;
  EXPECT_THAT(no_way.Run({Of(1, 0, 300), Of(0, 5, 300)}), ElementsAre("dropped 300", "5-16"));
  EXPECT_THAT(no_way.recorder.operations, IsEmpty());
}

TEST(PolicyClockworkModels, LoadPriorityIsDemandLessWhatDevicesCanServe) {
  // Device 0 has model 0, and 4 ms of its work beside the 1 ms that every device counts as having:
  // of a demand of 10 it serves 2 ms / 5 ms of that.
  clockwork::LoadPriority priority;
  const clockwork::Demand demand[] = {{4e6, 10}, {3e6, 7}};
  const std::uint64_t has[] = {1, 0};
  priority.Compute(demand, has, /*capacity_ns=*/2e6);
  EXPECT_DOUBLE_EQ(priority.of(0), 10 - 10 * 2.0 / 5);
  EXPECT_DOUBLE_EQ(priority.of(1), 7);
  // On both devices: 2 ms each, so 3 ms with what they count as having.
  const std::uint64_t both[] = {1, 1};
  priority.Compute(demand, both, /*capacity_ns=*/2e6);
  EXPECT_DOUBLE_EQ(priority.of(0), 10 - 10 * 2.0 / 3);
}

}  // namespace
}  // namespace schedtwin
