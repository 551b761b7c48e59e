// One suite for every world: the same policy, the same traffic, the same assertions, whether time
// is virtual and steps are predicted, or the clock is the wall's and a model computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "policies/runtime/journal.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

MakePolicy Make(const std::string& name) {
  policy_testing::Settings settings;
  // It drops what it cannot serve in time, and a real clock may stand still for long.
  if (name == "clockwork") settings = {{"default_slo", "1min"}, {"latest_delta", "1min"}};
  return [name, settings] { return policy_testing::MakePolicy(name, settings); };
}

bool Decodes(std::string_view policy) { return FindPolicy(policy)->decoder; }

// `count` requests `gap` apart, of mixed lengths and `classes`.
std::vector<RequestSpec> Traffic(bool decoder, std::uint32_t count, Duration gap,
                                 std::uint32_t classes = 1) {
  std::vector<RequestSpec> requests;
  Time at;
  for (std::uint32_t i = 0; i < count; ++i) {
    requests.push_back(decoder ? TokenRequest(at.ns(), 5 + i * 7 % 40, 1 + i * 5 % 23)
                               : UnitRequest(at.ns(), 1 + i % 3));
    requests.back().request_class = i % classes;
    at = at + gap;
  }
  return requests;
}

class EveryWorld : public testing::TestWithParam<std::tuple<TestWorld, const char*>> {
 protected:
  TestWorld world() const { return std::get<0>(GetParam()); }
  std::string policy() const { return std::get<1>(GetParam()); }
  bool decoder() const { return Decodes(policy()); }
  DeviceInfo Device() const { return decoder() ? TinyDecoderInfo() : TinyEncoderInfo(); }
};

void ExpectTimesInOrder(const RequestRecord& request) {
  EXPECT_LE(request.arrival, request.admitted) << request.id.value;
  EXPECT_LE(request.admitted, request.first_start) << request.id.value;
  EXPECT_LT(request.first_start, request.end) << request.id.value;
  if (request.output_tokens == 0) return;
  EXPECT_LT(request.first_start, request.first_token) << request.id.value;
  EXPECT_LE(request.first_token, request.last_token) << request.id.value;
  EXPECT_EQ(request.last_token, request.end) << request.id.value;
}

void ExpectStepsInOrder(const std::vector<StepRecord>& steps) {
  std::map<std::uint32_t, Time> free_at;
  for (const StepRecord& step : steps) {
    EXPECT_LT(step.start, step.end);
    EXPECT_LE(free_at[step.device.value], step.start) << "a device runs one step at a time";
    free_at[step.device.value] = step.end;
  }
}

TEST_P(EveryWorld, ServesAllOfItsTraffic) {
  TwoWorlds run;
  run.device = Device();
  const std::vector<RequestSpec> requests = Traffic(decoder(), 40, Duration::Micros(300), 2);
  const RunSummary summary = run.Run(world(), Make(policy()), requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  ASSERT_EQ(run.recorder.requests.size(), requests.size());
  std::uint64_t prompt = 0, output = 0, units = 0;
  for (const RequestRecord& record : run.recorder.requests) {
    const RequestSpec& asked = requests[record.id.value];
    EXPECT_EQ(record.reason, EndReason::kCompleted);
    EXPECT_EQ(record.output_tokens, asked.output_tokens);
    EXPECT_EQ(record.arrival, asked.arrival);
    ExpectTimesInOrder(record);
    prompt += record.prompt_tokens;
    output += record.output_tokens;
    units += record.units;
  }
  ExpectStepsInOrder(run.recorder.steps);
  std::uint64_t prefilled = 0, decoded = 0, launched = 0;
  for (const StepRecord& step : run.recorder.steps) {
    prefilled += step.prefill_tokens;
    decoded += step.decode_tokens;
    launched += step.units;
    EXPECT_EQ(step.compute_ns >= 0, world() == TestWorld::kCpu);
  }
  EXPECT_EQ(summary.steps, run.recorder.steps.size());
  EXPECT_EQ(launched, units);
  if (decoder()) {
    EXPECT_EQ(prefilled, prompt) << "nothing was preempted";
    EXPECT_EQ(decoded, output - requests.size()) << "the prompt's last chunk makes the first token";
  }
}

// Yields a list, each request when the one before has ended.
class OneByOne final : public RequestSource {
 public:
  explicit OneByOne(std::vector<RequestSpec> requests) : requests_(std::move(requests)) {}

  Pull Next(RequestSpec* out) override {
    if (next_ == requests_.size()) return Pull::kDry;
    if (waiting_) return Pull::kLater;
    waiting_ = true;
    *out = requests_[next_++];
    out->arrival = at_;
    return Pull::kRequest;
  }
  void OnRequestEnd(std::uint64_t, EndReason, Time now) override {
    waiting_ = false;
    at_ = now + Duration::Micros(500);
  }

 private:
  std::vector<RequestSpec> requests_;
  std::size_t next_ = 0;
  bool waiting_ = false;
  Time at_;
};

TEST_P(EveryWorld, IsTheSameForRequestsThatComeOneByOne) {
  std::vector<std::string> lines[2];  // nothing in them depends on how long a step takes
  const TestWorld worlds[] = {TestWorld::kSim, world()};
  for (int i = 0; i < 2; ++i) {
    TwoWorlds run;
    run.device = Device();
    const auto one_by_one = [&] {
      Sources sources;
      sources.push_back(std::make_unique<OneByOne>(Traffic(decoder(), 6, Duration())));
      return sources;
    };
    const RunSummary summary = run.Run(worlds[i], Make(policy()), one_by_one);
    ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    for (const LogRecord& line : run.recorder.log) {
      const auto code = static_cast<EventCode>(line.code);
      const bool event = line.kind == static_cast<std::uint8_t>(LineKind::kEvent);
      if (event && code >= EventCode::kStepTimes) continue;  // what only a real clock has to say
      const bool arms = !event && line.code == static_cast<std::uint8_t>(DecisionCode::kArm);
      const bool bounds =
          !event && line.code == static_cast<std::uint8_t>(DecisionCode::kPlanBounds);
      std::ostringstream text;
      text << (event ? "event " : "decision ") << int{line.code} << ": " << (bounds ? 0 : line.a)
           << " " << (arms || bounds ? 0 : line.b) << " " << line.c;
      lines[i].push_back(text.str());
    }
  }
  EXPECT_EQ(lines[0], lines[1]);
}

TEST_P(EveryWorld, RunsOnSeveralDevices) {
  TwoWorlds run;
  run.device = Device();
  run.devices = 2;
  const RunSummary summary =
      run.Run(world(), Make(policy()), Traffic(decoder(), 30, Duration(), 2));
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 30u);
  ExpectStepsInOrder(run.recorder.steps);
  std::set<std::uint32_t> used;
  for (const StepRecord& step : run.recorder.steps) used.insert(step.device.value);
  EXPECT_EQ(used.size(), 2u);
}

