// Victim orders alone, each with its ties.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/parts/victim_order.h"
#include "tests/support/fake_context.h"

namespace schedtwin {
namespace {

class VictimOrders : public testing::Test {
 protected:
  /// The victim among these, in order of admission.
  std::uint32_t Victim(VictimOrder order, std::vector<std::uint32_t> running) {
    std::vector<RequestId> ids;
    for (const std::uint32_t id : running) ids.push_back({id});
    return running[PickVictim(order, context_, ids)];
  }

  FakeContext context_{1};
};

TEST_F(VictimOrders, LastAdmitted) {
  EXPECT_EQ(Victim(VictimOrder::kLastAdmitted, {4, 9, 2}), 2u);
  EXPECT_EQ(Victim(VictimOrder::kLastAdmitted, {4}), 4u);
}

TEST_F(VictimOrders, LowestPriorityIsTheGreatestThenTheLatestArrival) {
  context_.cold[1].spec.priority = 5;
  context_.cold[2].spec.priority = 5;
  context_.cold[1].spec.arrival = Time::Nanos(20);
  context_.cold[2].spec.arrival = Time::Nanos(10);
  context_.cold[3].spec.priority = -7;
  EXPECT_EQ(Victim(VictimOrder::kLowestPriority, {1, 2, 3, 4}), 1u);
  EXPECT_EQ(Victim(VictimOrder::kLowestPriority, {3, 2, 4}), 2u);
  EXPECT_EQ(Victim(VictimOrder::kLowestPriority, {4, 3}), 4u);
  EXPECT_EQ(Victim(VictimOrder::kLowestPriority, {5, 6, 4}), 4u) << "equals: the last admitted";
}

TEST_F(VictimOrders, FewestGeneratedThenTheLongestPrompt) {
  context_.hot[1].output_tokens = 3;
  context_.hot[2].output_tokens = 1;
  context_.hot[3].output_tokens = 1;
  context_.hot[2].prompt_tokens = 50;
  context_.hot[3].prompt_tokens = 40;
  EXPECT_EQ(Victim(VictimOrder::kFewestGenerated, {1, 2, 3}), 2u);
  EXPECT_EQ(Victim(VictimOrder::kFewestGenerated, {3, 1}), 3u);
}

TEST_F(VictimOrders, LongestRemainingByTheMostItMayMake) {
  FakeLengths none, lengths{{{}, {30u}, {20u}, {}}};
  context_.UseServices(&none);
  context_.cold[1].max_new_tokens = 100;
  context_.hot[1].output_tokens = 90;
  context_.cold[2].max_new_tokens = 50;
  context_.hot[2].output_tokens = 10;
  context_.cold[3].max_new_tokens = 25;
  EXPECT_EQ(Victim(VictimOrder::kLongestRemaining, {1, 2, 3}), 2u);
  EXPECT_EQ(Victim(VictimOrder::kLongestRemaining, {1, 3}), 3u);
  // Predicted: 1 has 60 less than nothing to go, 2 has 10, of 3 nothing is predicted.
  context_.UseServices(&lengths);
  EXPECT_EQ(Victim(VictimOrder::kLongestRemaining, {1, 2}), 2u);
  EXPECT_EQ(Victim(VictimOrder::kLongestRemaining, {3, 2, 1}), 3u);
}

}  // namespace
}  // namespace schedtwin
