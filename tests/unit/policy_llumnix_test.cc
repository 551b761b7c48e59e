// llumnix step by step: where arrivals go, and every way that a migration goes or ends, the same in
// every form of the plan. A step takes 1 ns for each token, a copy 1 ns for each block; blocks hold
// 4 tokens, and instances are paired every 20 ns unless told otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::Form;
using policy_testing::FormName;
using policy_testing::In;
using policy_testing::kForms;
using policy_testing::Play;
using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;
using policy_testing::Tokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Who has a request is below it, whoever has none above.
const Settings kGiveToTheEmpty = {{"migrate_threshold", "1000"}};

class PolicyLlumnix : public testing::TestWithParam<Form> {
 protected:
  /// Two devices of 16 blocks.
  Script Instances(std::vector<RequestSpec> requests, const Settings& more) const {
    Script script{.policy = "llumnix",
                  .settings = In(GetParam(), {{"watermark_permille", "0"}}),
                  .requests = std::move(requests)};
    bool paced = false;
    for (const auto& setting : more) paced = paced || setting.first == "migration_interval";
    if (!paced) script.settings.push_back({"migration_interval", "20ns"});
    script.settings.insert(script.settings.end(), more.begin(), more.end());
    script.devices = 2;
    script.device.total_blocks = 16;
    script.device.block_tokens = 4;
    script.device.block_bytes = 1;
    script.device.peer_link = {Duration::Nanos(0), 1'000'000'000};
    return script;
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, PolicyLlumnix, testing::ValuesIn(kForms), FormName);

/// A prompt step and decode steps of one request alone, as "d0 0-8 P0:8 then to 25", short for
/// seventeen lines: runs of decode steps of 1 ns on one device are one line "d0 8-25 D0".
std::vector<std::string> Runs(const std::vector<std::string>& steps) {
  std::vector<std::string> runs;
  std::string device, start, end, rest;
  const auto flush = [&] {
    if (!device.empty()) runs.push_back(device + " " + start + "-" + end + rest);
  };
  for (const std::string& step : steps) {
    const std::size_t space = step.find(' '), dash = step.find('-'), after = step.find(' ', dash);
    const std::string its_device = step.substr(0, space);
    const std::string its_start = step.substr(space + 1, dash - space - 1);
    const std::string its_rest = step.substr(after);
    const bool decodes = its_rest.find('P') == std::string::npos;
    if (decodes && its_device == device && its_start == end && its_rest == rest) {
      end = step.substr(dash + 1, after - dash - 1);
      continue;
    }
    flush();
    device = its_device;
    start = its_start;
    end = step.substr(dash + 1, after - dash - 1);
    rest = its_rest;
  }
  flush();
  return runs;
}

/// Of one device.
std::vector<std::string> RunsOf(const Played& played, const std::string& device) {
  std::vector<std::string> its;
  for (const std::string& step : played.steps) {
    if (step.starts_with(device + " ")) its.push_back(step);
  }
  return Runs(its);
}

/// "live 0 to 1 20-25 5" for each copy: request, target, from when to when, blocks; "not done".
std::vector<std::string> Copies(const Played& played) {
  std::vector<std::string> texts;
  for (const OperationRecord& copy : played.operations) {
    if (!copy.request.valid()) continue;  // weights
    const bool live = copy.kind == static_cast<std::uint8_t>(OperationKind::kStage);
    texts.push_back((live ? "live " : "last ") + std::to_string(copy.request.value) + " to " +
                    std::to_string(copy.to.value) + " " + std::to_string(copy.start.ns()) + "-" +
                    std::to_string(copy.end.ns()) + " " + std::to_string(copy.bytes) +
                    (copy.ok ? "" : " not done"));
  }
  return texts;
}

std::vector<std::string> DevicesOf(const Played& played) {
  std::vector<std::string> devices;
  for (const RequestRecord& record : played.requests) {
    devices.push_back(std::to_string(record.device.value));
  }
  return devices;
}

// ---- Dispatch ----

TEST_P(PolicyLlumnix, DispatchGoesToTheFreest) {
  // Request 0 will take ten blocks, 1 two and 2 three: 6, then 14, then 11/2 to spare for each.
  const Played played =
      Play(Instances({Tokens(0, 40, 1), Tokens(0, 8, 1), Tokens(0, 12, 1), Tokens(0, 4, 1)},
                     {{"migration", "false"}}));
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "1", "1", "0"));
}

