// clockwork's promise on random workloads: where steps take what was predicted nothing starts
// outside its window and nobody is served late; where they do not, what starts too late is missed
// and its requests are answered. One to four models, one to three devices, queues of one to four.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::MakePolicy;
using policy_testing::Settings;

constexpr std::uint32_t kRequests = 40;
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 300;
#else
constexpr std::uint64_t kSeeds = 1500;
#endif

/// Passes all on and keeps which plans were missed.
class Watched final : public Policy {
 public:
  explicit Watched(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  void OnStart(Context& context) override { inner_->OnStart(context); }
  void OnArrival(Context& context, RequestId id) override { inner_->OnArrival(context, id); }
  void OnCancel(Context& context, RequestId id, CancelBy by) override {
    inner_->OnCancel(context, id, by);
  }
  void OnTimer(Context& context, std::uint64_t tag) override { inner_->OnTimer(context, tag); }
  void OnSlotFree(Context& context, DeviceId id) override { inner_->OnSlotFree(context, id); }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    for (const Entry& entry : done.entries) {
      if (done.why == PlanEnd::kMissed) missed.push_back({entry.request, done.end});
    }
    inner_->OnPlanDone(context, done);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    loads += done.kind == OperationKind::kLoad;
    inner_->OnOperationDone(context, done);
  }
  void OnDeviceChange(Context& context, DeviceId id, DeviceChange change) override {
    inner_->OnDeviceChange(context, id, change);
  }

  std::vector<std::pair<RequestId, Time>> missed;
  std::uint64_t loads = 0;

 private:
  std::unique_ptr<Policy> inner_;
};

std::string Nanos(std::int64_t ns) { return std::to_string(ns) + "ns"; }

/// A workload and how it is served. Times of about a microsecond.
struct Workload {
  explicit Workload(std::uint64_t seed) : rng(seed, "clockwork") {
    models = 1 + rng.Below(4);
    schedule_ahead = 500 + rng.Below(3000);
    slo_buffer = rng.Below(500);
    settings = {{"default_slo", "50us"},
                {"slo_buffer", Nanos(slo_buffer)},
                {"schedule_ahead", Nanos(schedule_ahead)},
                {"network_delay", Nanos(rng.Below(2) * rng.Below(400))},
                {"max_load_slo", Nanos(5000 + rng.Below(40000))},
                {"default_estimate", "1us"}};
    const std::uint32_t gap = 100 + rng.Below(2000);
    const std::uint32_t most_units = 1 + rng.Below(4);
    std::int64_t at = 0;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      at += rng.Below(4) == 0 ? 0 : rng.Below(gap);
      RequestSpec spec = UnitRequest(at, 1 + rng.Below(most_units));
      spec.model = {rng.Below(models)};
      const std::int64_t least = schedule_ahead + 2 * slo_buffer;
      spec.deadline = Time::Nanos(at + least + rng.Below(40000));
      if (rng.Below(10) == 0) spec.leaves = Time::Nanos(at + rng.Below(20000));
      requests.push_back(spec);
    }
    device.kind = ModelKind::kOneShot;
    device.queue_depth = 1 + rng.Below(4);
    device.max_step_tokens = rng.Below(2) * (4 + rng.Below(20));
  }

  Rng rng;
  std::uint32_t models = 1;
  std::int64_t schedule_ahead = 0;
  std::int64_t slo_buffer = 0;
  Settings settings;
  std::vector<RequestSpec> requests;
  DeviceInfo device;
};

struct Reached {
  std::uint64_t served = 0, timed_out = 0, missed = 0, loads = 0;
};

