// `exec`, `calibrate` and what can be done with a real run, by the real program from end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "experiments/store/sqlite.h"
#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A second of light traffic.
const std::vector<std::string> kShort = {"exec", "--trace",
                                         "synth:poisson:rate=20,count=12,prompt=20,output=6"};

// What must be true after a run that came to nothing.
void ExpectNothingLeft(const Program& program) {
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["published_runs"], 0);
  EXPECT_EQ(check["open_runs"], 0);
  EXPECT_EQ(MustRun(program, {"db", "list", "--json"})["runs"].size(), 0u);
}

std::int64_t Count(const Program& program, const std::string& sql) {
  auto database = Database::Open(program.Path("schedtwin.db"), OpenMode::kRead);
  if (!database.ok()) return -1;
  return database->Integer(sql.c_str()).value_or(-1);
}

// Until the program has begun its run, and is sure to look at signals.
void WaitForOpenRun(const Program& program) {
  for (int i = 0; i < 6000; ++i) {
    usleep(10'000);
    if (Count(program, "SELECT count(*) FROM runs WHERE state = 'open'") == 1) {
      usleep(300'000);
      return;
    }
  }
  ADD_FAILURE() << "no run was begun within a minute";
}

class CliExec : public testing::TestWithParam<const char*> {};

TEST_P(CliExec, ARealRunIsStoredComparedAndReplayed) {
  const Program program(SCHEDTWIN_BINARY);
  const std::string policy = GetParam();
  const json run = MustRun(program, With(kShort, {"--policy", policy, "--json"}));
  EXPECT_EQ(run["world"], "cpu");
  EXPECT_EQ(run["completed"], 12);
  EXPECT_EQ(run["profile"], "");
  EXPECT_FALSE(run["lateness_ms"].is_null());
  EXPECT_GT(run["execution"]["policy_thread_s"], 0.0);
  const json replay = MustRun(program, {"replay", "latest", "--json"});
  EXPECT_EQ(replay["diverging"], 0);
  EXPECT_GT(replay["decisions"], 0);
  EXPECT_EQ(replay["digests_equal"], true);
  MustRun(program, {"sim", "--limit", "12", "--json"});
  const json compared = MustRun(program, {"compare", "1", "2", "--json"});
  EXPECT_EQ(compared["differing"][0]["name"], "world");
  EXPECT_EQ(program.Run({"db", "check"}).status, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, CliExec,
                         testing::Values("vllm_v1", "static_batch", "dynamic_batch", "immediate",
                                         "fifo", "composed"),
                         [](const testing::TestParamInfo<const char*>& policy) {
                           return std::string(policy.param);
                         });

TEST(CliExecOptions, MemoryIsShortAndTheReplayPreemptsTheSame) {
  const Program program(SCHEDTWIN_BINARY);
  const json run =
      MustRun(program, {"exec", "--policy", "composed", "--kv-blocks", "12", "--length-predictor",
                        "noisy:sigma=0.5", "--trace",
                        "synth:poisson:rate=100,count=12,prompt=20,output=60", "--json"});
  EXPECT_EQ(run["completed"], 12);
  EXPECT_GT(run["preemptions"], 0);
  EXPECT_GT(run["decision_us"]["p99"], 0.0);
  const json replay = MustRun(program, {"replay", "latest", "--json"});
  EXPECT_EQ(replay["diverging"], 0);
  EXPECT_EQ(replay["digests_equal"], true);
  EXPECT_EQ(program.Run({"db", "check"}).status, 0);
}

TEST(CliExecOptions, FaultsAndDeadlinesAreReplayed) {
  const Program program(SCHEDTWIN_BINARY);
  const json run =
      MustRun(program, With(kShort, {"--policy", "composed", "--devices", "2", "--fault",
                                     "0@100ms-300ms,loses", "--deadline", "2s", "--report-interval",
                                     "50ms", "--report-delay", "5ms", "--json"}));
  EXPECT_EQ(run["requests"], 12);
  const json replay = MustRun(program, {"replay", "latest", "--json"});
  EXPECT_EQ(replay["diverging"], 0);
  EXPECT_EQ(replay["digests_equal"], true);
}

TEST(CliExecOptions, ASimulatedRunTakesTheDecisionsOfARealOne) {
  const Program program(SCHEDTWIN_BINARY);
  const json real = MustRun(program, With(kShort, {"--json"}));
  ASSERT_FALSE(real["decision_us"].is_null());
  const json sim = MustRun(program, {"sim", "--limit", "20", "--record", "full", "--decision-cost",
                                     "measured:latest", "--json"});
  EXPECT_GT(sim["decision_us"]["mean"], 0.0);
  EXPECT_LE(sim["decision_us"]["max"], real["decision_us"]["max"]);
  const json shown = MustRun(program, {"db", "show", "latest", "--json"});
  EXPECT_THAT(shown["experiment"].get<std::string>(), HasSubstr("\"measured:1\""));
  EXPECT_EQ(MustRun(program, {"replay", "latest", "--json"})["diverging"], 0);
  const Outcome none = program.Run({"sim", "--decision-cost", "measured:3"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no run 3"));
}

TEST(CliExecPredictions, AreNullWithoutAProfileAndStandBesideTheMeasuredTimesWithOne) {
  const Program program(SCHEDTWIN_BINARY);
  const json made = MustRun(program, {"calibrate", "--model", "llama-15m", "--budget", "5s", "-o",
                                      "mine.textproto", "--json"});
  EXPECT_FALSE(made["fit"].empty());
  MustRun(program, With(kShort, {"--json"}));
  const json with = MustRun(program, With(kShort, {"--profile", "./mine.textproto", "--json"}));
  EXPECT_EQ(with["model"], "llama-15m");
  EXPECT_EQ(with["profile"], "mine");
  const std::string steps =
      "SELECT count(*) FROM steps WHERE compute_ns > 0 AND end_ns > start_ns ";
  EXPECT_GT(Count(program, steps + "AND run_id = 1 AND predicted_ns IS NULL"), 0);
  EXPECT_EQ(Count(program, steps + "AND run_id = 1 AND predicted_ns IS NOT NULL"), 0);
  EXPECT_EQ(Count(program, steps + "AND run_id = 2 AND predicted_ns > 0"), with["steps"]);
  EXPECT_EQ(MustRun(program, {"replay", "latest", "--json"})["diverging"], 0);
  // The simulated twin of what ran, on the profile of what ran it.
  const json sim =
      MustRun(program, {"sim", "--profile", "./mine.textproto", "--trace",
                        "synth:poisson:rate=20,count=12,prompt=20,output=6", "--json"});
  EXPECT_EQ(sim["completed"], 12);
  EXPECT_EQ(sim["model"], "llama-15m");
}

TEST(CliExecFailure, AnInterruptedRunLeavesNothing) {
  for (const auto& [sent, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    const Program program(SCHEDTWIN_BINARY);
    const pid_t child = program.Start({"exec", "--trace", "synth:poisson:rate=1,count=1000"});
    WaitForOpenRun(program);
    kill(child, sent);
    const Outcome outcome = program.Wait(child);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    ExpectNothingLeft(program);
  }
}

TEST(CliExecFailure, AKilledRunLeavesNothing) {
  const Program program(SCHEDTWIN_BINARY);
  const pid_t child = program.Start({"exec", "--trace", "synth:poisson:rate=50,count=1000"});
  WaitForOpenRun(program);
  kill(child, SIGKILL);
  EXPECT_EQ(program.Wait(child).status, 128 + SIGKILL);
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["abandoned_runs"], 1) << "to be removed by the next command that writes";
  EXPECT_EQ(check["published_runs"], 0);
  EXPECT_EQ(MustRun(program, {"db", "list", "--json"})["runs"].size(), 0u);
}

TEST(CliExecFailure, AFullDiskLeavesNothing) {
  Program program(SCHEDTWIN_BINARY);
  MustRun(program, {"sim", "--limit", "1", "--record", "summary", "--json"});  // the file is there
  program.Limit(RLIMIT_FSIZE, 60'000);
  const Outcome outcome =
      program.Run({"exec", "--trace", "synth:poisson:rate=200,count=200,prompt=8,output=8"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  program.LiftLimits();
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["published_runs"], 1) << "the one before";
}

TEST(CliExecFailure, ADeviceWithoutMemoryIsToldInOneLine) {
  Program program(SCHEDTWIN_BINARY);
  program.Limit(RLIMIT_AS, 400u << 20);
  const Outcome outcome = program.Run(kShort);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("device 0: there is not enough memory"));
  program.LiftLimits();
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["published_runs"], 0);
  EXPECT_EQ(check["open_runs"], 0);
}

class CliExecMistake : public testing::TestWithParam<Mistake> {};

TEST_P(CliExecMistake, GetsOneLineAndExitStatus2) {
  const Program program(SCHEDTWIN_BINARY);
  ExpectMistakeIsTold(program, GetParam());
  EXPECT_FALSE(program.Exists("x.textproto"));
}

INSTANTIATE_TEST_SUITE_P(
    All, CliExecMistake,
    testing::Values(
        Mistake{"World",
                {"exec", "--world", "cup"},
                "--world: world cannot be 'cup'; did you mean 'cpu'?"},
        Mistake{"Wait", {"exec", "--wait", "spinn"}, "did you mean 'spin'?"},
        Mistake{
            "Model", {"exec", "--model", "llama-15"}, "no model 'llama-15' for the CPU; there are"},
        Mistake{
            "ModelTooLarge", {"exec", "--model", "llama-8b"}, "no model 'llama-8b' for the CPU"},
        Mistake{"ModelOfAnotherKind",
                {"exec", "--model", "encoder-mini"},
                "which policy vllm_v1 does not drive"},
        Mistake{"ProfileOfAnotherModel",
                {"exec", "--profile", "llama3-8b-a100"},
                "no model 'llama3-8b' for the CPU"},
        Mistake{"ProfileAndModel",
                {"exec", "--profile", "llama3-8b-a100", "--model", "llama-15m"},
                "is of model llama3-8b, not 'llama-15m'"},
        Mistake{"TieSeed", {"exec", "--set", "tie_seed=4"}, "tie_seed is for simulated runs"},
        Mistake{
            "DecisionCost", {"exec", "--decision-cost", "1us"}, "unknown flag '--decision-cost'"},
        Mistake{"KvBlocks",
                {"exec", "--kv-blocks", "4096"},
                "--kv-blocks: kv_blocks cannot be '4096'; it takes an integer from 1 to 2048"},
        Mistake{"Devices", {"exec", "--devices", "65"}, "it takes an integer from 1 to 64"},
        Mistake{"CalibrateNoModel", {"calibrate", "-o", "x.textproto"}, "--model is missing"},
        Mistake{"CalibrateNoFile", {"calibrate", "--model", "llama-15m"}, "-o FILE is missing"},
        Mistake{"CalibrateModel",
                {"calibrate", "--model", "lama", "-o", "x.textproto"},
                "no model 'lama'"},
        Mistake{"CalibrateFolder",
                {"calibrate", "--model", "llama-15m", "-o", "none/x.textproto"},
                "cannot be written"},
        Mistake{"CalibrateFolderItself",
                {"calibrate", "--model", "llama-15m", "-o", "."},
                "is a folder"},
        Mistake{"CalibrateBudget",
                {"calibrate", "--model", "llama-15m", "-o", "x.textproto", "--budget", "0s"},
                "it is from 1s to 60min"},
        Mistake{"CalibrateWorld",
                {"calibrate", "--model", "llama-15m", "-o", "x.textproto", "--world", "cuda"},
                "cannot measure 'cuda'"}),
    [](const testing::TestParamInfo<Mistake>& mistake) { return mistake.param.name; });

// The drafts that are being written beside x.textproto.
std::ptrdiff_t Drafts(const Program& program) {
  const std::filesystem::directory_iterator files(program.Path("."));
  return std::count_if(begin(files), end(files),
                       [](const auto& file) { return file.path().extension() == ".part"; });
}

TEST(CliCalibrate, AnInterruptLeavesTheOldFile) {
  const Program program(SCHEDTWIN_BINARY);
  program.Write("x.textproto", "old");
  const pid_t child =
      program.Start({"calibrate", "--model", "llama-15m", "-o", "x.textproto", "--budget", "60s"});
  for (int i = 0; i < 6000 && Drafts(program) == 0; ++i) usleep(10'000);
  kill(child, SIGINT);
  const Outcome outcome = program.Wait(child);
  EXPECT_EQ(outcome.status, 130);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no profile was written"));
  std::ifstream file(program.Path("x.textproto"));
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "old");
  EXPECT_EQ(Drafts(program), 0);
}

}  // namespace
}  // namespace schedtwin