TEST_P(EveryWorld, LetsClientsWaitForTheirAnswers) {
  TwoWorlds run;
  run.device = Device();
  const RequestSpec request = decoder() ? TokenRequest(0, 9, 4) : UnitRequest(0, 2);
  const auto clients = [&] {
    Sources sources;
    sources.push_back(std::make_unique<ClosedSource>(request, 8, Duration::Micros(200)));
    sources.push_back(std::make_unique<ClosedSource>(request, 8, Duration::Micros(350)));
    return sources;
  };
  const RunSummary summary = run.Run(world(), Make(policy()), clients);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 16u);
}

TEST_P(EveryWorld, StopsWhenToldTo) {
  TwoWorlds run;
  run.device = Device();
  std::atomic<bool> stop = false;
  run.options.stop = &stop;
  // From the inside: in the simulator an hour is over before a thread has started.
  struct StopAfter final : RequestSource {
    Pull Next(RequestSpec* out) override {
      if (++count == 20) stop->store(true);
      *out = request;
      out->arrival = Time::Nanos(count * 1'000'000);
      return Pull::kRequest;
    }
    std::atomic<bool>* stop = nullptr;
    RequestSpec request;
    std::int64_t count = 0;
  };
  const auto endless = [&] {
    stop = false;
    auto source = std::make_unique<StopAfter>();
    source->stop = &stop;
    source->request = decoder() ? TokenRequest(0, 9, 4) : UnitRequest(0, 2);
    Sources sources;
    sources.push_back(std::move(source));
    return sources;
  };
  EXPECT_EQ(run.Run(world(), Make(policy()), endless).result, RunResult::kInterrupted);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<TestWorld, const char*>>& info) {
  return std::string(std::get<0>(info.param) == TestWorld::kSim ? "sim_" : "cpu_") +
         std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, EveryWorld,
    testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                     testing::Values("clockwork", "composed", "conserve", "dynamic_batch",
                                     "fastserve", "fifo", "hygen", "immediate", "llumnix",
                                     "static_batch", "triton_dynamic", "vllm_v1", "vtc")),
    NameOf);

class AWorld : public testing::TestWithParam<TestWorld> {};

TEST_P(AWorld, PreemptsWhereKvIsScarce) {
  TwoWorlds run;
  run.device.total_blocks = 8;  // of 16 tokens
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(TokenRequest(0, 20, 60));
  const RunSummary summary = run.Run(GetParam(), Make("vllm_v1"), requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 8u);
  EXPECT_GT(summary.preemptions, 0u);
  for (const RequestRecord& record : run.recorder.requests) EXPECT_EQ(record.output_tokens, 60u);
}

TEST_P(AWorld, DecidesAStepAheadWhereKvIsScarce) {
  TwoWorlds run;
  run.device.queue_depth = 2;
  run.device.total_blocks = 8;  // of 16 tokens
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(TokenRequest(i * 700'000, 20, 60 - i));
  requests[5].leaves = requests[5].arrival + Duration::Millis(3);
  const auto make = [] {
    return policy_testing::MakePolicy("vllm_v1", {{"async_scheduling", "true"}});
  };
  const RunSummary summary = run.Run(GetParam(), make, requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], 7u);
  EXPECT_GT(summary.preemptions, 0u);
  for (const RequestRecord& record : run.recorder.requests) {
    EXPECT_EQ(record.output_tokens == 60 - record.id.value, record.id.value != 5);
  }
}

TEST_P(AWorld, RejectsWhatCanNeverFit) {
  TwoWorlds run;
  const RunSummary summary =
      run.Run(GetParam(), Make("vllm_v1"), {TokenRequest(0, 512, 4), TokenRequest(0, 500, 100)});
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 1u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
  EXPECT_EQ(run.recorder.Find(1)->output_tokens, 12u) << "ends at the model's length";
}

INSTANTIATE_TEST_SUITE_P(Worlds, AWorld, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace schedtwin
