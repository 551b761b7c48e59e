// The contract, in each world: what befalls requests, and what is not about any one plan: arrivals,
// cancels, timers, reports; finish, route, hold and release, poke, note.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/conformance/contract_testing.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

class ContractRequests : public testing::TestWithParam<TestWorld> {};

TEST_P(ContractRequests, FinishEndsARequestForAnyReasonButCompletion) {
  static constexpr EndReason kReasons[] = {EndReason::kRejected, EndReason::kTimedOut,
                                           EndReason::kCancelled, EndReason::kFailed,
                                           EndReason::kCached};
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      Actions& actions = context.actions();
      EXPECT_EQ(actions.Finish(request, EndReason::kCompleted), Refusal::kBadArgument);
      EXPECT_EQ(actions.Finish(kNoRequest, EndReason::kRejected), Refusal::kUnknownRequest);
      EXPECT_EQ(actions.Finish(request, kReasons[request.value]), Refusal::kNone);
      EXPECT_EQ(actions.Finish(request, EndReason::kRejected), Refusal::kEnded);
    }
  };
  TwoWorlds run;
  Play<Scenario>(run, GetParam(), std::vector<RequestSpec>(5, TokenRequest(0, 8, 4)));
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_NE(run.recorder.Find(i), nullptr);
    EXPECT_EQ(run.recorder.Find(i)->reason, kReasons[i]);
    EXPECT_EQ(run.recorder.Find(i)->output_tokens, 0u);
  }
}

TEST_P(ContractRequests, RouteBindsToADeviceAPairAndAVariant) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      Actions& actions = context.actions();
      EXPECT_EQ(actions.Route(request, kNoDevice), Refusal::kUnknownDevice);
      EXPECT_EQ(actions.Route(request, kFirst, kNoDevice), Refusal::kUnknownDevice);
      EXPECT_EQ(actions.Route(request, kFirst, {}, {7}), Refusal::kBadArgument);
      EXPECT_EQ(actions.Route(kNoRequest, kFirst), Refusal::kUnknownRequest);
      EXPECT_EQ(actions.Route(request, kSecond, kFirst, {1}), Refusal::kNone);
      const RequestView view = context.request(request);
      EXPECT_EQ(view.device(), kSecond);
      EXPECT_EQ(view.decode_device(), kFirst);
      EXPECT_EQ(view.model(), ModelId{1});
      Accept(context, request);
    }
  };
  const ModelInfo models[] = {{"large", 10}, {"small", 5}};
  TwoWorlds run;
  run.devices = 2;
  run.options.models = models;
  Play<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_EQ(run.recorder.Find(0)->device, kSecond);
  EXPECT_EQ(run.recorder.Find(0)->model, ModelId{1}) << "degraded";
  EXPECT_EQ(run.recorder.Find(0)->output_tokens, 4u);
}

// A conversation: each turn is sent when the one before has been answered.
class Conversation final : public RequestSource {
 public:
  Pull Next(RequestSpec* out) override {
    if (turns_ == 3) return Pull::kDry;
    if (waiting_) return Pull::kLater;
    waiting_ = true;
    *out = TokenRequest(at_.ns(), 8, 2);
    out->session = 7;
    if (turns_ > 0) out->parent = turns_ - 1;
    ++turns_;
    return Pull::kRequest;
  }
  void OnRequestEnd(std::uint64_t index, EndReason reason, Time now) override {
    EXPECT_EQ(index + 1, turns_);
    EXPECT_EQ(reason, EndReason::kCompleted);
    waiting_ = false;
    at_ = now + Duration::Millis(1);
  }

 private:
  std::uint64_t turns_ = 0;
  bool waiting_ = false;
  Time at_;
};

