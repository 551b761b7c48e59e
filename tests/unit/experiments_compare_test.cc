#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/compare.h"
#include "experiments/frontier.h"
#include "tests/unit/experiments_testing.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RelativeDifference, IsOverAAndNullWhereItHasNoMeaning) {
  EXPECT_DOUBLE_EQ(*RelativeDifference(2.0, 3.0), 0.5);
  EXPECT_DOUBLE_EQ(*RelativeDifference(2.0, 1.0), -0.5);
  EXPECT_DOUBLE_EQ(*RelativeDifference(0.0, 0.0), 0);
  EXPECT_EQ(RelativeDifference(0.0, 1.0), std::nullopt);
  EXPECT_EQ(RelativeDifference(std::nullopt, 1.0), std::nullopt);
}

// Publishes a run without rows.
std::int64_t AddRun(Store& store, const RunInfo& info, const RunMetrics& metrics) {
  const auto run = store.BeginRun(info);
  EXPECT_TRUE(run.ok()) << run.status();
  RunOutcome outcome = TestOutcome();
  outcome.metrics = metrics;
  outcome.requests = metrics.completed;
  EXPECT_TRUE(store.Publish(*run, outcome).ok());
  return *run;
}

TEST(Compare, ListsAllFiguresInOrderAndTheDifferingConditions) {
  auto store = Store::OpenForWriting(TempPath("a.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  RunInfo info = TestRun();
  info.record = "summary";
  RunMetrics metrics;
  metrics.completed = 10;
  metrics.e2e_ms = Distribution{10, 4, 2, 6, 8, 9};
  const std::int64_t a = AddRun(**store, info, metrics);
  metrics.e2e_ms->p99 = 10;
  info.policy = "immediate";
  info.parameters = {{"depth", "2", false}};
  const std::int64_t b = AddRun(**store, info, metrics);
  const auto comparison = CompareRuns(**store, a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_EQ(comparison->figures.size(), 16u);
  EXPECT_EQ(comparison->figures[0].name, "ttft_ms");
  EXPECT_EQ(comparison->figures[0].a, std::nullopt);
  EXPECT_EQ(comparison->figures[11].statistic, "p99");
  EXPECT_DOUBLE_EQ(*comparison->figures[11].rel_diff, 0.25);
  std::vector<std::string> differing;
  for (const ComparedCondition& c : comparison->differing) {
    differing.push_back(c.name + " " + c.a + " " + c.b);
  }
  EXPECT_THAT(differing,
              ElementsAre("policy fifo immediate", "policy.depth - 2", "policy.max_batch 1 -"));
  EXPECT_TRUE(comparison->no_effect) << "their outcome digests are equal";
  EXPECT_THAT(CompareRuns(**store, a, a)->differing, IsEmpty());
  ASSERT_TRUE((*store)
                  ->database()
                  .Execute("UPDATE runs SET outcome_digest = '0000000000000001' WHERE id = 2")
                  .ok());
  EXPECT_FALSE(CompareRuns(**store, a, b)->no_effect);
}

TEST(Frontier, KeepsWhatNobodyBeatsInBoth) {
  const TradePoint points[] = {{10, 5},          {20, 9}, {15, 4},  {20, 8},
                               {30, 9},          {5, 1},  {40, 12}, {std::nullopt, 99},
                               {1, std::nullopt}};
  EXPECT_THAT(Frontier(points), ElementsAre(5, 0, 1, 6));
  EXPECT_THAT(Frontier({}), IsEmpty());
  const TradePoint same[] = {{1, 1}, {1, 1}};
  EXPECT_THAT(Frontier(same), ElementsAre(0));
}

}  // namespace
}  // namespace schedtwin