TEST_P(PolicyLlumnix, DispatchOfEqualsGoesToTheLowest) {
  const Played played =
      Play(Instances({Tokens(0, 8, 1), Tokens(0, 8, 1), Tokens(0, 8, 1), Tokens(0, 8, 1)},
                     {{"migration", "false"}}));
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "1", "0", "1"));
}

TEST_P(PolicyLlumnix, DispatchKeepsASessionWhereItIs) {
  std::vector<RequestSpec> requests = {Tokens(0, 8, 1), Tokens(0, 8, 1), Tokens(0, 8, 1),
                                       Tokens(0, 8, 1)};
  for (const std::size_t i : {0u, 1u, 2u}) requests[i].session = 7;
  const Played played = Play(Instances(requests, {{"migration", "false"}}));
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "0", "0", "1"));
}

TEST_P(PolicyLlumnix, DispatchPacksHighPriorityTogether) {
  // Ten blocks of sixteen are kept clear beside a request of the other kind.
  std::vector<RequestSpec> requests = {Tokens(0, 8, 1), Tokens(0, 8, 1), Tokens(0, 8, 1),
                                       Tokens(0, 8, 1)};
  requests[0].priority = requests[2].priority = -1;
  const Played played =
      Play(Instances(requests, {{"migration", "false"}, {"priority_target_tokens", "24"}}));
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "1", "0", "1"));
}

TEST_P(PolicyLlumnix, HighPriorityIsAdmittedFirst) {
  std::vector<RequestSpec> requests = {Tokens(0, 8, 1), Tokens(1, 8, 1), Tokens(2, 8, 1),
                                       Tokens(3, 8, 1)};
  requests[2].priority = requests[3].priority = -1;
  Script script = Instances(requests, {{"max_num_seqs", "1"}, {"migration", "false"}});
  script.devices = 1;
  EXPECT_THAT(Play(script).steps, ElementsAre("0-8 P0:8", "8-16 P2:8", "16-24 P3:8", "24-32 P1:8"));
}

TEST_P(PolicyLlumnix, DispatchByReportsIsInTurnUntilAllHaveReportedAndThenHerds) {
  // Reports of 10 tell of request 0 with seven blocks on device 0, and of request 1 with one on
  // device 1. They stand until 20: all of 12 to 18 go where there was most to spare.
  std::vector<RequestSpec> requests = {Tokens(0, 25, 9), Tokens(1, 3, 19), Tokens(12, 40, 1),
                                       Tokens(14, 4, 1), Tokens(16, 4, 1)};
  Script script = Instances(requests, {{"migration", "false"}, {"state", "reported"}});
  script.options.report_interval = Duration::Nanos(10);
  EXPECT_THAT(DevicesOf(Play(script)), ElementsAre("0", "1", "1", "1", "1"));
  script.options.report_delay = Duration::Nanos(9);  // they come at 19
  EXPECT_THAT(DevicesOf(Play(script)), ElementsAre("0", "1", "0", "1", "0"));
}

// ---- Stages ----

TEST_P(PolicyLlumnix, TwoStagesCopyWhatIsFullAndThenTheRest) {
  // At 20, 20 tokens are computed: five full blocks. At 25, 25: two more blocks, in which the
  // request is in neither batch.
  const Played played = Play(Instances({Tokens(0, 8, 23)}, kGiveToTheEmpty));
  EXPECT_THAT(Copies(played), ElementsAre("live 0 to 1 20-25 5", "last 0 to 1 25-27 2"));
  EXPECT_THAT(Runs(played.steps), ElementsAre("d0 0-8 P0:8", "d0 8-25 D0", "d1 27-32 D0"));
  EXPECT_EQ(played.requests[0].preemptions, 0u);
  EXPECT_EQ(played.requests[0].recomputed_tokens, 0u);
}

TEST_P(PolicyLlumnix, WithoutAFullBlockThereIsTheLastStageOnly) {
  const Played played = Play(
      Instances({Tokens(0, 2, 5)}, {{"migrate_threshold", "1000"}, {"migration_interval", "3ns"}}));
  // Back again at 6, with five tokens by then: a live stage, and it ends at the boundary.
  EXPECT_THAT(Copies(played)[0], "last 0 to 1 3-4 1");
  EXPECT_THAT(Runs(played.steps)[2], "d1 4-7 D0");
}

