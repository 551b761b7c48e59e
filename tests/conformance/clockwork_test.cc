// clockwork's windows in every world: no plan starts outside its own, and one that cannot start
// within it is missed, in the log, and its requests are answered. On the processor nothing is known
// of the model, and the first estimate is far too short, so that some are missed for certain.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "policies/runtime/journal.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

/// One plan's story, as the log of a run on one device has it.
struct PlanStory {
  Time earliest, latest;
  Time launched;
  Time turn;  ///< when it was at the head of the queue, and launched
  bool missed = false;
};

std::vector<PlanStory> StoriesOf(const std::vector<LogRecord>& log) {
  std::map<std::uint64_t, PlanStory> stories;
  std::vector<PlanStory> ended;
  PlanStory bounds;
  Time free_at;
  for (const LogRecord& line : log) {
    const bool event = line.kind == static_cast<std::uint8_t>(LineKind::kEvent);
    if (!event && line.code == static_cast<std::uint8_t>(DecisionCode::kPlanBounds)) {
      bounds.earliest = Time::Nanos(static_cast<std::int64_t>(line.a));
      bounds.latest = Time::Nanos(static_cast<std::int64_t>(line.b));
    } else if (!event && line.code == static_cast<std::uint8_t>(DecisionCode::kLaunch)) {
      bounds.launched = line.time;
      EXPECT_TRUE(stories.emplace(line.a, bounds).second);
    } else if (event && line.code == static_cast<std::uint8_t>(EventCode::kPlanDone)) {
      PlanStory story = stories.at(line.a);
      stories.erase(line.a);
      story.turn = std::max(story.launched, free_at);
      story.missed = (line.b & 0xff) == static_cast<std::uint64_t>(PlanEnd::kMissed);
      free_at = line.time;
      ended.push_back(story);
    }
  }
  EXPECT_TRUE(stories.empty()) << "every plan ends";
  return ended;
}

class ClockworkWorlds : public testing::TestWithParam<TestWorld> {};

TEST_P(ClockworkWorlds, KeepsItsWindowsAndRecordsWhatItMisses) {
  const ModelInfo models[] = {{"a", 1}, {"b", 1}};
  TwoWorlds run;
  run.device = TinyEncoderInfo();
  run.device.queue_depth = 4;
  run.options.models = models;
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < 60; ++i) {
    requests.push_back(UnitRequest(i / 6 * 700'000, 1));
    requests.back().model = {i % 2};
  }
  const auto make = [] {
    return policy_testing::MakePolicy("clockwork", {{"default_slo", "1min"},
                                                    {"default_estimate", "1us"},
                                                    {"latest_delta", "0ns"},
                                                    {"network_delay", "0ns"},
                                                    {"batch_sizes", "1"}});
  };
  const RunSummary summary = run.Run(GetParam(), make, requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  std::uint64_t missed = 0, ran = 0;
  for (const PlanStory& story : StoriesOf(run.recorder.log)) {
    EXPECT_GE(story.turn, story.earliest);
    EXPECT_EQ(story.missed, story.turn > story.latest);
    ++(story.missed ? missed : ran);
  }
  EXPECT_EQ(ran, run.recorder.steps.size());
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], ran);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kTimedOut)], missed);
  EXPECT_EQ(ran + missed, requests.size());
  EXPECT_GT(ran, 0u);
  EXPECT_EQ(missed > 0, GetParam() == TestWorld::kCpu) << "in the simulator estimates are exact";
}

INSTANTIATE_TEST_SUITE_P(Worlds, ClockworkWorlds, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace schedtwin
