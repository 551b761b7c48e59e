// A policy that does anything: legal, illegal and senseless actions at random, on random traffic,
// devices and queues. Whatever it does, the runtime keeps its books, asks of a device only what a
// device can do, ends every request at most once, ends the run with a result, and does the same
// again for the same seed, or from the log of what happened to it.
//
// SCHEDTWIN_RANDOM_POLICY_SEED=N runs one seed alone, SCHEDTWIN_RANDOM_POLICY_SEEDS=N runs the
// first N.
#include "tests/support/random_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/journal.h"
#include "policies/runtime/world.h"
#include "tests/support/real_world.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 2'000;  // every event of them is followed by the sweep
#else
constexpr std::uint64_t kSeeds = 10'000;
#endif

struct Ran {
  RunSummary summary;
  std::uint64_t steps = 0;
  std::uint64_t aborted = 0;
  std::uint64_t operations = 0;
  std::uint64_t changes = 0;
  std::uint64_t callbacks = 0;
  std::uint64_t adopted = 0;
};

/// Each request ends at most once; when the run has finished, exactly once and as it should.
void CheckEnds(const RunSummary& summary, const RecordingRecorder& recorder,
               const std::vector<RequestSpec>& requests) {
  std::set<std::uint32_t> ended;
  for (const RequestRecord& record : recorder.requests) {
    EXPECT_TRUE(ended.insert(record.id.value).second) << record.id.value << " ended twice";
    EXPECT_GE(record.end, record.arrival);
    const RequestSpec& spec = requests.at(record.id.value);
    const std::uint32_t limit = spec.max_new_tokens == 0
                                    ? spec.output_tokens
                                    : std::min(spec.output_tokens, spec.max_new_tokens);
    EXPECT_LE(record.output_tokens, limit);
    if (record.reason == EndReason::kCompleted && spec.prompt_tokens > 0) {
      EXPECT_GT(record.output_tokens, 0u);
      EXPECT_LE(record.last_token, record.end) << "later only where the response was held";
      EXPECT_LE(record.first_token, record.last_token);
      EXPECT_LT(record.first_start, record.first_token);
    }
  }
  if (summary.result != RunResult::kFinished) return;
  EXPECT_EQ(ended.size(), requests.size());
  EXPECT_EQ(summary.requests, requests.size());
}

Ran RunSeed(std::uint64_t seed, bool record) {
  const RandomShape shape = RandomShape::Of(seed);
  const std::vector<RequestSpec> requests = shape.Requests(seed);
  TestRun run;
  run.device = shape.Device();
  run.devices = shape.devices;
  run.options = shape.Options(seed);
  run.wants = {.steps = record, .log = record};
  run.step_time = [](const FakeStep& step) {
    return Duration::Nanos(10 * (1 + static_cast<std::int64_t>(step.tokens() / 8)));
  };
  RandomPolicy policy(shape, seed, &run);
  ManualTimeSource clock;
  Rng wakes(seed, "wakes");
  Time now;
  clock.advance = [&](Time next) {
    const bool early = next - now > Duration::Nanos(1) && wakes.Below(4) == 0;
    now = early ? now + (next - now) / 2 : next + Duration::Nanos(wakes.Below(2) * wakes.Below(20));
    return now;
  };
  if (shape.real_clock) run.time = &clock;
  run.options.stop = &policy.stop;
  Ran ran;
  ran.summary = run.Run(&policy, requests);
  CheckEnds(ran.summary, run.recorder, requests);
  for (const FakeDevice& fake : run.fakes) {
    ran.steps += fake.steps.size();
    for (const FakeStep& step : fake.steps) ran.aborted += step.aborted;
  }
  ran.operations = policy.operations;
  ran.changes = policy.changes;
  ran.callbacks = policy.callbacks();
  ran.adopted = policy.adopted();
  if (shape.max_step_tokens > 0) {
    for (const FakeDevice& fake : run.fakes) {
      for (const FakeStep& step : fake.steps) {
        EXPECT_LE(step.tokens() + step.padding_tokens, shape.max_step_tokens);
      }
    }
  }
  return ran;
}

