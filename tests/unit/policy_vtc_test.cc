// vtc, rule by rule: whose turn it is, what counters are lifted to, what is charged when. A step
// takes 1 ns for each token. Source: Sheng et al., OSDI'24, Algorithms 1 and 2; the released code,
// VTC-artifact 192c2e20, slora/server/router/vtc_req_queue.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "policies/vtc/counters.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;
using ::testing::Lt;

constexpr std::uint64_t kOne = vtc::Counters::kOne;

RequestSpec Of(std::uint32_t tenant, std::int64_t at, std::uint32_t prompt, std::uint32_t output) {
  RequestSpec request = Tokens(at, prompt, output);
  request.tenant = tenant;
  request.max_new_tokens = output;
  return request;
}

// ---- Counters ----

TEST(VtcCounters, NewcomerIsLiftedToTheLeastOfThoseWhoWait) {
  vtc::Counters counters({}, /*lift_to_last=*/true);
  const std::size_t a = counters.ClientOf(7), b = counters.ClientOf(3), c = counters.ClientOf(5);
  counters.OnArrival(a);
  counters.ChargeInput(a, 100);
  counters.OnArrival(b);
  EXPECT_EQ(counters.served(b), 100 * kOne) << "a waits";
  counters.ChargeInput(b, 50);
  counters.OnArrival(c);
  EXPECT_EQ(counters.served(c), 100 * kOne) << "the least of 100 and 150";
}

TEST(VtcCounters, IsLiftedOnlyWhenItHasNobodyWaiting) {
  vtc::Counters counters({}, true);
  const std::size_t a = counters.ClientOf(0), b = counters.ClientOf(1);
  counters.OnArrival(a);
  counters.OnArrival(b);
  counters.ChargeInput(a, 100);
  counters.OnArrival(b);
  EXPECT_EQ(counters.served(b), 0u);
}

TEST(VtcCounters, IsNeverLowered) {
  vtc::Counters counters({}, true);
  const std::size_t a = counters.ClientOf(0), b = counters.ClientOf(1);
  counters.OnArrival(a);
  counters.OnArrival(b);
  counters.ChargeInput(b, 40);
  counters.OnLeft(b);
  counters.OnArrival(b);
  EXPECT_EQ(counters.served(b), 40 * kOne);
}

TEST(VtcCounters, WhereNobodyWaitsThePaperLiftsToTheLastThatLeft) {
  for (const bool paper : {true, false}) {
    vtc::Counters counters({}, paper);
    const std::size_t a = counters.ClientOf(0), b = counters.ClientOf(1), c = counters.ClientOf(2);
    counters.OnArrival(a);
    counters.OnArrival(b);
    counters.ChargeInput(a, 30);
    counters.OnLeft(a);
    counters.ChargeInput(b, 80);
    counters.OnLeft(b);
    counters.OnArrival(c);
    EXPECT_EQ(counters.served(c), paper ? 80 * kOne : 0u);
  }
}

TEST(VtcCounters, ChargesByPriceAndShare) {
  vtc::Counters counters({.input = 3, .output = 5, .weights = {1, 2}}, true);
  const std::size_t a = counters.ClientOf(0), b = counters.ClientOf(1), c = counters.ClientOf(9);
  for (const std::size_t client : {a, b, c}) {
    counters.ChargeInput(client, 10);
    counters.ChargeOutput(client, 4);
  }
  EXPECT_EQ(counters.served(a), 50 * kOne);
  EXPECT_EQ(counters.served(b), 25 * kOne);
  EXPECT_EQ(counters.served(c), 50 * kOne) << "a share of 1 where none is given";
}

// ---- Schedules ----

