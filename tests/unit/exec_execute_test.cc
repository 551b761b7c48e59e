// Real runs on devices that only pretend to compute: the clock, the hand-over between threads, what
// one wake collects, and what happens when a device cannot go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "exec/cpu_device.h"
#include "exec/execute.h"
#include "tests/support/fakes.h"
#include "tests/support/sleeping_runner.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using testing::HasSubstr;

DeviceInfo Decoder() {
  DeviceInfo info;
  info.kind = ModelKind::kDecoder;
  info.total_blocks = 64;
  info.block_tokens = 16;
  return info;
}

MakeStepRunner Sleeping(Duration step, int throw_at = -1) {
  return MakeSleepingRunner(Decoder(), step, throw_at);
}

class RunFor {
 public:
  explicit RunFor(MakeStepRunner make) { setup.make_runner = std::move(make); }

  absl::StatusOr<ExecResult> Run(std::vector<RequestSpec> requests) {
    const std::unique_ptr<Policy> policy = policy_testing::MakePolicy("vllm_v1", {});
    ListSource source(std::move(requests));
    RequestSource* const sources[] = {&source};
    return Execute(setup, policy.get(), sources, &recorder, {.steps = true, .log = true});
  }

  ExecSetup setup;
  RecordingRecorder recorder;
};

TEST(Execute, MeasuresEachStep) {
  RunFor run(Sleeping(Duration::Millis(2)));
  const StepTimeModel model = StepTimeModel::Linear(Duration::Millis(1), Duration::Millis(1));
  run.setup.model = &model;
  const auto result = run.Run({TokenRequest(0, 8, 5)});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(run.recorder.steps.size(), 5u);
  for (const StepRecord& step : run.recorder.steps) {
    EXPECT_GE((step.end - step.start).ns(), 2'000'000);
    EXPECT_GE(step.compute_ns, 0);
    EXPECT_LT(step.compute_ns, 2'000'000) << "asleep, not computing";
    EXPECT_EQ(step.predicted_ns, 1'000'000 * (step.prefill_tokens + step.decode_tokens))
        << "without the host's part";
  }
  EXPECT_GE(result->wall_s, 0.010);
  EXPECT_GT(result->policy_thread_s, 0);
  EXPECT_LT(result->policy_thread_s, result->wall_s);
}

TEST(Execute, PredictsNothingWithoutAProfile) {
  RunFor run(Sleeping(Duration::Micros(10)));
  ASSERT_TRUE(run.Run({TokenRequest(0, 8, 2)}).ok());
  for (const StepRecord& step : run.recorder.steps) EXPECT_EQ(step.predicted_ns, -1);
}

TEST(Execute, DeliversArrivalsAtTheirTimesAndNeverEarly) {
  for (const Wait wait : {Wait::kSleep, Wait::kSpin}) {
    RunFor run(Sleeping(Duration::Micros(100)));
    run.setup.wait = wait;
    std::vector<RequestSpec> requests;
    for (int i = 0; i < 20; ++i) requests.push_back(TokenRequest(i * 2'000'000, 4, 1));
    ASSERT_TRUE(run.Run(requests).ok());
    for (const RequestRecord& record : run.recorder.requests) {
      EXPECT_GE(record.admitted, record.arrival);
      EXPECT_LT((record.admitted - record.arrival).ns(), 1'000'000'000);
    }
  }
}

TEST(Execute, SaysWhatADeviceThrewInAStep) {
  RunFor run(Sleeping(Duration::Micros(10), /*throw_at=*/3));
  const auto result = run.Run({TokenRequest(0, 8, 10)});
  EXPECT_TRUE(absl::IsAborted(result.status()));
  EXPECT_EQ(result.status().message(), "device 0: the fan has stopped");
  EXPECT_EQ(run.recorder.steps.size(), 3u);
}

TEST(Execute, SaysWhyADeviceCannotBeMade) {
  RunFor none([]() -> std::unique_ptr<StepRunner> { throw std::bad_alloc(); });
  const auto result = none.Run({TokenRequest(0, 8, 10)});
  EXPECT_TRUE(absl::IsResourceExhausted(result.status()));
  EXPECT_THAT(result.status().message(), HasSubstr("not enough memory"));
  RunFor other([]() -> std::unique_ptr<StepRunner> { throw std::runtime_error("no such thing"); });
  EXPECT_EQ(other.Run({TokenRequest(0, 8, 10)}).status().message(), "device 0: no such thing");
}

// Remembers what was posted.
class KeptReplies final : public ReplySink {
 public:
  void Post(const DeviceReply& reply, Time due) override {
    EXPECT_EQ(due, reply.end);
    plans.push_back(reply.plan.slot);
  }
  std::vector<std::uint32_t> plans;
};

TEST(WallTimeSource, WakesForAMessageBeforeTheDeadline) {
  WallClock clock;
  Mailbox mailbox;
  KeptReplies replies;
  mailbox.Connect(&replies);
  WallTimeSource time_source(&clock, &mailbox, Wait::kSleep);
  EXPECT_FALSE(time_source.MayWake());
  mailbox.Expect();
  mailbox.Expect();
  EXPECT_TRUE(time_source.MayWake());
  clock.Start();
  std::thread worker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    mailbox.Put({.plan = {1, 0}, .end = clock.Now()});
    mailbox.Put({.plan = {2, 0}, .end = clock.Now()});
  });
  const Time next = Time::Nanos(60'000'000'000);
  Time now;
  while (replies.plans.size() < 2) now = time_source.Advance(next);
  worker.join();
  EXPECT_LT(now, next);
  EXPECT_GE(now.ns(), 3'000'000);
  EXPECT_THAT(replies.plans, testing::ElementsAre(1, 2));
  EXPECT_FALSE(time_source.MayWake());
}

TEST(WallTimeSource, NeverGoesBackAndReachesItsDeadline) {
  WallClock clock;
  Mailbox mailbox;
  for (const Wait wait : {Wait::kSleep, Wait::kSpin}) {
    WallTimeSource time_source(&clock, &mailbox, wait);
    clock.Start();
    Time last;
    for (int i = 0; i < 50; ++i) {
      const Time next = last + Duration::Micros(i % 5 == 0 ? 0 : 300);
      Time now = time_source.Advance(next);
      EXPECT_GE(now, last);
      while (now < next) now = time_source.Advance(next);
      last = now;
    }
  }
}

TEST(WallTimeSource, ComesBackToLookWhetherTheRunIsStopped) {
  WallClock clock;
  Mailbox mailbox;
  WallTimeSource time_source(&clock, &mailbox, Wait::kSleep);
  clock.Start();
  EXPECT_LT(time_source.Advance(Time::Infinite()).ns(), 10'000'000'000);
}

}  // namespace
}  // namespace schedtwin