TEST_P(ContractRequests, AnArrivalMayContinueAConversation) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      const RequestView view = context.request(request);
      EXPECT_EQ(view.session(), 7u);
      EXPECT_LE(view.arrival(), context.now());
      parents.push_back(view.parent());
      Server::OnArrival(context, request);
    }
    std::vector<RequestId> parents;
  };
  TwoWorlds run;
  const auto conversation = [] {
    Sources sources;
    sources.push_back(std::make_unique<Conversation>());
    return sources;
  };
  const RunSummary summary = run.Run(
      GetParam(), [] { return std::make_unique<Scenario>(); }, conversation);
  EXPECT_EQ(summary.ended[0], 3u);
  EXPECT_THAT(static_cast<const Scenario&>(*run.policy).parents,
              ElementsAre(RequestId{}, RequestId{0}, RequestId{1}));
}

TEST_P(ContractRequests, CancelComesFromTheClientTheDeadlineOrAFault) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      HoldBack(request);
      Server::OnArrival(context, request);
      EXPECT_TRUE(context.memory(kFirst).Reserve(request, 16));  // what the fault takes
    }
    void OnCancel(Context& context, RequestId request, CancelBy by) override {
      EXPECT_TRUE(context.live(request));
      cancelled[request.value] = {by, context.now()};
    }
    std::map<std::uint32_t, std::pair<CancelBy, Time>> cancelled;
  };
  std::vector<RequestSpec> requests(3, TokenRequest(0, 8, 4));
  requests[0].leaves = Time() + Duration::Millis(2);
  requests[1].deadline = Time() + Duration::Millis(1);
  const Fault faults[] = {{kFirst, Time() + Duration::Millis(50), Time() + Duration::Millis(51),
                           /*loses_requests=*/true}};
  TwoWorlds run;
  run.options.deadlines_cancel = true;
  run.options.faults = faults;
  const auto played = Play<Scenario>(run, GetParam(), requests);
  const auto& cancelled = played.policy->cancelled;
  ASSERT_EQ(cancelled.size(), 3u);
  EXPECT_EQ(cancelled.at(0).first, CancelBy::kClient);
  EXPECT_EQ(cancelled.at(1).first, CancelBy::kDeadline);
  EXPECT_EQ(cancelled.at(2).first, CancelBy::kFault);
  EXPECT_GE(cancelled.at(0).second, requests[0].leaves);
  EXPECT_GE(cancelled.at(1).second, requests[1].deadline);
  EXPECT_EQ(run.recorder.Find(0)->reason, EndReason::kCancelled);
  EXPECT_EQ(run.recorder.Find(1)->reason, EndReason::kTimedOut);
  EXPECT_EQ(run.recorder.Find(2)->reason, EndReason::kFailed);
}

TEST_P(ContractRequests, AHeldResponseEndsWhenItIsReleased) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      Actions& actions = context.actions();
      EXPECT_EQ(actions.HoldResponse(kNoRequest), Refusal::kUnknownRequest);
      EXPECT_EQ(actions.ReleaseResponse(request), Refusal::kBadArgument) << "it is not held";
      EXPECT_EQ(actions.HoldResponse(request), Refusal::kNone);
      Server::OnArrival(context, request);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      if (done.finished.empty()) return;
      EXPECT_EQ(context.request(done.finished[0]).state(), RequestState::kHeld);
      finished = context.now();
      context.clock().Arm(finished + Duration::Millis(2), done.finished[0].value);
    }
    void OnTimer(Context& context, std::uint64_t tag) override {
      EXPECT_EQ(context.actions().ReleaseResponse({static_cast<std::uint32_t>(tag)}),
                Refusal::kNone);
    }
    Time finished;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  const RequestRecord& record = *run.recorder.Find(0);
  EXPECT_LE(record.last_token, played.policy->finished);
  EXPECT_GE(record.end, played.policy->finished + Duration::Millis(2));
}

