// Replay finds what differs, where it differs, and takes any log without falling over: a policy
// that has changed its mind once, a line that was altered, lost or added, a log cut short. (That it
// finds nothing where nothing differs is property/replay_test.cc.)
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "policies/runtime/journal.h"
#include "sim/replay.h"
#include "sim/simulate.h"
#include "tests/support/mini_batch.h"
#include "tests/support/real_world.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

bool Is(const LogRecord& line, EventCode code) {
  return line.kind == static_cast<std::uint8_t>(LineKind::kEvent) &&
         line.code == static_cast<std::uint8_t>(code);
}
bool Is(const LogRecord& line, DecisionCode code) {
  return line.kind == static_cast<std::uint8_t>(LineKind::kDecision) &&
         line.code == static_cast<std::uint8_t>(code);
}

std::uint64_t CountOf(const std::vector<LogRecord>& log, EventCode code) {
  return static_cast<std::uint64_t>(
      std::count_if(log.begin(), log.end(), [&](const LogRecord& l) { return Is(l, code); }));
}

/// One request after the other, each step in a plan of its own, but for decodes; a timer runs
/// besides. The n-th launch can be told to ask for less.
class OneByOne final : public Policy {
 public:
  explicit OneByOne(std::uint64_t deviate_at = 0) : deviate_at_(deviate_at) {}

  void OnStart(Context& context) override { context.clock().Arm(Time::Nanos(35), 1); }
  void OnArrival(Context& context, RequestId request) override {
    waiting_.push_back(request);
    context.actions().Poke({0});
  }
  void OnTimer(Context& context, std::uint64_t tag) override {
    if (tag < 20) context.clock().Arm(context.now() + Duration::Nanos(35), tag + 1);
  }
  void OnPlanDone(Context&, const PlanDone& done) override {
    if (!done.finished.empty()) waiting_.pop_front();
  }
  void OnSlotFree(Context& context, DeviceId device) override {
    if (waiting_.empty()) return;
    const RequestView view = context.request(waiting_.front());
    const Entry entry = {waiting_.front(), view.next_tokens()};
    context.memory(device).Reserve(entry.request, view.scheduled_tokens() + entry.tokens);
    const std::uint32_t steps = view.phase() == Phase::kDecode ? 3 : 1;
    const bool deviates = ++launches_ == deviate_at_;
    context.actions().Launch({.device = device,
                              .entries = {&entry, 1},
                              .max_steps = steps,
                              .padding_tokens = deviates ? 1u : 0u});
  }

 private:
  std::uint64_t deviate_at_;
  std::uint64_t launches_ = 0;
  std::deque<RequestId> waiting_;
};

const std::vector<RequestSpec> kRequests = {TokenRequest(0, 4, 9), TokenRequest(40, 7, 5),
                                            TokenRequest(40, 3, 1), TokenRequest(700, 6, 4)};

ReplaySetup OneDecoder() {
  ReplaySetup setup;
  setup.device = SmallDecoder();
  setup.world.identify_blocks = true;
  return setup;
}

RealRun Recorded() {
  OneByOne policy;
  const RealRun run = RunForReal(OneDecoder(), /*seed=*/3, &policy, kRequests);
  EXPECT_EQ(run.summary.result, RunResult::kFinished);
  return run;
}

ReplayReport ReplayLines(const RealRun& run, std::vector<LogRecord> lines) {
  OneByOne policy;
  return ReplayOf(run.setup, std::move(lines), &policy, kRequests);
}

TEST(Replay, EveryMeasuredStepLeavesALineAndCountsAsNoEvent) {
  const RealRun run = Recorded();
  EXPECT_EQ(CountOf(run.log, EventCode::kStepTimes), run.summary.steps);
  const auto events = static_cast<std::uint64_t>(
      std::count_if(run.log.begin(), run.log.end(), [](const LogRecord& line) {
        return line.kind == static_cast<std::uint8_t>(LineKind::kEvent);
      }));
  EXPECT_EQ(run.summary.events, events - run.summary.steps - kRequests.size());
}

/// Launches its one request for a window that opens later.
class Later final : public Policy {
 public:
  void OnArrival(Context& context, RequestId request) override {
    const Entry entry = {request, context.request(request).next_tokens()};
    context.memory({0}).Reserve(request, entry.tokens);
    context.actions().Launch({.device = {0}, .entries = {&entry, 1}, .earliest = Time::Nanos(50)});
  }
};

TEST(Replay, AWindowThatOpensLeavesALineAndCountsAsNoEvent) {
  Later policy, again;
  const std::vector<RequestSpec> requests = {TokenRequest(5, 4, 1)};
  const RealRun run = RunForReal(OneDecoder(), 1, &policy, requests);
  ASSERT_EQ(run.summary.result, RunResult::kFinished);
  EXPECT_EQ(CountOf(run.log, EventCode::kPlanOpened), 1u);
  EXPECT_EQ(run.summary.events, 3u);  // arrival, plan done, slot free
  EXPECT_FALSE(ReplayOf(run.setup, run.log, &again, requests).divergence.has_value());
}

