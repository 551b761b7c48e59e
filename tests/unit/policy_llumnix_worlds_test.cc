// llumnix's migrations, in the simulator and on the processor: wherever a request has been, it says
// what it says when it runs alone, no token is lost or made twice, and the books agree. On the
// processor each run is replayed from its log, too (two_worlds.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "policies/api/rng.h"
#include "tests/conformance/contract_testing.h"
#include "tests/support/test_run.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Settings;

std::size_t Arrived(const std::vector<OperationRecord>& operations) {
  return static_cast<std::size_t>(
      std::count_if(operations.begin(), operations.end(), [](const OperationRecord& operation) {
        return operation.ok &&
               operation.kind == static_cast<std::uint8_t>(OperationKind::kTransfer);
      }));
}

Settings With(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// ---- What requests say ----

struct Variant {
  const char* name;
  Settings settings;

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

const Variant kVariants[] = {
    {"TwoStages", {}},
    {"MultiStages", {{"stages", "multi"}, {"last_stage_blocks", "2"}}},
    {"ShortestListed", {{"choice", "shortest_running"}, {"standing_set", "false"}}},
    {"LongestByStep", {{"choice", "longest_running"}, {"plan_steps", "1"}}},
};

class PolicyLlumnixWorlds : public testing::TestWithParam<std::tuple<TestWorld, Variant>> {};

TEST_P(PolicyLlumnixWorlds, MovedRequestsSayWhatTheySayAlone) {
  const auto& [world, variant] = GetParam();
  TwoWorlds run;
  run.devices = 3;
  run.device.total_blocks = 24;  // of 16 tokens
  run.layer_pause = Duration::Micros(500);
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < 12; ++i) {
    requests.push_back(TokenRequest(0, 10 + 7 * i, i % 3 == 0 ? 4 : 60 - 2 * i));
  }
  // Whoever has a request gives, whoever is free takes: all that decode travel.
  const Settings settings =
      With({{"migration_interval", "3ms"}, {"migrate_threshold", "4"}, {"watermark_permille", "0"}},
           variant.settings);
  const auto make = [&settings] { return policy_testing::MakePolicy("llumnix", settings); };
  const RunSummary summary = run.Run(world, make, requests);
  ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  EXPECT_GE(Arrived(run.recorder.operations), 3u);
  for (const RequestRecord& record : run.recorder.requests) {
    EXPECT_EQ(record.output_tokens, requests[record.id.value].output_tokens);
  }
  if (world == TestWorld::kCpu) {
    const MadeByRequest alone = MadeUndisturbed(requests);
    for (const auto& [request, made] : run.tokens.made()) {
      EXPECT_EQ(testing::PrintToString(made), testing::PrintToString(alone.at(request)))
          << request << " made " << made.size();
    }
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<TestWorld, Variant>>& info) {
  return testing::PrintToString(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Worlds, PolicyLlumnixWorlds,
                         testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                                          testing::ValuesIn(kVariants)),
                         NameOf);

// ---- Random workloads ----

// Every event of a hardened build checks all books.
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 80;
#else
constexpr std::uint64_t kSeeds = 250;
#endif

std::vector<RequestSpec> Bursts(std::uint64_t seed, bool leave) {
  Rng rng(seed, "llumnix bursts");
  std::vector<RequestSpec> requests;
  std::int64_t at = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    at += rng.Below(3) == 0 ? 0 : rng.Below(160);
    RequestSpec spec = TokenRequest(at, 1 + rng.Below(40), 1 + rng.Below(40));
    spec.priority = rng.Below(10) == 0 ? -1 : 0;
    spec.session = rng.Below(4) == 0 ? 1 + rng.Below(5) : 0;
    if (leave && rng.Below(6) == 0) spec.leaves = Time::Nanos(at + rng.Below(900));
    requests.push_back(spec);
  }
  return requests;
}

Settings RandomSettings(Rng* rng) {
  Settings settings = {{"migration_interval", std::to_string(5 + rng->Below(30)) + "ns"},
                       {"migrate_threshold", std::to_string(rng->Below(12)) + ".5"},
                       {"watermark_permille", std::to_string(rng->Below(3) * 20)},
                       {"priority_target_tokens", std::to_string(rng->Below(80))},
                       {"max_num_seqs", std::to_string(2 + rng->Below(8))},
                       {"max_num_batched_tokens", std::to_string(8 + rng->Below(40))}};
  if (rng->Below(3) == 0) settings.push_back({"defragmentation", "false"});
  if (rng->Below(2) == 0) {
    settings.push_back({"stages", "multi"});
    settings.push_back({"last_stage_blocks", std::to_string(1 + rng->Below(4))});
  }
  const char* const choices[] = {"last_running", "shortest_running", "longest_running"};
  settings.push_back({"choice", choices[rng->Below(3)]});
  if (rng->Below(4) == 0) settings.push_back({"state", "reported"});
  if (rng->Below(4) == 0) {
    settings.push_back({"scaling_interval", "70ns"});
    settings.push_back({"scale_down_threshold", "8"});
  }
  return settings;
}

void SetUpAtRandom(Rng* rng, DeviceInfo* device) {
  device->total_blocks = 22 + rng->Below(20);
  device->block_tokens = 4;
  device->peer_link = {Duration::Nanos(rng->Below(20)), 1'000'000'000};
  device->block_bytes = rng->Below(8);
  device->max_model_len_tokens = 80;
  device->max_step_tokens = rng->Below(3) == 0 ? 10 : 0;
  device->queue_depth = 1 + rng->Below(2);
}

/// When a request was worked on, and how much.
struct Work {
  Time end;
  std::uint32_t decodes = 0;
  std::uint32_t prompt_tokens = 0;
};

/// Adds up what the devices were asked for, and holds each request to one step at a time.
std::map<std::uint32_t, Work> WorkOf(const std::vector<std::string>& steps) {
  std::map<std::uint32_t, Work> work;
  for (const std::string& step : steps) {  // "d1 3-9 D0 D2 P3:4"
    std::istringstream words(step);
    std::string device, word;
    std::int64_t start = 0, end = 0;
    char dash = 0;
    words >> device >> start >> dash >> end;
    while (words >> word) {
      Work& of = work[static_cast<std::uint32_t>(std::stoul(word.substr(1)))];
      EXPECT_LE(of.end.ns(), start) << step << ": it was still at work elsewhere";
      of.end = Time::Nanos(end);
      if (word[0] == 'D') {
        ++of.decodes;
      } else {
        of.prompt_tokens += static_cast<std::uint32_t>(std::stoul(word.substr(word.find(':') + 1)));
      }
    }
  }
  return work;
}

TEST(PolicyLlumnixTokens, AreAllMadeInOrderAndOnceInRandomWorkloads) {
  std::uint64_t moved = 0, kept = 0, preempted = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "llumnix tokens");
    policy_testing::Script script;
    script.policy = "llumnix";
    script.settings = With(RandomSettings(&rng), policy_testing::kForms[rng.Below(4)].settings());
    script.requests = Bursts(seed, /*leave=*/false);
    script.devices = 2 + rng.Below(3);
    SetUpAtRandom(&rng, &script.device);
    script.model = StepTimeModel::Linear(Duration::Nanos(5), Duration::Nanos(1));
    script.options.report_interval = Duration::Nanos(7);
    script.options.report_delay = Duration::Nanos(rng.Below(10));
    const policy_testing::Played played = policy_testing::Play(script);
    ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
    const auto work = WorkOf(played.steps);
    for (const RequestRecord& record : played.requests) {
      const RequestSpec& spec = script.requests[record.id.value];
      const Work& of = work.at(record.id.value);
      ASSERT_EQ(record.reason, EndReason::kCompleted);
      ASSERT_EQ(record.output_tokens, spec.output_tokens);
      ASSERT_EQ(of.end, record.last_token);
      // Who is computed again makes tokens in prompt steps, too.
      preempted += record.preemptions > 0;
      if (record.preemptions > 0) continue;
      ASSERT_EQ(of.decodes, spec.output_tokens - 1) << record.id.value;
      ASSERT_EQ(of.prompt_tokens, spec.prompt_tokens) << record.id.value;
      ++kept;
    }
    moved += Arrived(played.operations);
  }
  RecordProperty("moved", std::to_string(moved));
  EXPECT_GT(moved, 5 * kSeeds);
  EXPECT_GT(kept, 30 * kSeeds);
  EXPECT_GT(preempted, kSeeds);
}

