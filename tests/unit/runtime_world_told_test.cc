// World, arrivals, the oracle, and what a run tells of itself: log, digests, counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "policies/runtime/journal.h"
#include "policies/runtime/length_predictor.h"
#include "policies/runtime/world.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"
#include "tests/support/world_middle.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

// ---- Admission and oracle ----

TEST(WorldArrival, LongerThanTheModelIsRejectedUnseen) {
  TestRun run;
  run.device.max_model_len_tokens = 10;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    EXPECT_EQ(context.request(request).max_new_tokens(), 1u) << "what the model's length leaves";
    LaunchOne(context, {0}, request);
  };
  const RunSummary summary =
      run.Run(&policy, {TokenRequest(0, 10, 1), TokenRequest(5, 9, 7), TokenRequest(6, 4000, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 2u);
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "5 arrival 1", "15 done 0 finish 1", "15 slot 0"));
  EXPECT_EQ(run.recorder.Find(1)->output_tokens, 1u) << "cut short by the model's length";
}

TEST(WorldArrival, LongerThanAllBlocksIsRejectedToo) {
  TestRun run;
  run.device.total_blocks = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 1), TokenRequest(5, 7, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 1u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
}

// As good as endless memory: the product of blocks and their tokens exceeds 32 bits.
TEST(WorldArrival, EndlessMemoryHoldsEveryRequest) {
  TestRun run;
  run.device.total_blocks = (1u << 28) + 1;
  run.device.block_tokens = 16;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4000, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
}

TEST(WorldOracle, TellsTrueLengthsToWhomItIsGranted) {
  struct Truth final : LengthPredictor {
    std::uint32_t Predict(RequestId, std::uint32_t true_tokens) const override {
      return true_tokens;
    }
  };
  const Truth truth;
  for (const bool granted : {false, true}) {
    TestRun run;
    run.options.lengths = granted ? &truth : nullptr;
    ScriptedPolicy policy;
    policy.on_arrival = [&](Context& context, RequestId request) {
      const std::optional<std::uint32_t> length = context.services().OutputLength(request);
      EXPECT_EQ(length.has_value(), granted);
      if (granted) {
        EXPECT_EQ(*length, request.value == 0 ? 17u : 5u);
      }
      EXPECT_FALSE(context.services().OutputLength(kNever).has_value());
      context.actions().Finish(request, EndReason::kRejected);
    };
    std::vector<RequestSpec> requests = {TokenRequest(0, 4, 17), TokenRequest(0, 4, 17)};
    requests[1].max_new_tokens = 5;
    run.Run(&policy, requests);
  }
}

// ---- What a run tells of itself ----

/// Serves two requests; `twist` is one decision more, at 15 ns.
struct Told {
  RunSummary summary;
  RecordingRecorder recorder;
};

Told TellRun(const std::function<void(Context&)>& twist, RecordWants wants = {true, true}) {
  TestRun run;
  run.wants = wants;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(15), 1); };
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    for (const Entry& entry : done.entries) {
      if (context.request(entry.request).state() != RequestState::kEnded) {
        LaunchOne(context, {0}, entry.request);
      }
    }
  };
  policy.on_timer = [&](Context& context, std::uint64_t tag) {
    if (tag == 1) twist(context);
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 3), TokenRequest(3, 4, 3)});
  return {summary, run.recorder};
}

void NoTwist(Context&) {}

TEST(WorldDigest, SameDecisionsSameDigests) {
  const Told first = TellRun(NoTwist), second = TellRun(NoTwist);
  EXPECT_EQ(first.summary.decision_digest, second.summary.decision_digest);
  EXPECT_EQ(first.summary.outcome_digest, second.summary.outcome_digest);
  EXPECT_EQ(first.summary.events, second.summary.events);
}

TEST(WorldDigest, RecordingChangesNothing) {
  const Told full = TellRun(NoTwist), bare = TellRun(NoTwist, {});
  EXPECT_EQ(full.summary.decision_digest, bare.summary.decision_digest);
  EXPECT_EQ(full.summary.outcome_digest, bare.summary.outcome_digest);
  EXPECT_TRUE(bare.recorder.log.empty());
  EXPECT_TRUE(bare.recorder.steps.empty());
  EXPECT_EQ(bare.recorder.requests.size(), 2u);
}

TEST(WorldDigest, OneDecisionMoreIsAnotherDecisionDigest) {
  const std::uint64_t plain = TellRun(NoTwist).summary.decision_digest;
  const std::vector<std::function<void(Context&)>> twists = {
      [](Context& context) { context.clock().Arm(Time::Nanos(16), 5); },
      [](Context& context) { context.clock().Cancel({}); },
      [](Context& context) { context.actions().Poke({7}); },
      [](Context& context) { context.actions().Route(kNever, {0}); },
      [](Context& context) { context.memory({0}).Reserve({0}, 4); },
      [](Context& context) { context.memory({0}).Commit(context.memory({0}).Begin()); },
      [](Context& context) { context.actions().Launch({.device = {0}}); },
  };
  std::vector<std::uint64_t> digests = {plain};
  for (const auto& twist : twists) {
    const Told told = TellRun(twist);
    EXPECT_THAT(digests, testing::Not(testing::Contains(told.summary.decision_digest)));
    digests.push_back(told.summary.decision_digest);
    EXPECT_EQ(told.summary.outcome_digest, TellRun(NoTwist).summary.outcome_digest);
  }
}