TEST(RandomPolicy, KeepsTheBooksAndEndsWithAResult) {
  std::uint64_t first = 1, last = kSeeds;
  if (const char* count = std::getenv("SCHEDTWIN_RANDOM_POLICY_SEEDS")) {
    last = std::strtoull(count, nullptr, 10);
  }
  if (const char* only = std::getenv("SCHEDTWIN_RANDOM_POLICY_SEED")) {
    first = last = std::strtoull(only, nullptr, 10);
  }
  std::map<RunResult, std::uint64_t> results;
  std::map<std::size_t, std::uint64_t> refusals;
  std::uint64_t steps = 0, completed = 0, preemptions = 0, adopted = 0;
  std::uint64_t aborted = 0, operations = 0, changes = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("SCHEDTWIN_RANDOM_POLICY_SEED=" + std::to_string(seed));
    const Ran ran = RunSeed(seed, /*record=*/true);
    const Ran again = RunSeed(seed, /*record=*/false);
    EXPECT_EQ(again.summary.decision_digest, ran.summary.decision_digest);
    EXPECT_EQ(again.summary.outcome_digest, ran.summary.outcome_digest);
    EXPECT_EQ(again.callbacks, ran.callbacks);
    if (HasFailure()) {
      ADD_FAILURE() << "the first seed that fails; run it alone as above";
      return;
    }
    ++results[ran.summary.result];
    steps += ran.steps;
    aborted += ran.aborted;
    operations += ran.operations;
    changes += ran.changes;
    completed += ran.summary.ended[static_cast<int>(EndReason::kCompleted)];
    preemptions += ran.summary.preemptions;
    adopted += ran.adopted;
    for (std::size_t i = 0; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
      refusals[i] += ran.summary.refusals[i];
    }
  }
  if (first == last) return;
  // The runs reach what they are there for.
  EXPECT_GT(results[RunResult::kFinished], kSeeds / 2);
  EXPECT_GT(results[RunResult::kStalled] + results[RunResult::kInterrupted], kSeeds / 50);
  EXPECT_GT(steps, 15 * kSeeds);
  EXPECT_GT(completed, kSeeds);
  EXPECT_GT(preemptions, kSeeds / 2);
  EXPECT_GT(aborted, kSeeds / 20);
  EXPECT_GT(operations, kSeeds / 4);
  EXPECT_GT(changes, kSeeds / 4);
  EXPECT_GT(adopted, kSeeds / 2);
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    EXPECT_GT(refusals[i], 0u) << "reason " << i;
  }
}

// Nothing that a policy can do acts without a line in the log: of the real clock's disorder, the
// log tells enough.
TEST(RandomPolicy, IsReplayedFromTheLogOfARealRun) {
  constexpr std::uint64_t kReplayed = kSeeds;
  std::map<RunResult, std::uint64_t> results;
  std::uint64_t opened = 0;
  for (std::uint64_t seed = 1; seed <= kReplayed; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomShape shape = RandomShape::Of(seed);
    shape.tie_seed = 0;
    const std::vector<RequestSpec> requests = shape.Requests(seed);
    RandomPolicy policy(shape, seed, nullptr), again(shape, seed, nullptr);
    ReplaySetup setup;
    setup.device = shape.Device();
    setup.devices = shape.devices;
    setup.world = shape.Options(seed);
    setup.world.stop = &policy.stop;
    const RealRun run = RunForReal(setup, seed, &policy, requests);
    setup = run.setup;
    setup.world.stop = &again.stop;
    const ReplayReport report = ReplayOf(setup, run.log, &again, requests);
    EXPECT_FALSE(report.divergence.has_value()) << "after line " << report.lines;
    EXPECT_EQ(report.lines, run.log.size());
    EXPECT_EQ(report.summary.result, run.summary.result);
    EXPECT_EQ(report.summary.decision_digest, run.summary.decision_digest);
    EXPECT_EQ(report.summary.outcome_digest, run.summary.outcome_digest);
    if (HasFailure()) return;
    ++results[run.summary.result];
    for (const LogRecord& line : run.log) {
      opened += line.kind == static_cast<std::uint8_t>(LineKind::kEvent) &&
                line.code == static_cast<std::uint8_t>(EventCode::kPlanOpened);
    }
  }
  EXPECT_GT(results[RunResult::kFinished], kReplayed / 2);
  EXPECT_GT(results[RunResult::kStalled] + results[RunResult::kInterrupted], kReplayed / 50);
  EXPECT_GT(opened, kReplayed / 10);
}

}  // namespace
}  // namespace schedtwin