class PolicyVtc : public testing::TestWithParam<Form> {
 protected:
  Script Engine(Settings settings, std::vector<RequestSpec> requests, std::uint32_t blocks = 64) {
    settings.insert(settings.begin(), {"max_num_seqs", "1"});
    Script script{.policy = "vtc",
                  .settings = policy_testing::In(GetParam(), settings),
                  .requests = std::move(requests)};
    script.device.total_blocks = blocks;
    script.device.block_tokens = 4;
    script.device.max_model_len_tokens = 64;
    return script;
  }
  /// The numbers of the requests, in order of their first steps.
  static std::vector<std::uint32_t> Order(const Played& played) {
    std::vector<std::pair<Time, std::uint32_t>> starts;
    for (const RequestRecord& request : played.requests) {
      starts.emplace_back(request.first_start, request.id.value);
    }
    std::stable_sort(starts.begin(), starts.end());
    std::vector<std::uint32_t> order;
    for (const auto& [start, id] : starts) order.push_back(id);
    return order;
  }
};

TEST_P(PolicyVtc, TakesTurnsByServiceAndServesAClientInOrder) {
  // Client 0 floods; client 1 has two small ones. One at a time, 8 + 2 * 2 = 12 for each of client
  // 0, 4 + 2 * 1 = 6 for each of client 1.
  const Played played = Play(
      Engine({}, {Of(0, 0, 8, 2), Of(0, 0, 8, 2), Of(0, 0, 8, 2), Of(1, 0, 4, 1), Of(1, 0, 4, 1)}));
  // 0: served 12 and 0; both of client 1: 12 and 12; client 0 was known first.
  EXPECT_THAT(Order(played), ElementsAre(0, 3, 4, 1, 2));
}

TEST_P(PolicyVtc, EqualCountersGoToTheClientKnownFirst) {
  const Played played = Play(Engine({}, {Of(5, 0, 4, 1), Of(2, 0, 4, 1), Of(5, 0, 4, 1)}));
  EXPECT_THAT(Order(played), ElementsAre(0, 1, 2));
}

TEST_P(PolicyVtc, OutputIsChargedAsItIsMade) {
  // Request 0 of client 0 runs from 0 to 4 + 11 = 15 ns. At 6 ns client 1 comes, and nobody waits:
  // lifted to client 0, that left last, at 4 + 2 * 3 = 10. It is served 4 + 2 = 6 more; client 0
  // has 4 + 2 * 12 = 28 by then, and goes last.
  const Played played = Play(Engine(
      {}, {Of(0, 0, 4, 12), Of(1, 6, 4, 1), Of(0, 7, 4, 1), Of(1, 7, 4, 1), Of(1, 7, 4, 1)}));
  EXPECT_THAT(Order(played), ElementsAre(0, 1, 3, 4, 2));
}