TEST_P(PolicyLlumnix, MultiStagesGoOnUntilLittleIsLeft) {
  // 50 tokens at 50: 13 blocks, 12 of them full. At 62, 62: four more, three of them full. At 65
  // two are left, 17 in all.
  const Settings settings = {{"migrate_threshold", "1000"},
                             {"migration_interval", "50ns"},
                             {"stages", "multi"},
                             {"last_stage_blocks", "2"}};
  Script script = Instances({Tokens(0, 40, 30)}, settings);
  script.device.total_blocks = 32;
  const Played played = Play(script);
  EXPECT_THAT(Copies(played),
              ElementsAre("live 0 to 1 50-62 12", "live 0 to 1 62-65 3", "last 0 to 1 65-67 2"));
  EXPECT_THAT(Runs(played.steps), ElementsAre("d0 0-40 P0:40", "d0 40-65 D0", "d1 67-71 D0"));
}

TEST_P(PolicyLlumnix, MultiStagesAreGivenUpAfterTheLast) {
  // As above, but two blocks are one too many. The third live copy is the last.
  const Settings settings = {{"migrate_threshold", "1000"},
                             {"migration_interval", "50ns"},
                             {"stages", "multi"},
                             {"last_stage_blocks", "1"}};
  Script script = Instances({Tokens(0, 40, 30)}, settings);
  script.device.total_blocks = 32;
  const Played played = Play(script);
  EXPECT_THAT(Copies(played),
              ElementsAre("live 0 to 1 50-62 12", "live 0 to 1 62-65 3", "live 0 to 1 65-66 1"));
  EXPECT_THAT(Runs(played.steps), ElementsAre("d0 0-40 P0:40", "d0 40-69 D0"));
}

TEST_P(PolicyLlumnix, AShortRequestIsMovedInOneStageOfMulti) {
  const Played played =
      Play(Instances({Tokens(0, 8, 18)}, {{"migrate_threshold", "1000"}, {"stages", "multi"}}));
  EXPECT_THAT(Copies(played), ElementsAre("last 0 to 1 20-25 5"));
  EXPECT_THAT(Runs(played.steps), ElementsAre("d0 0-8 P0:8", "d0 8-20 D0", "d1 25-30 D0"));
}

TEST_P(PolicyLlumnix, ARequestIsMovedAgain) {
  // 38 tokens at 40: nine full blocks of ten. At 49, 47: twelve in all.
  const Played played = Play(Instances({Tokens(0, 8, 43)}, kGiveToTheEmpty));
  EXPECT_THAT(Copies(played), ElementsAre("live 0 to 1 20-25 5", "last 0 to 1 25-27 2",
                                          "live 0 to 0 40-49 9", "last 0 to 0 49-52 3"));
  EXPECT_THAT(Runs(played.steps),
              ElementsAre("d0 0-8 P0:8", "d0 8-25 D0", "d1 27-49 D0", "d0 52-55 D0"));
}

TEST_P(PolicyLlumnix, ItJoinsTheBatchOfTheTarget) {
  // At 24 device 0 has 16 - 6 = 10 to spare, device 1 16 - 3 = 13.
  const Settings settings = {{"migrate_threshold", "11"}, {"migration_interval", "24ns"}};
  const Played played = Play(Instances({Tokens(0, 22, 13), Tokens(12, 10, 20)}, settings));
  EXPECT_THAT(Copies(played), ElementsAre("live 0 to 1 24-30 6", "last 0 to 1 30-32 2"));
  EXPECT_THAT(RunsOf(played, "d0"), ElementsAre("d0 0-22 P0:22", "d0 22-30 D0"));
  // Both decode in 2 ns, four times.
  EXPECT_THAT(RunsOf(played, "d1"),
              ElementsAre("d1 12-22 P1:10", "d1 22-32 D1", "d1 32-40 D0 D1", "d1 40-45 D1"));
}

// ---- Who is moved ----

/// Three decode on device 0 from 24 on: 0 (of 12 tokens), 1 (4) and 2 (8).
std::vector<RequestSpec> Three() {
  std::vector<RequestSpec> requests = {Tokens(0, 12, 30), Tokens(0, 4, 30), Tokens(0, 8, 30)};
  for (RequestSpec& request : requests) request.session = 7;
  return requests;
}