/// The same in every form of the plan, wherever a copy ends in a step.
TEST(PolicyLlumnixForms, HaveOneOutcomeWhileRequestsMove) {
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    std::vector<std::uint64_t> outcomes;
    for (const policy_testing::Form& form : policy_testing::kForms) {
      Rng rng(seed, "llumnix forms");
      policy_testing::Script script;
      script.policy = "llumnix";
      script.settings = With(RandomSettings(&rng), form.settings());
      script.requests = Bursts(seed, /*leave=*/false);
      script.devices = 2 + rng.Below(3);
      SetUpAtRandom(&rng, &script.device);
      script.device.queue_depth = 1;
      script.model = StepTimeModel::Linear(Duration::Nanos(5), Duration::Nanos(1));
      script.options.report_interval = Duration::Nanos(7);
      const policy_testing::Played played = policy_testing::Play(script);
      ASSERT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
      outcomes.push_back(played.summary.outcome_digest);
      moved += Arrived(played.operations);
    }
    ASSERT_THAT(outcomes, testing::Each(outcomes[0])) << "seed " << seed;
  }
  EXPECT_GT(moved, 20 * kSeeds / 2);
}

/// Devices that fail and clients that leave in the middle of it. Fake devices complain of every
/// block that is read and was not written.
TEST(PolicyLlumnixBooks, AgreeAndNobodyIsLeftWhateverHappens) {
  std::uint64_t moved = 0, given_up = 0, faults = 0, left = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "llumnix setup");
    TestRun run;
    SetUpAtRandom(&rng, &run.device);
    run.devices = 2 + rng.Below(3);
    run.options.tie_seed = rng.Below(2) * seed;
    run.options.identify_blocks = rng.Below(2) == 0;
    run.options.report_interval = Duration::Nanos(7);
    std::vector<Fault> failures;
    const bool loses = rng.Below(2) == 0;
    for (std::uint32_t device = 0; device < rng.Below(3); ++device) {
      const Time from = Time::Nanos(200 + rng.Below(800));
      failures.push_back({{device}, from, from + Duration::Nanos(1 + rng.Below(300)), loses});
    }
    run.options.faults = failures;
    const auto policy = policy_testing::MakePolicy(
        "llumnix", With(RandomSettings(&rng), policy_testing::kForms[rng.Below(4)].settings()));
    const std::vector<RequestSpec> requests = Bursts(seed, /*leave=*/true);
    const RunSummary summary = run.Run(policy.get(), requests);
    ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    ASSERT_EQ(run.recorder.requests.size(), requests.size());
    for (const RequestRecord& record : run.recorder.requests) {
      const bool lost = record.reason == EndReason::kFailed && loses && !failures.empty();
      left += record.reason == EndReason::kCancelled;
      EXPECT_TRUE(record.reason == EndReason::kCompleted || lost ||
                  record.reason == EndReason::kCancelled)
          << record.id.value;
    }
    moved += Arrived(run.recorder.operations);
    for (const OperationRecord& operation : run.recorder.operations) given_up += !operation.ok;
    faults += failures.size();
  }
  RecordProperty("moved", std::to_string(moved));
  RecordProperty("given_up", std::to_string(given_up));
  EXPECT_GT(moved, 5 * kSeeds);
  EXPECT_GT(given_up, kSeeds);
  EXPECT_GT(faults, kSeeds / 2);
  EXPECT_GT(left, kSeeds);
}

}  // namespace
}  // namespace schedtwin