TEST_P(PolicyVtc, IdleClientHasNoCreditInThePaper) {
  // Client 0 is served alone until 40 ns; then both ask for as much. In the paper client 1 starts
  // level and they take turns; in the released code it starts at 0 and has all its turns first.
  std::vector<RequestSpec> requests = {Of(0, 0, 20, 11)};           // to 30 ns: 42
  for (int i = 0; i < 3; ++i) requests.push_back(Of(1, 40, 4, 3));  // 10 each
  for (int i = 0; i < 3; ++i) requests.push_back(Of(0, 40, 4, 3));
  EXPECT_THAT(Order(Play(Engine({}, requests))), ElementsAre(0, 4, 1, 5, 2, 6, 3));
  EXPECT_THAT(Order(Play(Engine({{"form", "released"}}, requests))),
              ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST_P(PolicyVtc, SharesAreByWeight) {
  // Twice the share: two turns for one.
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(Of(i % 2, 0, 4, 1));
  for (int i = 0; i < 2; ++i) requests.push_back(Of(1, 0, 4, 1));
  EXPECT_THAT(Order(Play(Engine({{"weights", "1:2"}}, requests))),
              ElementsAre(0, 1, 3, 2, 5, 6, 4, 7));
}

TEST_P(PolicyVtc, WhoDoesNotFitIsNotPassedOver) {
  // 4 blocks. Request 0 holds 3 of them until 12 ns. Client 1 is due with a prompt of 3 blocks, and
  // waits; client 0's small one would fit, and waits behind it.
  const Played played =
      Play(Engine({{"max_num_seqs", "8"}}, {Of(0, 0, 9, 4), Of(1, 1, 12, 1), Of(0, 1, 4, 1)}, 4));
  EXPECT_THAT(played.steps,
              ElementsAre("0-9 P0:9", "9-10 D0", "10-11 D0", "11-12 D0", "12-28 P1:12 P2:4"));
}

TEST_P(PolicyVtc, PromptsAreComputedWholeAsManyAsTheBudgetHolds) {
  const Played played =
      Play(Engine({{"max_num_seqs", "8"}, {"max_num_batched_tokens", "10"}},
                  {Of(0, 0, 6, 1), Of(1, 0, 4, 1), Of(2, 0, 5, 1), Of(0, 0, 12, 1)}));
  EXPECT_THAT(played.steps, ElementsAre("0-10 P0:6 P1:4", "10-15 P2:5", "15-27 P3:12"));
}

TEST_P(PolicyVtc, PreemptedPromptIsPaidForOnce) {
  // 5 blocks: at 16 ns the next tokens need two more and one is free, so request 1 is preempted. At
  // 18 ns request 0 is over, client 0 at 8 + 2 * 3 = 14, client 1 at 8 + 2 = 10: request 1 comes
  // back, and client 1 is due again. Were its prompt charged again, client 0 would be.
  const Played played =
      Play(Engine({{"max_num_seqs", "2"}},
                  {Of(0, 0, 8, 3), Of(1, 0, 8, 8), Of(0, 1, 4, 1), Of(1, 1, 4, 1)}, 5));
  EXPECT_EQ(played.summary.preemptions, 1u);
  EXPECT_EQ(played.summary.ended[0], 4u);
  EXPECT_THAT(Order(played), ElementsAre(0, 1, 3, 2));
}

// ---- The released code ----

TEST_P(PolicyVtc, ReleasedAdmitsBelowThePeakOnly) {
  // Two requests that both make 6: at once 5 * 2 + 10 = 20 tokens, a token later 4 * 2 + 10 = 18,
  // and then 3 * 2 + 11 = 17.
  const auto steps = [&](const char* limit) {
    return Play(Engine({{"max_num_seqs", "8"}, {"form", "released"}, {"max_total_tokens", limit}},
                       {Of(0, 0, 4, 6), Of(1, 0, 4, 6)}))
        .steps;
  };
  EXPECT_EQ(steps("21")[0], "0-8 P0:4 P1:4");
  EXPECT_EQ(steps("20")[1], "4-9 D0 P1:4");
  EXPECT_EQ(steps("18")[1], "4-5 D0");
  EXPECT_EQ(steps("18")[2], "5-10 D0 P1:4");
}

TEST_P(PolicyVtc, ReleasedRejectsWhatCouldNeverRun) {
  const Played played = Play(
      Engine({{"form", "released"}, {"max_total_tokens", "10"}}, {Of(0, 0, 4, 6), Of(0, 0, 4, 5)}));
  EXPECT_EQ(played.summary.result, RunResult::kFinished);
  EXPECT_EQ(played.requests[0].reason, EndReason::kRejected) << "4 + 6 is not below 10";
  EXPECT_EQ(played.requests[1].reason, EndReason::kCompleted);
}

TEST_P(PolicyVtc, ReleasedNeverPreemptsWhereThePaperDoes) {
  const std::vector<RequestSpec> requests = {Of(0, 0, 8, 8), Of(1, 0, 8, 8), Of(0, 1, 8, 8)};
  const auto preemptions = [&](const char* form) {
    return Play(Engine({{"max_num_seqs", "8"}, {"form", form}}, requests, 6)).summary.preemptions;
  };
  EXPECT_GT(preemptions("paper"), 0u);
  EXPECT_EQ(preemptions("released"), 0u);
}

TEST_P(PolicyVtc, ReleasedTakesNothingForTheFirstToken) {
  // One client has had 4 and one token, the other 5: 6 against 0 in the paper when request 1 is
  // due, then 6 against 5 + 2 = 7. Released: 4 against 0, then 4 against 5, then 8 against 5.
  const std::vector<RequestSpec> requests = {Of(0, 0, 4, 1), Of(1, 0, 5, 1), Of(0, 0, 4, 1),
                                             Of(1, 0, 1, 1), Of(0, 0, 1, 1), Of(1, 0, 1, 1)};
  EXPECT_THAT(Order(Play(Engine({}, requests))), ElementsAre(0, 1, 2, 3, 5, 4));
  EXPECT_THAT(Order(Play(Engine({{"form", "released"}}, requests))), ElementsAre(0, 1, 2, 3, 5, 4));
  // With dear tokens the paper charges the short one as much as the long one.
  const std::vector<RequestSpec> many = {Of(0, 0, 1, 1), Of(1, 0, 9, 1), Of(0, 0, 1, 1),
                                         Of(0, 0, 1, 1), Of(1, 0, 9, 1)};
  EXPECT_THAT(Order(Play(Engine({{"output_weight", "100"}}, many))), ElementsAre(0, 1, 2, 4, 3));
  EXPECT_THAT(Order(Play(Engine({{"output_weight", "100"}, {"form", "released"}}, many))),
              ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(PolicyVtc, CountersAreOfAllDevicesTogether) {
  // Client 0's first is served on device 0; on device 1 client 1 is therefore due before client 0.
  Script script = Engine({}, {Of(0, 0, 8, 8), Of(2, 0, 8, 4), Of(3, 0, 1, 1), Of(0, 1, 4, 1),
                              Of(3, 1, 1, 1), Of(1, 2, 4, 1)});
  script.devices = 2;
  const Played played = Play(script);
  EXPECT_EQ(played.requests[3].device.value, 1u);
  EXPECT_EQ(played.requests[5].device.value, 1u);
  EXPECT_LT(played.requests[5].first_start, played.requests[3].first_start);
}

TEST_P(PolicyVtc, CancelledInTheQueueCostsNothing) {
  std::vector<RequestSpec> requests = {Of(0, 0, 20, 1), Of(1, 1, 30, 1), Of(1, 1, 4, 1),
                                       Of(0, 1, 4, 1)};
  requests[1].leaves = Time::Nanos(5);
  const Played played = Play(Engine({}, requests));
  EXPECT_EQ(played.requests[1].reason, EndReason::kCancelled);
  EXPECT_LT(played.requests[2].first_start, played.requests[3].first_start);
}

INSTANTIATE_TEST_SUITE_P(Forms, PolicyVtc, testing::ValuesIn(policy_testing::kForms),
                         policy_testing::FormName);

// An aggressive client, and one that asks for little: what the second waits, beside first come
// first served. Prints the table of the README.
TEST(VtcAgainstFcfs, KeepsAFloodFromThoseWhoAskForLittle) {
  std::vector<RequestSpec> requests;
  for (std::int64_t i = 0; i < 400; ++i) {
    requests.push_back(Of(0, i * 10, 20, 20));
    if (i % 4 == 0) requests.push_back(Of(1, i * 10, 20, 20));
  }
  const auto mean_wait_ns = [&](const char* policy, std::uint32_t tenant) {
    Script script{.policy = policy, .settings = {{"max_num_seqs", "4"}}, .requests = requests};
    script.device.total_blocks = 64;
    script.device.block_tokens = 4;
    script.device.max_model_len_tokens = 64;
    std::int64_t sum = 0, count = 0;
    for (const RequestRecord& request : Play(script).requests) {
      if (request.tenant != tenant) continue;
      sum += (request.first_token - request.arrival).ns();
      ++count;
    }
    return sum / count;
  };
  for (const char* policy : {"composed", "vtc"}) {
    std::cout << "| `" << policy << "` | " << mean_wait_ns(policy, 0) << " | "
              << mean_wait_ns(policy, 1) << " |\n";
  }
  EXPECT_THAT(mean_wait_ns("vtc", 1) * 3, Lt(mean_wait_ns("composed", 1)));
}

}  // namespace
}  // namespace schedtwin