TEST(Replay, CountsWhatWasTheSame) {
  const RealRun run = Recorded();
  const ReplayReport report = ReplayLines(run, run.log);
  EXPECT_FALSE(report.divergence.has_value());
  EXPECT_EQ(report.lines, run.log.size());
  std::uint64_t decisions = 0;
  for (const LogRecord& line : run.log) {
    decisions += line.kind == static_cast<std::uint8_t>(LineKind::kDecision) &&
                 !Is(line, DecisionCode::kEntry) && !Is(line, DecisionCode::kPlanBounds);
  }
  EXPECT_EQ(report.decisions, decisions);
}

TEST(Replay, AChangedDecisionIsFoundWhereItIs) {
  const RealRun run = Recorded();
  std::uint64_t launches = 0;
  for (std::uint64_t i = 0; i < run.log.size(); ++i) {
    if (!Is(run.log[i], DecisionCode::kLaunch)) continue;
    OneByOne changed(++launches);
    const ReplayReport report = ReplayOf(run.setup, run.log, &changed, kRequests);
    ASSERT_TRUE(report.divergence.has_value()) << "launch " << launches;
    // The changed plan has bounds, a line which the recorded one has not.
    EXPECT_EQ(report.lines, i);
    EXPECT_TRUE(Is(report.divergence->recorded.at(0), DecisionCode::kLaunch));
    EXPECT_TRUE(Is(report.divergence->replayed.at(0), DecisionCode::kPlanBounds));
    EXPECT_TRUE(Is(report.divergence->replayed.at(1), DecisionCode::kLaunch));
    EXPECT_TRUE(Is(report.divergence->before.back(), DecisionCode::kEntry));
    EXPECT_LE(report.divergence->before.size(), i);
    EXPECT_EQ(report.summary.result, RunResult::kInterrupted);
  }
  EXPECT_GT(launches, 8u);
  OneByOne never(launches + 1);
  EXPECT_FALSE(ReplayOf(run.setup, run.log, &never, kRequests).divergence.has_value());
}

// What was altered is found at its line; but the times of a step and of a lone line are believed,
// and then the digests tell.
TEST(Replay, AnAlteredLineIsFound) {
  const RealRun run = Recorded();
  const auto expect = [&](std::uint64_t i, bool believed, const auto& alter) {
    std::vector<LogRecord> lines = run.log;
    alter(&lines[i]);
    const ReplayReport report = ReplayLines(run, std::move(lines));
    if (!believed || report.divergence.has_value()) {
      ASSERT_TRUE(report.divergence.has_value()) << "line " << i;
      EXPECT_GE(report.lines, believed ? 0 : i);
      EXPECT_LE(report.lines, i + 1);
    } else {
      EXPECT_NE(report.summary.decision_digest, run.summary.decision_digest) << "line " << i;
    }
  };
  for (std::uint64_t i = 0; i < run.log.size(); ++i) {
    const bool step = Is(run.log[i], EventCode::kStepTimes);
    expect(i, false, [](LogRecord* line) { line->kind ^= 0x40; });
    expect(i, false, [](LogRecord* line) { line->code ^= 0x40; });
    expect(i, false, [](LogRecord* line) { line->a ^= 1; });
    expect(i, step, [](LogRecord* line) { line->b ^= 1; });
    expect(i, step, [](LogRecord* line) { line->c ^= 1; });
    expect(i, step, [](LogRecord* line) { line->b ^= std::uint64_t{1} << 63; });
    expect(i, step, [](LogRecord* line) { line->c ^= std::uint64_t{1} << 62; });
    expect(i, true, [](LogRecord* line) { line->time = line->time + Duration::Nanos(1); });
    expect(i, true, [](LogRecord* line) { line->time = line->time - Duration::Nanos(1); });
    expect(i, false, [](LogRecord* line) { line->time = Time::Infinite(); });
    expect(i, false, [](LogRecord* line) { line->time = Time::Nanos(-5); });
    if (HasFailure()) return;
  }
}

TEST(Replay, ALogCutShortIsTold) {
  const RealRun run = Recorded();
  for (std::size_t size = 0; size < run.log.size(); ++size) {
    const ReplayReport report =
        ReplayLines(run, {run.log.begin(), run.log.begin() + static_cast<std::ptrdiff_t>(size)});
    ASSERT_TRUE(report.divergence.has_value()) << size;
    EXPECT_EQ(report.lines, size);
    EXPECT_TRUE(report.divergence->recorded.empty());
    EXPECT_EQ(report.divergence->before.size(), std::min<std::size_t>(size, 8));
  }
}

TEST(Replay, LinesLeftOverAreTold) {
  const RealRun run = Recorded();
  for (const std::int64_t later : {0, 10}) {
    std::vector<LogRecord> lines = run.log;
    lines.push_back(run.log.back());
    lines.back().time = lines.back().time + Duration::Nanos(later);
    const ReplayReport report = ReplayLines(run, lines);
    ASSERT_TRUE(report.divergence.has_value());
    EXPECT_EQ(report.lines, run.log.size());
    EXPECT_EQ(report.divergence->recorded.size(), 1u);
    EXPECT_TRUE(report.divergence->replayed.empty());
  }
}

