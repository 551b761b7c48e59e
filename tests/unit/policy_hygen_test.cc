// hygen, step by step: what goes into a step within the budget, in which order offline requests are
// begun, what the regression learns. Source: HyGen (arXiv:2501.14808v4). A step takes 1 ns for each
// token, a copy 5 ns and 1 ns for each block, and a KV block holds 4 tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "policies/parts/linear_fit.h"
#include "tests/support/texts.h"
#include "tests/unit/hybrid_testing.h"

namespace schedtwin {
namespace {

using hybrid_testing::Copies;
using hybrid_testing::ExpectNothingRefused;
using hybrid_testing::Offline;
using hybrid_testing::Online;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using ::testing::ElementsAre;

Script Engine(std::vector<RequestSpec> requests, const Settings& more, std::uint32_t blocks = 64) {
  Settings settings = {{"step_budget", "8ns"}, {"predictor", "profile"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return hybrid_testing::Engine("hygen", std::move(requests), settings, blocks);
}

Played Serve(std::vector<RequestSpec> requests, const Settings& more = {},
             std::uint32_t blocks = 64) {
  const Played played = Play(Engine(std::move(requests), more, blocks));
  ExpectNothingRefused(played.summary);
  return played;
}

// ---- The budget ----

TEST(PolicyHygen, OnlineWorkGoesFirstAndTheChunkIsWhatTheBudgetLeaves) {
  const Played played = Serve({Offline(0, 6, 1), Online(0, 5, 2)});
  EXPECT_THAT(played.steps, ElementsAre("0-8 P1:5 P0:3", "8-12 D1 P0:3"));
}

TEST(PolicyHygen, OnlineWorkIsNotBoundByTheBudget) {
  const Played played = Serve({Online(0, 20, 1), Offline(0, 4, 1)});
  EXPECT_THAT(played.steps, ElementsAre("0-20 P0:20", "20-24 P1:4"));
}

TEST(PolicyHygen, StepsOfOfflineWorkKeepTheBudgetToo) {
  const Played played = Serve({Offline(0, 20, 2)});
  EXPECT_THAT(played.steps, ElementsAre("0-8 P0:8", "8-16 P0:8", "16-20 P0:4", "20-21 D0"));
}

TEST(PolicyHygen, SoDoTheTokensOfAStep) {
  const Played played = Serve({Offline(0, 14, 1)}, {{"max_num_batched_tokens", "6"}});
  EXPECT_THAT(played.steps, ElementsAre("0-6 P0:6", "6-12 P0:6", "12-14 P0:2"));
}

TEST(PolicyHygen, ABudgetThatNothingKeepsStopsNobodyForEver) {
  // Every step takes 5 ns more than its tokens, and 1 ns is allowed.
  Script script = Engine({Offline(0, 10, 2), Online(1, 2, 2)},
                         {{"step_budget", "1ns"}, {"fallback_tokens", "4"}});
  script.model = StepTimeModel::Linear(Duration::Nanos(5), Duration::Nanos(1));
  EXPECT_THAT(Play(script).steps, ElementsAre("0-9 P0:4", "9-16 P1:2", "16-22 D1", "22-31 P0:4",
                                              "31-38 P0:2", "38-44 D0"));
}

// ---- Memory ----

/// Six blocks, five of which are wanted by request 1 at 15.
const std::vector<RequestSpec> kOnlineIsShort = {Offline(0, 12, 8), Online(15, 17, 1)};

TEST(PolicyHygen, OfflineKvGivesWayAndItsStateIsKept) {
  const Played played = Serve(kOnlineIsShort, {{"step_budget", "1s"}}, 6);
  EXPECT_THAT(played.steps,
              ElementsAre("0-12 P0:12", "12-13 D0", "13-14 D0", "14-15 D0", "24-41 P1:17",
                          "50-51 D0", "51-52 D0", "52-53 D0", "53-54 D0"));
  EXPECT_THAT(Copies(played), ElementsAre("out 0:4 15-24", "in 0:4 41-50"));
  EXPECT_EQ(played.requests[0].recomputed_tokens, 0u);
}

TEST(PolicyHygen, OrIsComputedAgain) {
  const Played played =
      Serve(kOnlineIsShort, {{"step_budget", "1s"}, {"offline_kv", "recompute"}}, 6);
  EXPECT_EQ(played.steps[4], "15-32 P1:17");
  EXPECT_EQ(played.steps[5], "32-48 P0:16");
  EXPECT_EQ(played.requests[0].recomputed_tokens, 15u);
}

// ---- The order of offline requests ----

constexpr std::uint64_t kPaper = 1, kBook = 2, kQuestion = 3;

class PolicyHygenOrder : public testing::Test {
 protected:
  RequestSpec Text(const std::vector<ContentSegment>& content, std::uint64_t session = 0) {
    RequestSpec spec = texts_.Request(0, content, 1);
    spec.request_class = 1;
    spec.session = session;
    return spec;
  }
  /// In which requests are begun, one after another.
  std::vector<std::uint32_t> Order(std::vector<RequestSpec> requests, const Settings& more,
                                   bool prefix_cache = true) {
    Settings settings = {{"step_budget", "1s"}, {"max_num_seqs", "1"}, {"offline_order", "prefix"}};
    settings.insert(settings.end(), more.begin(), more.end());
    Script script = Engine(std::move(requests), settings);
    script.options.prefix_cache = prefix_cache;
    const Played played = Play(script);
    ExpectNothingRefused(played.summary);
    std::vector<std::uint32_t> order;
    for (const RequestRecord& record : played.requests) order.push_back(record.id.value);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return played.requests[a].first_start < played.requests[b].first_start;
    });
    return order;
  }
  /// 0, 2 and 4 share a paper, 1 and 3 a book.
  std::vector<RequestSpec> TwoTexts() {
    return {Text({{kPaper, 8}}), Text({{kBook, 8}}), Text({{kPaper, 8}, {kQuestion, 4}}),
            Text({{kBook, 8}, {kQuestion, 4}}), Text({{kPaper, 8}, {kQuestion, 6}})};
  }
  Texts texts_;
};

TEST_F(PolicyHygenOrder, WhoSharesMostWithWhatIsCachedGoesFirst) {
  // 4 shares three blocks with 2, two with 0.
  EXPECT_THAT(Order(TwoTexts(), {}), ElementsAre(0, 2, 4, 1, 3));
}

TEST_F(PolicyHygenOrder, FirstComeFirstServedLooksAtNothing) {
  EXPECT_THAT(Order(TwoTexts(), {{"offline_order", "fcfs"}}), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(PolicyHygenOrder, TheOldestHasItsShare) {
  // Every other one is the oldest, every one, and the third of three.
  EXPECT_THAT(Order(TwoTexts(), {{"oldest_percent", "50"}}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Order(TwoTexts(), {{"oldest_percent", "100"}}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Order(TwoTexts(), {{"oldest_percent", "34"}}), ElementsAre(0, 2, 1, 4, 3));
}

TEST_F(PolicyHygenOrder, OnlyTheWindowIsLookedAt) {
  // Of 1 and 2 the latter, of 1 and 3, who share nothing, the former; 4 shares more than 3.
  EXPECT_THAT(Order(TwoTexts(), {{"prefix_window", "2"}}), ElementsAre(0, 2, 1, 4, 3));
}

TEST_F(PolicyHygenOrder, WithoutACacheEqualPromptsAndThenSessionsStayTogether) {
  const std::vector<RequestSpec> requests = {Text({{kPaper, 8}}, 7), Text({{kBook, 8}}, 9),
                                             Text({{kQuestion, 8}}, 7), Text({{kPaper, 8}}, 8)};
  EXPECT_THAT(Order(requests, {}, /*prefix_cache=*/false), ElementsAre(0, 3, 1, 2));
  const std::vector<RequestSpec> sessions = {Text({{kPaper, 8}}, 7), Text({{kBook, 8}}, 9),
                                             Text({{kQuestion, 8}}, 7)};
  EXPECT_THAT(Order(sessions, {}, /*prefix_cache=*/false), ElementsAre(0, 2, 1));
}

// ---- The regression ----

TEST(PolicyHygen, RegressionBeginsCarefullyAndThenFillsTheBudget) {
  // Four steps of two tokens are measured. A fit speaks of twice of what it has seen: four tokens
  // are known to fit, eight are not told wrongly by much, and then the budget of 10 is met.
  const Played played = Serve({Offline(0, 100, 1)}, {{"step_budget", "10ns"},
                                                     {"predictor", "fitted"},
                                                     {"fit_steps", "4"},
                                                     {"fallback_tokens", "2"}});
  ASSERT_GT(played.steps.size(), 10u);
  EXPECT_EQ(played.steps[3], "6-8 P0:2");
  EXPECT_EQ(played.steps[4], "8-12 P0:4");
  std::size_t full = 0;
  for (const StepRecord& step : played.records) {
    EXPECT_LE((step.end - step.start).ns(), 10);
    full += step.end - step.start == Duration::Nanos(10);
  }
  EXPECT_GE(full, 6u);
}

TEST(PolicyHygen, RegressionTellsDecodesFromPrompts) {
  // A prompt's token takes 1, a decode 10, a step 2 more.
  LinearFit<3> fit;
  for (int prefill = 0; prefill < 9; ++prefill) {
    for (int decodes = 0; decodes < 4; ++decodes) {
      const double p = prefill, d = decodes;
      fit.Add({1, p, d}, 2 + p + 10 * d);
    }
  }
  EXPECT_NEAR(fit.Predict({1, 100, 20}), 302, 1e-3);
  EXPECT_NEAR(fit.Predict({1, 0, 0}), 2, 1e-3);
}

TEST(PolicyHygen, RegressionOnFeaturesThatAlwaysGoTogetherIsNoNonsense) {
  LinearFit<4> fit;
  for (int i = 1; i < 20; ++i) {
    const double x = i;
    fit.Add({1, x, 3 * x, 0}, 5 + 7 * x);
  }
  EXPECT_NEAR(fit.Predict({1, 30, 90, 0}), 215, 1e-3);
  EXPECT_NEAR(fit.Predict({1, 30, 90, 1000}), 215, 1e-3) << "never seen: counts for nothing";
}

// ---- Parameters ----

TEST(PolicyHygen, OldestPercentGoesWithPrefixOrderOnly) {
  Parameters parameters;
  std::string error;
  const PolicyInfo* const info = FindPolicy("hygen");
  ASSERT_TRUE(
      Parameters::Parse(info->parameters, Settings{{"oldest_percent", "10"}}, &parameters, &error));
  EXPECT_EQ(info->check(parameters),
            "oldest_percent mixes the oldest into offline_order=prefix; fcfs takes nobody else");
}

}  // namespace
}  // namespace schedtwin