TEST(WorldDigest, EveryPartOfAPlanIsPartOfTheDecision) {
  std::vector<std::uint64_t> digests;
  // A refused plan, so that nothing but the decision itself can differ.
  const Plan plans[] = {{.device = {9}},
                        {.device = {8}},
                        {.device = {9}, .standing = true},
                        {.device = {9}, .max_steps = 2},
                        {.device = {9}, .max_steps = (1u << 24) + 1},
                        {.device = {9}, .padding_tokens = 1},
                        {.device = {9}, .earliest = Time::Nanos(1)},
                        {.device = {9}, .latest = Time::Nanos(1)},
                        {.device = {9}, .late_binding = true}};
  for (const Plan& plan : plans) {
    const Told told = TellRun([&](Context& context) { context.actions().Launch(plan); });
    EXPECT_THAT(digests, testing::Not(testing::Contains(told.summary.decision_digest)))
        << "plan " << digests.size();
    digests.push_back(told.summary.decision_digest);
  }
}

TEST(WorldDigest, NotesAreInNoDigest) {
  const Told plain = TellRun(NoTwist);
  const Told noted = TellRun([](Context& context) { context.actions().Note("because"); });
  EXPECT_EQ(noted.summary.decision_digest, plain.summary.decision_digest);
  EXPECT_EQ(noted.summary.outcome_digest, plain.summary.outcome_digest);
  EXPECT_THAT(noted.recorder.notes, ElementsAre("because"));
  EXPECT_EQ(noted.recorder.log.size(), plain.recorder.log.size());
}

TEST(WorldDigest, AnotherOutcomeIsAnotherOutcomeDigest) {
  const Told plain = TellRun(NoTwist);
  const Told preempted =
      TellRun([](Context& context) { context.actions().Preempt({0}, PreemptMode::kRecompute); });
  EXPECT_NE(preempted.summary.outcome_digest, plain.summary.outcome_digest);
}

TEST(WorldLog, LinesAreWhatTheDigestIsMadeOf) {
  const Told told = TellRun([](Context& context) { context.actions().Poke({7}); });
  Journal again;
  std::uint64_t events = 0, refused_pokes = 0;
  for (std::size_t i = 0; i < told.recorder.log.size(); ++i) {
    const LogRecord& line = told.recorder.log[i];
    EXPECT_EQ(line.sequence, i);
    if (line.kind == static_cast<std::uint8_t>(LineKind::kEvent)) {
      events += static_cast<EventCode>(line.code) != EventCode::kFinished;
      again.Event(line.time, static_cast<EventCode>(line.code), line.a, line.b, line.c);
    } else {
      again.Decision(line.time, static_cast<DecisionCode>(line.code), line.a, line.b, line.c);
      refused_pokes += static_cast<DecisionCode>(line.code) == DecisionCode::kPoke && line.c != 0;
    }
  }
  EXPECT_EQ(again.digest(), told.summary.decision_digest);
  EXPECT_EQ(events, told.summary.events);
  EXPECT_EQ(refused_pokes, 1u);
  EXPECT_EQ(told.summary.refusals[static_cast<int>(Refusal::kUnknownDevice)], 1u);
}

TEST(WorldRecord, StepsSayWhatWasRun) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, {0}, request);
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (!context.live({0})) return;
    if (context.request({0}).output_tokens() == 1) {
      const Entry entries[] = {ReservedEntry(context, {0}, {0}), ReservedEntry(context, {0}, {1})};
      context.actions().Launch({.device = {0}, .entries = entries, .padding_tokens = 3});
      return;
    }
    context.actions().Join({0}, {0});
    context.actions().Join({0}, {1});
    context.actions().Launch({.device = {0}, .standing = true, .max_steps = 5});
  };
  run.Run(&policy, {TokenRequest(0, 5, 4), TokenRequest(0, 7, 3)});
  const std::vector<StepRecord>& steps = run.recorder.steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].prefill_tokens, 5u);
  EXPECT_EQ(steps[0].prefill_requests, 1u);
  EXPECT_EQ(steps[0].decode_tokens, 0u);
  EXPECT_EQ(steps[0].free_blocks, 98u);
  EXPECT_EQ(steps[1].prefill_tokens, 7u);
  EXPECT_EQ(steps[1].decode_tokens, 1u);
  EXPECT_EQ(steps[1].decode_context_tokens, 6u) << "five of the prompt and its own";
  EXPECT_EQ(run.fakes[0].steps[1].padding_tokens, 3u);
  EXPECT_EQ(steps[2].decode_tokens, 2u);
  EXPECT_EQ(steps[2].decode_context_tokens, 7u + 8u);
  EXPECT_EQ(steps[3].decode_context_tokens, 8u + 9u);
  EXPECT_EQ(steps[3].step, 1u) << "the second of its plan";
  EXPECT_EQ(steps[3].free_blocks, 100u) << "both have finished";
}

}  // namespace
}  // namespace schedtwin