TEST(Replay, ALostOrDoubledLineIsFound) {
  const RealRun run = Recorded();
  for (std::size_t i = 0; i + 1 < run.log.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    std::vector<LogRecord> lost = run.log, doubled = run.log;
    lost.erase(lost.begin() + at);
    doubled.insert(doubled.begin() + at, run.log[i]);
    const ReplayReport without = ReplayLines(run, lost), with = ReplayLines(run, doubled);
    ASSERT_TRUE(without.divergence.has_value()) << i;
    ASSERT_TRUE(with.divergence.has_value()) << i;
    // An instant without its only line is none: what was due then comes late. A step without its
    // line does not end, which shows when the policy does nothing more.
    const bool only =
        (i == 0 || run.log[i - 1].time < run.log[i].time) && run.log[i].time < run.log[i + 1].time;
    EXPECT_GE(without.lines, i);
    EXPECT_TRUE(without.lines == i || only || Is(run.log[i], EventCode::kStepTimes)) << i;
    EXPECT_EQ(with.lines, i + 1);
  }
}

TEST(Replay, AnotherRequestIsADivergence) {
  const RealRun run = Recorded();
  OneByOne policy;
  std::vector<RequestSpec> requests = kRequests;
  ++requests[1].prompt_tokens;
  const ReplayReport report = ReplayOf(run.setup, run.log, &policy, requests);
  ASSERT_TRUE(report.divergence.has_value());
  EXPECT_TRUE(Is(report.divergence->recorded.at(0), EventCode::kArrival));
  EXPECT_TRUE(Is(report.divergence->replayed.at(0), EventCode::kArrival));
}

TEST(Replay, CanBeInterruptedAndWatched) {
  const RealRun run = Recorded();
  ReplaySetup setup = run.setup;
  std::atomic<bool> stop = true;
  std::atomic<std::uint64_t> seen = 0;
  setup.world.stop = &stop;
  setup.lines_seen = &seen;
  OneByOne policy, again;
  const ReplayReport report = ReplayOf(setup, run.log, &policy, kRequests);
  EXPECT_EQ(report.summary.result, RunResult::kInterrupted);
  EXPECT_FALSE(report.divergence.has_value());
  EXPECT_LT(report.lines, run.log.size());
  stop = false;
  seen = 0;
  EXPECT_FALSE(ReplayOf(setup, run.log, &again, kRequests).divergence.has_value());
  EXPECT_EQ(seen, run.log.size());
}

// ---- World sim ----

TEST(Replay, ASimulatedRunIsComputedAgain) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(20), Duration::Nanos(1));
  const std::vector<RequestSpec> requests(12, TokenRequest(5, 20, 15));
  for (const bool standing : {false, true}) {
    SimSetup sim;
    sim.model = &model;
    sim.device = SmallDecoder();
    sim.device.total_blocks = 40;  // preempts
    MiniBatch policy(standing, 16), again(standing, 16), other(standing, 15);
    RecordingRecorder recorder;
    ListSource source(requests);
    RequestSource* const sources[] = {&source};
    const RunSummary summary =
        Simulate(sim, &policy, sources, &recorder, {.steps = true, .log = true});
    ASSERT_EQ(summary.result, RunResult::kFinished);
    EXPECT_GT(summary.preemptions, 0u);
    EXPECT_EQ(CountOf(recorder.log, EventCode::kStepTimes), 0u);
    ReplaySetup setup;
    setup.device = sim.device;
    setup.model = &model;
    const ReplayReport report = ReplayOf(setup, recorder.log, &again, requests);
    EXPECT_FALSE(report.divergence.has_value()) << report.lines;
    EXPECT_EQ(report.lines, recorder.log.size());
    EXPECT_EQ(report.summary.decision_digest, summary.decision_digest);
    EXPECT_EQ(report.summary.outcome_digest, summary.outcome_digest);
    EXPECT_TRUE(ReplayOf(setup, recorder.log, &other, requests).divergence.has_value());
  }
}

/// Never serves anybody: nothing is planned any more, with requests waiting.
class Idle final : public Policy {};

TEST(Replay, AStalledRunStallsAgain) {
  Idle policy, again;
  const std::vector<RequestSpec> requests = {TokenRequest(5, 4, 2), TokenRequest(90, 4, 2)};
  const RealRun run = RunForReal(OneDecoder(), 1, &policy, requests);
  ASSERT_EQ(run.summary.result, RunResult::kStalled);
  const ReplayReport report = ReplayOf(run.setup, run.log, &again, requests);
  EXPECT_FALSE(report.divergence.has_value());
  EXPECT_EQ(report.summary.result, RunResult::kStalled);
}

}  // namespace
}  // namespace schedtwin
