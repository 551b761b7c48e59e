// `schedtwin replay` of the real program: every policy, and all that can be wrong with a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/store/sqlite.h"
#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// Runs `sim --record full` with these arguments too.
void Record(const Program& program, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"sim", "--record", "full", "--json"};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome outcome = program.Run(args);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
}

/// Changes the results file behind the program's back.
void Alter(const Program& program, const std::string& sql) {
  auto database = Database::Open(program.Path("schedtwin.db"), OpenMode::kWrite);
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status status = database->Execute(sql.c_str());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_GT(database->changes(), 0) << sql;
}

class CliReplayPolicy : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(CliReplayPolicy, ARecordedRunDivergesNowhere) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, GetParam());
  const Outcome outcome = program.Run({"replay", "latest", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const json replay = outcome.json();
  EXPECT_EQ(replay["run_id"], 1);
  EXPECT_GT(replay["lines"], 400);
  EXPECT_GT(replay["decisions"], 100);
  EXPECT_EQ(replay["diverging"], 0);
  EXPECT_TRUE(replay["first_divergence"].is_null());
  EXPECT_EQ(replay["digests_equal"], true);
}

std::string PolicyOf(const testing::TestParamInfo<std::vector<std::string>>& info) {
  return info.param[1] + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, CliReplayPolicy,
    testing::Values(
        std::vector<std::string>{"--policy", "vllm_v1", "--limit", "100", "--seed", "5"},
        std::vector<std::string>{"--policy", "vllm_v1", "--limit", "100", "--devices", "3", "--set",
                                 "policy.standing_set=false", "--rate-scale", "9"},
        std::vector<std::string>{"--policy", "static_batch", "--limit", "100"},
        std::vector<std::string>{"--policy", "fifo", "--limit", "100"},
        std::vector<std::string>{"--policy",
                                 "composed",
                                 "--limit",
                                 "100",
                                 "--devices",
                                 "2",
                                 "--fault",
                                 "0@2s-3s;1@4s-5s,loses",
                                 "--deadline",
                                 "20s",
                                 "--patience",
                                 "19s",
                                 "--report-interval",
                                 "100ms",
                                 "--report-delay",
                                 "10ms",
                                 "--length-predictor",
                                 "noisy:sigma=0.5",
                                 "--decision-cost",
                                 "50us",
                                 "--tie-seed",
                                 "3",
                                 "--kv-blocks",
                                 "900"},
        std::vector<std::string>{"--policy", "vllm_v1", "--limit", "100", "--prefix-cache",
                                 "--isolate-tenants", "--queue-depth", "2", "--host-blocks", "0",
                                 "--length-predictor", "oracle", "--oracle"},
        std::vector<std::string>{"--policy", "immediate", "--profile", "resnet50-t4", "--trace",
                                 "synth:poisson:rate=90,count=200"},
        std::vector<std::string>{"--policy", "dynamic_batch", "--profile", "resnet50-t4", "--trace",
                                 "synth:poisson:rate=90,count=200"}),
    PolicyOf);

TEST(CliReplay, ForPeopleItSaysHowMuchWasTheSame) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "20"});
  const Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("run 1: "), HasSubstr("0 diverging")));
}

TEST(CliReplay, ARunWithoutALogIsTheUsersMistake) {
  const Program program(SCHEDTWIN_BINARY);
  ASSERT_EQ(program.Run({"sim", "--limit", "5"}).status, 0);
  const Outcome outcome = program.Run({"replay", "latest"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("run 1 has no log"), HasSubstr("--record full")));
}

TEST(CliReplay, ARunThatIsNotThereIsTheUsersMistake) {
  const Program program(SCHEDTWIN_BINARY);
  EXPECT_EQ(program.Run({"replay", "1"}).status, 2);
  Record(program, {"--limit", "5"});
  const Outcome outcome = program.Run({"replay", "7"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no run 7"));
  EXPECT_EQ(program.Run({"replay"}).status, 2);
}

TEST(CliReplay, ATraceThatChangedOrIsGoneIsTold) {
  const Program program(SCHEDTWIN_BINARY);
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string row = "2023-11-16 18:15:46.6805900,374,44\n";
  const std::string trace = program.Write("t.csv", header + row);
  Record(program, {"--trace", "t.csv"});
  EXPECT_EQ(program.Run({"replay", "1"}).status, 0);
  program.Write("t.csv", header + row + row);
  Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, HasSubstr("trace t.csv has changed since"));
  std::filesystem::remove(trace);
  outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("t.csv"), HasSubstr("from the folder")));
}

TEST(CliReplay, AProfileThatChangedIsTold) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "5"});
  Alter(program, "UPDATE runs SET profile_hash = '0000000000000000'");
  const Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("profile llama3-8b-a100 has changed since"));
}

TEST(CliReplay, AnotherParameterDiverges) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "50", "--set", "policy.plan_steps=40"});
  Alter(program, "UPDATE runs SET experiment = replace(experiment, '\"40\"', '\"41\"')");
  const Outcome outcome = program.Run({"replay", "1", "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err_lines(), 1);
  const json replay = outcome.json();
  EXPECT_EQ(replay["diverging"], 1);
  const json& first = replay["first_divergence"];
  EXPECT_EQ(first["line"], replay["lines"]);
  EXPECT_THAT(first["recorded"]["text"].get<std::string>(), HasSubstr("up to 40 steps"));
  EXPECT_THAT(first["replayed"]["text"].get<std::string>(), HasSubstr("up to 41 steps"));
  EXPECT_EQ(first["recorded"]["kind"], "decision");
  EXPECT_FALSE(first["before"].empty());
  EXPECT_EQ(first["event"]["kind"], "event");
  const Outcome text = program.Run({"replay", "1"});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("1 diverging"), HasSubstr("up to 40 steps"),
                              HasSubstr("up to 41 steps"), HasSubstr("the event before it, at "),
                              HasSubstr(first["event"]["text"].get<std::string>())));
}

TEST(CliReplay, ALogThatWasAlteredIsTold) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "20"});
  Alter(program, "UPDATE log SET a = a + 1 WHERE sequence = 30");
  Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("line 30 of "));
  Alter(program, "DELETE FROM log WHERE sequence > 20");
  outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("its log ends at line 21"));
  Alter(program, "DELETE FROM log WHERE sequence = 10");
  outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_THAT(outcome.err, HasSubstr("line 10 is missing"));
}

TEST(CliReplay, DigestsThatWereAlteredAreTold) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "5"});
  Alter(program, "UPDATE runs SET outcome_digest = '0000000000000000'");
  const Outcome outcome = program.Run({"replay", "1", "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.json()["digests_equal"], false);
  EXPECT_THAT(outcome.err, HasSubstr("digests"));
}

TEST(CliReplay, AWorldItCannotReplayIsSaidSo) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "5"});
  Alter(program, "UPDATE runs SET world = 'moon'");
  const Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no world 'moon'"));
}

TEST(CliReplay, AnotherVersionIsNoted) {
  const Program program(SCHEDTWIN_BINARY);
  Record(program, {"--limit", "5"});
  Alter(program, "UPDATE runs SET version = '0.0.1'");
  const Outcome outcome = program.Run({"replay", "1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("made by schedtwin 0.0.1"));
}

}  // namespace
}  // namespace schedtwin