std::uint32_t FirstMoved(const Played& played) { return played.operations.at(0).request.value; }

TEST_P(PolicyLlumnix, ChoosesTheLastAdmittedTheShortestOrTheLongest) {
  for (const auto& [choice, moved] :
       {std::pair{"last_running", 2u}, {"shortest_running", 1u}, {"longest_running", 0u}}) {
    const Played played = Play(Instances(
        Three(),
        {{"migrate_threshold", "1000"}, {"migration_interval", "30ns"}, {"choice", choice}}));
    EXPECT_EQ(FirstMoved(played), moved) << choice;
  }
}

TEST_P(PolicyLlumnix, NeverMovesHighPriority) {
  std::vector<RequestSpec> requests = Three();
  requests[2].priority = -1;
  const Settings settings = {{"migrate_threshold", "1000"}, {"migration_interval", "30ns"}};
  // It is admitted first, so that 1 is last; then let it be the only one.
  EXPECT_EQ(FirstMoved(Play(Instances(requests, settings))), 1u);
  requests = {requests[2]};
  EXPECT_THAT(Copies(Play(Instances(requests, settings))), IsEmpty());
}

TEST_P(PolicyLlumnix, NeverMovesAPromptThatIsNotDone) {
  const Played played = Play(Instances({Tokens(0, 30, 1)}, {{"migrate_threshold", "1000"},
                                                            {"max_num_batched_tokens", "8"},
                                                            {"migration_interval", "9ns"}}));
  EXPECT_THAT(Copies(played), IsEmpty());
}

TEST_P(PolicyLlumnix, WithoutMigrationNobodyIsMoved) {
  EXPECT_THAT(Copies(Play(Instances({Tokens(0, 8, 23)},
                                    {{"migrate_threshold", "1000"}, {"migration", "false"}}))),
              IsEmpty());
}

TEST_P(PolicyLlumnix, AFullBatchTakesNobody) {
  const Settings settings = {
      {"migrate_threshold", "11"}, {"migration_interval", "24ns"}, {"max_num_seqs", "1"}};
  EXPECT_THAT(Copies(Play(Instances({Tokens(0, 22, 13), Tokens(12, 10, 20)}, settings))),
              IsEmpty());
}

TEST_P(PolicyLlumnix, PairsByReportsAfterSoManyOfThem) {
  // Four of each device, at 10, 20, 30 and 40.
  Script script =
      Instances({Tokens(0, 8, 50)}, {{"migrate_threshold", "1000"}, {"state", "reported"}});
  script.options.report_interval = Duration::Nanos(10);
  const Played played = Play(script);
  EXPECT_THAT(Copies(played), ElementsAre("live 0 to 1 40-50 10", "last 0 to 1 50-53 3"));
}

// ---- Scaling ----

/// Two devices, of which one is there at the start; decisions every 30 ns.
Script Scaling(Script script, const char* up, const char* down) {
  script.settings.insert(script.settings.end(), {{"scaling_interval", "30ns"},
                                                 {"scale_up_threshold", up},
                                                 {"scale_down_threshold", down},
                                                 {"migration_interval", "40ns"}});
  return script;
}

TEST_P(PolicyLlumnix, AddsADeviceWhileTheMeanIsBelow) {
  // At 30 request 0 has 30 tokens in eight blocks, and eight are free.
  const std::vector<RequestSpec> requests = {Tokens(0, 8, 60), Tokens(31, 8, 2)};
  Script script = Scaling(Instances(requests, {{"migration", "false"}}), "9", "100");
  script.options.devices_at_start = 1;
  EXPECT_THAT(DevicesOf(Play(script)), ElementsAre("0", "1"));
  script = Scaling(Instances(requests, {{"migration", "false"}}), "8", "100");
  script.options.devices_at_start = 1;
  EXPECT_THAT(DevicesOf(Play(script)), ElementsAre("0", "0")) << "below, not at it";
}

