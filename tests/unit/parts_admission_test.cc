// Admissions alone: who is let in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "policies/parts/bounded_queue.h"
#include "policies/parts/early_rejection.h"
#include "policies/parts/token_bucket.h"
#include "policies/profile/step_time.h"
#include "tests/support/fake_context.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

TEST(BoundedQueue, CountsWhoWaits) {
  FakeContext context(1);
  BoundedQueue admission(3);
  EXPECT_TRUE(admission.Admit(context, {0}, {{0}, 0, 0}));
  EXPECT_TRUE(admission.Admit(context, {1}, {{0}, 2, 0}));
  EXPECT_FALSE(admission.Admit(context, {2}, {{0}, 3, 0}));
  EXPECT_FALSE(admission.Admit(context, {3}, {{0}, 4, 0}));
}

Time Ms(std::int64_t ms) { return Time::Nanos(ms * 1'000'000); }

TEST(TokenBucket, LetsABurstInAndThenTheRate) {
  TokenBucket bucket(/*per_second=*/4, /*burst=*/3);
  int in = 0;
  for (int i = 0; i < 10; ++i) in += bucket.Take(0, Ms(1000));
  EXPECT_EQ(in, 3);
  EXPECT_FALSE(bucket.Take(0, Time::Nanos(1'249'999'999)));
  EXPECT_TRUE(bucket.Take(0, Ms(1250)));
  EXPECT_FALSE(bucket.Take(0, Ms(1499)));
  EXPECT_TRUE(bucket.Take(0, Ms(1500)));
  for (int i = 0; i < 10; ++i) in += bucket.Take(0, Ms(1'000'000'000'000));  // 30 years later
  EXPECT_EQ(in, 6);
}

TEST(TokenBucket, TenantsHaveTheirOwn) {
  FakeContext context(1);
  TokenBucket bucket(1, 1);
  context.cold[1].spec.tenant = 7;
  EXPECT_TRUE(bucket.Admit(context, {0}, {}));
  EXPECT_FALSE(bucket.Admit(context, {0}, {}));
  EXPECT_TRUE(bucket.Admit(context, {1}, {}));
  EXPECT_FALSE(bucket.Admit(context, {1}, {}));
  context.SetNow(Ms(1000));
  EXPECT_TRUE(bucket.Admit(context, {1}, {}));
}

TEST(TokenBucket, IsTheOneThatCountsInFractions) {
  Rng rng(1, "takes");
  TokenBucket bucket(5, 4);
  double level = 4, last = 0;
  std::int64_t us = 0;
  for (int i = 0; i < 5000; ++i) {
    us += rng.Below(400'000);
    const double now = static_cast<double>(us) / 1e6;
    level = std::min(4.0, level + 5 * (now - last));
    last = now;
    const bool in = bucket.Take(0, Time::Nanos(us * 1000));
    if (std::abs(level - 1) > 1e-6) {
      ASSERT_EQ(in, level >= 1) << i;
    }
    if (in) level -= 1;
  }
}

/// Whether one request of 100 prompt tokens is let in behind `tokens` of others
/// where a step takes 1 ms for each token.
std::optional<bool> LetsIn(Duration ttft, std::uint64_t tokens, const StepTimeModel* model,
                           std::vector<std::string>* notes = nullptr) {
  std::optional<bool> in;
  EarlyRejection admission(ttft);
  ScriptedPolicy policy;
  policy.on_arrival = [&](Context& context, RequestId request) {
    in = admission.Admit(context, request, {{0}, 1, tokens});
    admission.Admit(context, request, {{0}, 1, tokens});
    context.actions().Finish(request, EndReason::kRejected);
  };
  TestRun run;
  run.model = model;
  run.Run(&policy, {TokenRequest(0, 100, 1)});
  if (notes != nullptr) *notes = run.recorder.notes;
  return in;
}

TEST(EarlyRejection, PredictsQueueAndPrompt) {
  const StepTimeModel model = StepTimeModel::Linear(Duration(), Duration::Millis(1));
  EXPECT_EQ(LetsIn(Duration::Millis(100), 0, &model), true);
  EXPECT_EQ(LetsIn(Duration::Millis(99), 0, &model), false);
  EXPECT_EQ(LetsIn(Duration::Millis(350), 250, &model), true);
  EXPECT_EQ(LetsIn(Duration::Millis(349), 250, &model), false);
}

TEST(EarlyRejection, LetsAllInWithoutAProfileAndSaysSoOnce) {
  std::vector<std::string> notes;
  EXPECT_EQ(LetsIn(Duration::Millis(1), 1'000'000, nullptr, &notes), true);
  EXPECT_THAT(notes, testing::ElementsAre("early rejection: no profile, all are let in"));
}

}  // namespace
}  // namespace schedtwin