void ServeExactly(std::uint64_t seed, Reached* reached) {
  Workload work(seed);
  work.settings.push_back({"latest_delta", "0ns"});
  std::vector<ModelInfo> infos(work.models, ModelInfo{"model", 100});
  work.device.weights_bytes = 100 * (1 + work.rng.Below(work.models));
  work.device.load_link = {Duration::Nanos(1 + work.rng.Below(9000)), 1'000'000'000};
  std::vector<StepTimeModel> times;
  for (std::uint32_t i = 0; i < work.models; ++i) {
    times.push_back(StepTimeModel::Linear(Duration::Nanos(200 + work.rng.Below(2000)),
                                          Duration::Nanos(1 + work.rng.Below(400))));
  }
  std::vector<const StepTimeModel*> more;
  for (std::uint32_t i = 1; i < work.models; ++i) more.push_back(&times[i]);
  SimSetup setup = {&times[0], work.device, 1 + work.rng.Below(3), {}, more};
  setup.world.models = infos;
  Watched policy(MakePolicy("clockwork", work.settings));
  RecordingRecorder recorder;
  ListSource source(work.requests);
  RequestSource* const sources[] = {&source};
  const RunSummary summary = Simulate(setup, &policy, sources, &recorder, {});
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_TRUE(policy.missed.empty());
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    EXPECT_TRUE(summary.refusals[i] == 0 || static_cast<Refusal>(i) == Refusal::kNoMemory) << i;
  }
  ASSERT_EQ(recorder.requests.size(), work.requests.size());
  for (const RequestRecord& record : recorder.requests) {
    const RequestSpec& spec = work.requests[record.id.value];
    const Time aim = spec.deadline - Duration::Nanos(work.slo_buffer);
    if (record.reason == EndReason::kCompleted) {
      EXPECT_LE(record.end, aim) << record.id.value;
      ++reached->served;
    } else if (record.reason == EndReason::kTimedOut) {
      EXPECT_LE(record.end, aim) << record.id.value;
      ++reached->timed_out;
    } else {
      EXPECT_EQ(record.reason, EndReason::kCancelled);
    }
  }
  reached->loads += policy.loads;
}

TEST(ClockworkProperty, NothingStartsOrEndsLateWherePredictionsAreExact) {
  Reached reached;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ServeExactly(seed, &reached);
    if (HasFailure()) return;
  }
  EXPECT_GT(reached.served, kSeeds * kRequests / 4);
  EXPECT_GT(reached.timed_out, kSeeds);
  EXPECT_GT(reached.loads, kSeeds);
}

void ServeWithNoise(std::uint64_t seed, Reached* reached) {
  Workload work(seed);
  work.settings.push_back({"latest_delta", Nanos(work.rng.Below(1000))});
  for (RequestSpec& spec : work.requests) spec.model = {0};
  const StepTimeModel predicted = StepTimeModel::Linear(Duration::Nanos(1000), Duration::Nanos(50));
  TestRun run;
  run.device = work.device;
  run.devices = 1 + work.rng.Below(3);
  run.model = &predicted;
  run.step_time = [&](const FakeStep&) {
    const std::uint32_t much = work.rng.Below(8) == 0 ? 8000 : 300;
    return Duration::Nanos(900 + work.rng.Below(much));
  };
  Watched policy(MakePolicy("clockwork", work.settings));
  const RunSummary summary = run.Run(&policy, work.requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  ASSERT_EQ(run.recorder.requests.size(), work.requests.size());
  for (const auto& [id, at] : policy.missed) {
    const RequestRecord& record = *run.recorder.Find(id.value);
    EXPECT_EQ(record.reason, EndReason::kTimedOut);
    EXPECT_EQ(record.end, at);
    EXPECT_TRUE(record.first_start.infinite()) << "it never ran";
  }
  for (const RequestRecord& record : run.recorder.requests) {
    reached->served += record.reason == EndReason::kCompleted;
    reached->timed_out += record.reason == EndReason::kTimedOut;
  }
  reached->missed += policy.missed.size();
}

TEST(ClockworkProperty, WhatIsMissedIsAnsweredWhereTheyAreNot) {
  Reached reached;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ServeWithNoise(seed, &reached);
    if (HasFailure()) return;
  }
  EXPECT_GT(reached.served, kSeeds * kRequests / 4);
  EXPECT_GT(reached.missed, kSeeds / 4);
  EXPECT_GT(reached.timed_out, reached.missed);
}

}  // namespace
}  // namespace schedtwin