TEST_P(PolicyLlumnix, DrainsTheLastWhileAllAreAboveAndMovesItsRequestsAway) {
  // At 30 each has 30 tokens, and 24 blocks free. Device 1 is drained, and at 40 it gives request
  // 1, which holds 40 tokens by then, in ten full blocks. Then device 0 has all.
  const std::vector<RequestSpec> requests = {Tokens(0, 8, 40), Tokens(0, 8, 60), Tokens(70, 8, 2)};
  Script script = Scaling(Instances(requests, {{"migrate_threshold", "0.5"}}), "1", "5");
  script.device.total_blocks = 32;
  const Played played = Play(script);
  EXPECT_THAT(Copies(played), ElementsAre("live 1 to 0 40-50 10", "last 1 to 0 50-53 3"));
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "0", "0"));
}

TEST_P(PolicyLlumnix, WhoWaitsForADrainedDeviceIsDispatchedAgain) {
  // One runs and one waits for each; device 1 is drained at 30, and finishes what runs.
  const std::vector<RequestSpec> requests = {Tokens(0, 8, 40), Tokens(0, 8, 60), Tokens(1, 8, 2),
                                             Tokens(1, 8, 2)};
  Script script =
      Scaling(Instances(requests, {{"migration", "false"}, {"max_num_seqs", "1"}}), "1", "5");
  script.device.total_blocks = 32;
  const Played played = Play(script);
  EXPECT_THAT(DevicesOf(played), ElementsAre("0", "1", "0", "0"));
  EXPECT_THAT(RunsOf(played, "d0"), ElementsAre("d0 0-8 P0:8", "d0 8-47 D0", "d0 47-55 P2:8",
                                                "d0 55-56 D2", "d0 56-64 P3:8", "d0 64-65 D3"));
}

// ---- Ways to end ----

TEST_P(PolicyLlumnix, GivenUpWhenTheTargetLacksMemory) {
  // Six blocks are to be copied, and five of eight are free.
  const Settings settings = {{"migrate_threshold", "3"}, {"migration_interval", "24ns"}};
  Script script = Instances({Tokens(0, 22, 5), Tokens(12, 10, 5)}, settings);
  script.device.total_blocks = 8;
  const Played played = Play(script);
  EXPECT_THAT(Copies(played), IsEmpty());
  EXPECT_THAT(RunsOf(played, "d0"), ElementsAre("d0 0-22 P0:22", "d0 22-26 D0"));
}

TEST_P(PolicyLlumnix, GivenUpWhenTheRequestFinishesInAStage) {
  const Played played = Play(Instances({Tokens(0, 8, 15), Tokens(30, 8, 2)}, kGiveToTheEmpty));
  EXPECT_THAT(Copies(played), ElementsAre("live 0 to 1 20-25 5 not done"));
  EXPECT_THAT(Runs(played.steps),
              ElementsAre("d0 0-8 P0:8", "d0 8-22 D0", "d0 30-38 P1:8", "d0 38-39 D1"));
}

TEST_P(PolicyLlumnix, GivenUpWhenTheClientLeavesInAStage) {
  for (const std::int64_t at : {22, 26}) {  // in the live one, in the last
    std::vector<RequestSpec> requests = {Tokens(0, 8, 50), Tokens(30, 60, 2)};
    requests[0].leaves = Time::Nanos(at);
    const Played played = Play(Instances(requests, kGiveToTheEmpty));
    EXPECT_EQ(played.requests[0].reason, EndReason::kCancelled);
    EXPECT_EQ(Copies(played).back(),
              at == 22 ? "live 0 to 1 20-25 5 not done" : "last 0 to 1 25-27 2 not done");
    EXPECT_EQ(played.steps.back(), "d0 90-91 D1") << "which needs nearly all blocks";
  }
}

TEST_P(PolicyLlumnix, GivenUpWhenTheRequestHasToGiveUpItsMemory) {
  // At 22, 13 and 9 tokens are computed, in seven blocks of eight, and request 1, the last
  // admitted, begins to move, slowly. At 28 they are 16 and 12, and the next ones need nine: the
  // copy is cancelled at once, and 1 is computed again.
  std::vector<RequestSpec> requests = {Tokens(0, 12, 20), Tokens(0, 8, 20)};
  for (RequestSpec& request : requests) request.session = 7;
  Script script =
      Instances(requests, {{"migrate_threshold", "1000"}, {"migration_interval", "22ns"}});
  script.device.total_blocks = 8;
  script.device.peer_link.latency = Duration::Nanos(60);
  const Played played = Play(script);
  EXPECT_EQ(played.requests[0].preemptions, 0u);
  EXPECT_EQ(played.requests[1].preemptions, 1u);
  EXPECT_EQ(Copies(played).front(), "live 1 to 1 22-28 2 not done");
}