TEST_P(ContractRequests, TimersFireInOrderAndNeverEarlyUnlessMovedOrCancelled) {
  struct Scenario final : Server {
    // Far apart: what is due in one wake counts as simultaneous.
    static Time Due(std::uint64_t tag) {
      return Time() + Duration::Millis(20 * static_cast<std::int64_t>(tag));
    }
    void OnStart(Context& context) override {
      Clock& clock = context.clock();
      clock.Arm(Due(3), 3);
      clock.Arm(Due(1), 1);
      moved = clock.Arm(Due(1), 4);
      cancelled = clock.Arm(Due(4), 9);
      EXPECT_TRUE(clock.Rearm(moved, Due(4)));
    }
    void OnTimer(Context& context, std::uint64_t tag) override {
      fired.push_back(tag);
      EXPECT_GE(context.now(), Due(tag));
      Clock& clock = context.clock();
      if (tag == 3) {
        EXPECT_TRUE(clock.Cancel(cancelled));
        EXPECT_FALSE(clock.Cancel(cancelled));
      }
      if (tag == 4) {
        EXPECT_FALSE(clock.Rearm(moved, Due(5))) << "it has fired";
      }
    }
    TimerId moved, cancelled;
    std::vector<std::uint64_t> fired;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(100'000'000, 8, 2)});
  EXPECT_THAT(played.policy->fired, ElementsAre(1, 3, 4));
}

TEST_P(ContractRequests, AReportTellsOfThePast) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      HoldBack(request);
      Server::OnArrival(context, request);
      arrived.push_back(context.now());
    }
    void OnReport(Context& context, const DeviceReport& report) override {
      EXPECT_EQ(report.id, kFirst);
      EXPECT_GE(report.taken, Time() + Duration::Millis(2));
      EXPECT_LE(report.taken + Duration::Millis(3), context.now());
      EXPECT_EQ(report.total_blocks, context.device(kFirst).total_blocks);
      const auto by_then = static_cast<std::uint32_t>(std::count_if(
          arrived.begin(), arrived.end(), [&](Time time) { return time < report.taken; }));
      EXPECT_EQ(report.waiting, by_then);
      EXPECT_EQ(report.waiting_tokens, by_then * 8);
      stale += by_then < arrived.size();
      if (stale == 0 || arrived.size() < 2) return;
      for (std::uint32_t id = 0; id < arrived.size(); ++id) {
        context.actions().Finish({id}, EndReason::kRejected);
      }
    }
    std::vector<Time> arrived;
    int stale = 0;
  };
  TwoWorlds run;
  run.options.report_interval = Duration::Millis(2);
  run.options.report_delay = Duration::Millis(3);
  // The second comes when the first report has been taken, and is not heard of until much later.
  const auto played =
      Play<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4), TokenRequest(3'000'000, 8, 4)});
  EXPECT_GT(played.policy->stale, 0);
}

TEST_P(ContractRequests, APokeGivesOneSlotAfterAllElse) {
  struct Scenario final : Server {
    void OnStart(Context& context) override {
      EXPECT_EQ(context.actions().Poke(kNoDevice), Refusal::kUnknownDevice);
    }
    void OnArrival(Context& context, RequestId request) override {
      EXPECT_EQ(context.actions().Route(request, kFirst), Refusal::kNone);
      Accept(context, request);
      EXPECT_EQ(context.actions().Poke(kFirst), Refusal::kNone);
      At(context, 1);
      context.actions().Note("poked twice");
      happened.push_back("arrival");
    }
    void OnTimer(Context&, std::uint64_t) override { happened.push_back("timer"); }
    void OnSlotFree(Context& context, DeviceId device) override {
      EXPECT_EQ(context.device(device).depth_left(), 1u);
      happened.push_back("slot");
      Serve(context, device);
    }
    void OnPlanDone(Context&, const PlanDone&) override { happened.push_back("done"); }
    std::vector<std::string> happened;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 1)});
  EXPECT_THAT(played.policy->happened, ElementsAre("arrival", "timer", "slot", "done", "slot"));
  EXPECT_THAT(run.recorder.notes, ElementsAre("poked twice"));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContractRequests,
                         testing::Values(TestWorld::kSim, TestWorld::kCpu), WorldName);

}  // namespace
}  // namespace schedtwin
