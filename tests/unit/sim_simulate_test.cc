// Simulate as a whole: ends of runs that only a simulated clock can reach.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "policies/registry.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"

namespace schedtwin {
namespace {

// A profile may say eleven days a step; enough steps of it would overflow int64 nanoseconds.
TEST(Simulate, TimeThatRunsOutEndsTheRunAsAStall) {
  const StepTimeModel model =
      StepTimeModel::Linear(Duration::Nanos(1'000'000'000'000'000), Duration::Nanos(0));
  SimSetup setup;
  setup.model = &model;
  setup.device.kind = ModelKind::kOneShot;
  std::vector<RequestSpec> specs(6000);
  ListSource source(std::move(specs));
  RequestSource* sources[] = {&source};
  Parameters parameters;
  std::string error;
  const PolicyInfo* info = FindPolicy("fifo");
  ASSERT_TRUE(Parameters::Parse(info->parameters, {}, &parameters, &error)) << error;
  const std::unique_ptr<Policy> policy = info->create(parameters);
  const RunSummary summary = Simulate(setup, policy.get(), sources, nullptr, {});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_NE(summary.detail.find("146 years"), std::string::npos) << summary.detail;
  EXPECT_GT(summary.ended[static_cast<int>(EndReason::kCompleted)], 4000u);
}

// A trace of a decoder's service may drive a one-shot model as it is: its tokens then mean nothing.
TEST(Simulate, AOneShotRequestIsRecordedByItsUnitsWhateverElseItsTraceSays) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(10));
  SimSetup setup;
  setup.model = &model;
  setup.device.kind = ModelKind::kOneShot;
  RequestSpec spec;
  spec.prompt_tokens = 100;
  spec.output_tokens = 7;
  spec.units = 3;
  ListSource source({spec});
  RequestSource* sources[] = {&source};
  Parameters parameters;
  std::string error;
  const PolicyInfo* info = FindPolicy("immediate");
  ASSERT_TRUE(Parameters::Parse(info->parameters, {}, &parameters, &error)) << error;
  const std::unique_ptr<Policy> policy = info->create(parameters);
  RecordingRecorder recorder;
  Simulate(setup, policy.get(), sources, &recorder, {});
  ASSERT_EQ(recorder.requests.size(), 1u);
  EXPECT_EQ(recorder.requests[0].units, 3u);
  EXPECT_EQ(recorder.requests[0].output_tokens, 0u);
  EXPECT_EQ(recorder.requests[0].end.ns(), 30);
}

// More entries than the command ring holds: the device makes room in the middle of the step.
TEST(Simulate, AStepMayHaveMoreEntriesThanTheCommandRing) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(10));
  SimSetup setup;
  setup.model = &model;
  setup.device.kind = ModelKind::kOneShot;
  ListSource source(std::vector<RequestSpec>(5000));
  RequestSource* sources[] = {&source};
  Parameters parameters;
  std::string error;
  const PolicyInfo* info = FindPolicy("dynamic_batch");
  const std::pair<std::string, std::string> settings[] = {{"max_batch_size", "5000"}};
  ASSERT_TRUE(Parameters::Parse(info->parameters, settings, &parameters, &error)) << error;
  const std::unique_ptr<Policy> policy = info->create(parameters);
  RecordingRecorder recorder;
  const RunSummary summary =
      Simulate(setup, policy.get(), sources, &recorder, {.steps = true, .log = false});
  EXPECT_EQ(summary.steps, 1u);
  ASSERT_EQ(recorder.steps.size(), 1u);
  EXPECT_EQ(recorder.steps[0].units, 5000u);
  EXPECT_EQ(recorder.steps[0].end.ns(), 50'000);
}

}  // namespace
}  // namespace schedtwin