/// A device fails from `at` on for 10 ns.
std::vector<Fault> Fails(std::uint32_t device, std::int64_t at) {
  return {{{device}, Time::Nanos(at), Time::Nanos(at + 10), /*loses_requests=*/false}};
}

Played PlayWith(Script script, const std::vector<Fault>& faults) {
  script.options.faults = faults;
  return Play(script);
}

TEST_P(PolicyLlumnix, GivenUpWhenTheTargetFails) {
  const Script script = Instances({Tokens(0, 8, 23)}, kGiveToTheEmpty);
  const Played live = PlayWith(script, Fails(1, 22));
  EXPECT_THAT(Copies(live), ElementsAre("live 0 to 1 20-22 5 not done"));
  EXPECT_THAT(Runs(live.steps), ElementsAre("d0 0-8 P0:8", "d0 8-30 D0")) << "undisturbed";
  const Played last = PlayWith(script, Fails(1, 26));
  EXPECT_THAT(Copies(last), ElementsAre("live 0 to 1 20-25 5", "last 0 to 1 25-26 2 not done"));
  EXPECT_THAT(Runs(last.steps), ElementsAre("d0 0-8 P0:8", "d0 8-25 D0", "d0 26-31 D0"));
  EXPECT_EQ(last.requests[0].recomputed_tokens, 0u);
}

TEST_P(PolicyLlumnix, ComputedAgainWhenTheSourceFails) {
  const Script script = Instances({Tokens(0, 8, 23)}, kGiveToTheEmpty);
  const Played live = PlayWith(script, Fails(0, 22));
  EXPECT_THAT(Copies(live).front(), "live 0 to 1 20-22 5 not done");
  // 8 + 15 tokens are known by 22: all of them in one prompt, and the next with it.
  EXPECT_THAT(RunsOf(live, "d0").at(2), "d0 32-55 P0:23");
  const Played last = PlayWith(script, Fails(0, 26));
  EXPECT_THAT(Copies(last).at(1), "last 0 to 1 25-26 2 not done");
  EXPECT_THAT(RunsOf(last, "d0").at(2), "d0 36-62 P0:26");
  EXPECT_THAT(RunsOf(last, "d1"), IsEmpty());
  for (const Played* played : {&live, &last}) EXPECT_EQ(played->requests[0].output_tokens, 23u);
}

TEST_P(PolicyLlumnix, ComputedAgainWhenBothFail) {
  const Script script = Instances({Tokens(0, 8, 23)}, kGiveToTheEmpty);
  for (const std::int64_t at : {22, 26}) {
    std::vector<Fault> both = Fails(0, at);
    both.push_back(Fails(1, at)[0]);
    const Played played = PlayWith(script, both);
    ASSERT_EQ(played.summary.result, RunResult::kFinished);
    EXPECT_EQ(played.requests[0].reason, EndReason::kCompleted);
    EXPECT_EQ(played.requests[0].output_tokens, 23u);
    EXPECT_GT(played.requests[0].recomputed_tokens, 0u);
  }
}

TEST_P(PolicyLlumnix, ArrivalsWaitForADeviceToComeBackWhereNoneIsUp) {
  std::vector<Fault> both = Fails(0, 10);
  both.push_back(Fails(1, 10)[0]);
  std::vector<RequestSpec> requests = {Tokens(11, 8, 2), Tokens(12, 8, 2)};
  requests[1].leaves = Time::Nanos(15);
  const Played played = PlayWith(Instances(requests, {}), both);
  EXPECT_THAT(played.steps, ElementsAre("d0 20-28 P0:8", "d0 28-29 D0"));
  EXPECT_EQ(played.requests[1].reason, EndReason::kCancelled);
}

TEST_P(PolicyLlumnix, LostWithTheSourceWhereFaultsLoseRequests) {
  std::vector<Fault> faults = Fails(0, 26);
  faults[0].loses_requests = true;
  const Played played =
      PlayWith(Instances({Tokens(0, 8, 23), Tokens(40, 8, 2)}, kGiveToTheEmpty), faults);
  EXPECT_EQ(played.requests[0].reason, EndReason::kFailed);
  EXPECT_EQ(played.requests[1].reason, EndReason::kCompleted);
}

}  // namespace
}  // namespace schedtwin
