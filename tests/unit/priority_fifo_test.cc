// PriorityFifo on a hand-worked schedule.
#include "tests/support/priority_fifo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

RequestSpec Prioritised(std::int64_t arrival_ns, std::int32_t priority) {
  RequestSpec spec = UnitRequest(arrival_ns, 1);
  spec.priority = priority;
  return spec;
}

TEST(PriorityFifo, UrgentFirstThenInOrderAndNeverCut) {
  // Steps of 10 ns. Request 0 is not urgent, but runs when the urgent ones come.
  TestRun run;
  run.device = SmallOneShot();
  PriorityFifo policy(2);
  const RunSummary summary =
      run.Run(&policy, {Prioritised(0, 1), Prioritised(1, 1), Prioritised(2, 0), Prioritised(3, 1),
                        Prioritised(4, 0), Prioritised(25, 0)});
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  std::vector<std::uint32_t> order;
  for (const RequestRecord& record : run.recorder.requests) order.push_back(record.id.value);
  EXPECT_THAT(order, testing::ElementsAre(0, 2, 4, 5, 1, 3));
  EXPECT_EQ(summary.last_end, Time::Nanos(60));
}

}  // namespace
}  // namespace schedtwin
