// `sim`, `sweep`, `compare` and `db` of the real program, from end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/data.h"
#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kShort = {"sim",     "--trace", "synth:azure_conv",
                                         "--limit", "300",     "--json"};

TEST(CliSim, PrintsTheKeysThatScriptsRelyOn) {
  const Program program(SCHEDTWIN_BINARY);
  const json run = MustRun(program, kShort);
  for (const char* key : {"run_id",          "world",      "policy",         "requests",
                          "completed",       "rejected",   "failed",         "outcome_digest",
                          "decision_digest", "makespan_s", "wall_s",         "process_s",
                          "events",          "steps",      "throughput_rps", "output_tokens_per_s",
                          "goodput_rps",     "ttft_ms",    "tpot_ms",        "e2e_ms"}) {
    EXPECT_TRUE(run.contains(key)) << key;
  }
  EXPECT_EQ(run["run_id"], 1);
  EXPECT_EQ(run["world"], "sim");
  EXPECT_EQ(run["requests"], 300);
  EXPECT_TRUE(run["goodput_rps"].is_null());
  for (const char* latency : {"ttft_ms", "tpot_ms", "e2e_ms"}) {
    std::set<std::string> keys;
    for (const auto& item : run[latency].items()) keys.insert(item.key());
    EXPECT_THAT(keys, ElementsAre("max", "mean", "p50", "p90", "p99"));
    EXPECT_LE(run[latency]["p50"], run[latency]["p99"]);
  }
  EXPECT_GT(run["process_s"], 0.0);
}

TEST(CliSim, OneShotModelsHaveNeitherTtftNorTpot) {
  const Program program(SCHEDTWIN_BINARY);
  const json run =
      MustRun(program, {"sim", "--policy", "dynamic_batch", "--profile", "resnet50-t4", "--trace",
                        "synth:poisson:rate=100,count=200", "--slo", "e2e=1s", "--json"});
  EXPECT_TRUE(run["ttft_ms"].is_null());
  EXPECT_TRUE(run["tpot_ms"].is_null());
  EXPECT_FALSE(run["e2e_ms"].is_null());
  EXPECT_DOUBLE_EQ(run["goodput_rps"], run["throughput_rps"]);
}

TEST(CliSim, SameInputSameDigestsWhateverIsRecorded) {
  const Program program(SCHEDTWIN_BINARY);
  std::set<std::string> digests;
  for (const char* level : {"summary", "requests", "steps", "full"}) {
    const json run = MustRun(program, With(kShort, {"--record", level}));
    digests.insert(run["outcome_digest"].get<std::string>() +
                   run["decision_digest"].get<std::string>());
  }
  EXPECT_EQ(digests.size(), 1u);
  const json other = MustRun(program, With(kShort, {"--seed", "2"}));
  EXPECT_FALSE(digests.contains(other["outcome_digest"].get<std::string>() +
                                other["decision_digest"].get<std::string>()));
  EXPECT_EQ(program.Run({"db", "check"}).status, 0);
}

TEST(CliSim, ARunThatDrawsNothingIsTheSameUnderEverySeed) {
  const Program program(SCHEDTWIN_BINARY);
  const std::vector<std::string> args = {"sim", "--trace", "synth:deterministic:count=50", "--json",
                                         "--seed"};
  EXPECT_EQ(MustRun(program, With(args, {"1"}))["outcome_digest"],
            MustRun(program, With(args, {"2"}))["outcome_digest"]);
}

TEST(CliSim, ABaselineSaysWhetherThePolicyHadAnyEffect) {
  const Program program(SCHEDTWIN_BINARY);
  const json same = MustRun(program, With(kShort, {"--baseline", "vllm_v1 standing_set=false"}));
  EXPECT_EQ(same["no_effect"], true);
  EXPECT_EQ(same["run_id"], 1);
  EXPECT_EQ(same["baseline"]["run_id"], 2);
  EXPECT_EQ(same["baseline"]["parameters"]["standing_set"], "false");
  const json other = MustRun(program, With(kShort, {"--baseline", "vllm_v1 max_num_seqs=1"}));
  EXPECT_EQ(other["no_effect"], false);
  EXPECT_EQ(other["baseline"]["parameters"]["max_num_seqs"], "1");
  EXPECT_EQ(MustRun(program, {"compare", "1", "2", "--json"})["no_effect"], true);
  EXPECT_EQ(MustRun(program, {"compare", "3", "4", "--json"})["no_effect"], false);
  const Outcome text = program.Run({"sim", "--limit", "20", "--baseline", "vllm_v1"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  no effect: the outcome is that of vllm_v1\n"));
  EXPECT_THAT(program.Run({"compare", "1", "2"}).out, HasSubstr("no effect"));
}

TEST(CliSim, ABaselineRunsUnderTheSameConditions) {
  const Program program(SCHEDTWIN_BINARY);
  // fifo alone would be given a decoder's profile.
  const json run =
      MustRun(program, {"sim", "--policy", "immediate", "--trace", "synth:poisson:rate=90,count=50",
                        "--baseline", "fifo", "--json"});
  EXPECT_EQ(run["profile"], "resnet50-t4");
  EXPECT_EQ(run["baseline"]["profile"], "resnet50-t4");
}

TEST(CliSim, FaultsDeadlinesAndTheOracleShowInItsFigures) {
  const Program program(SCHEDTWIN_BINARY);
  const json lost = MustRun(program, With(kShort, {"--policy", "composed", "--devices", "2",
                                                   "--fault", "0@20s-25s,loses"}));
  EXPECT_GT(lost["failed"].get<int>() + lost["cancelled"].get<int>(), 0);
  const json late = MustRun(program, With(kShort, {"--deadline", "2s"}));
  EXPECT_GT(late["timed_out"].get<int>() + late["cancelled"].get<int>(), 0);
  EXPECT_THAT(late["trace_transforms"].get<std::string>(), HasSubstr("deadline=2000000000ns"));
  const json told =
      MustRun(program, With(kShort, {"--length-predictor", "ranked:tau=1", "--oracle"}));
  EXPECT_EQ(told["oracle"], true);
  EXPECT_EQ(MustRun(program, {"db", "show", "latest", "--json"})["oracle"], 1);
  EXPECT_EQ(program.Run({"db", "check"}).status, 0);
}

TEST(CliSim, ReadsAnExperimentAndFlagsOverrideIt) {
  const Program program(SCHEDTWIN_BINARY);
  const std::string text =
      "trace { source: \"synth:azure_conv\" limit: 50 }\npolicy { name: \"static_batch\" }\nseed: "
      "3\n";
  const std::string file = program.Write("a.textproto", text);
  const json run = MustRun(program, {"sim", file, "--limit", "20", "--json"});
  EXPECT_EQ(run["policy"], "static_batch");
  EXPECT_EQ(run["requests"], 20);
  EXPECT_EQ(run["seed"], 3);
  // What is stored repeats the run.
  const json shown = MustRun(program, {"db", "show", "latest", "--json"});
  const std::string again = program.Write("again.textproto", shown["experiment"]);
  EXPECT_EQ(MustRun(program, {"sim", again, "--json"})["outcome_digest"], run["outcome_digest"]);
}

TEST(CliSim, AStoredExperimentNeedsNoDefaults) {
  const Program program(SCHEDTWIN_BINARY);
  const json run = MustRun(program, {"sim", "--limit", "20", "--rate-scale", "0.00001", "--json"});
  const json shown = MustRun(program, {"db", "show", "latest", "--json"});
  EXPECT_THAT(shown["experiment"].get<std::string>(), HasSubstr("max_num_batched_tokens"));
  const std::string again = program.Write("again.textproto", shown["experiment"]);
  EXPECT_EQ(MustRun(program, {"sim", again, "--json"})["outcome_digest"], run["outcome_digest"]);
  EXPECT_THAT(program.Run({"compare", "1", "2"}).out, HasSubstr("under the same conditions"));
}

TEST(CliSim, ForPeopleItPrintsATable) {
  const Program program(SCHEDTWIN_BINARY);
  const Outcome outcome = program.Run({"sim", "--limit", "100"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("run 1: vllm_v1 in sim, 1 x llama3-8b-a100"));
  EXPECT_THAT(outcome.out, HasSubstr("TTFT"));
  EXPECT_THAT(outcome.out, HasSubstr("stored in schedtwin.db\n")) << "nothing to compare with";
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(program.Run({"sim", "--limit", "100"}).out, HasSubstr("compare latest-1 latest`"));
  program.Run({"sim", "--limit", "100", "--db", "b.db"});
  EXPECT_THAT(program.Run({"sim", "--limit", "100", "--db", "b.db"}).out,
              HasSubstr("compare latest-1 latest --db b.db`"));
}

TEST(CliSweep, DigestsAndRunNumbersDoNotDependOnJobs) {
  const Program program(SCHEDTWIN_BINARY);
  const std::vector<std::string> args = {
      "sweep",        "--limit", "200",    "--set", "policy.max_num_seqs=4,16",
      "--rate-scale", "1,4",     "--seed", "1..3",  "--json"};
  const json one = MustRun(program, With(args, {"--jobs", "1", "--db", "one.db"}));
  const json two =
      MustRun(program, With(args, {"--jobs", "2", "--db", "two.db", "--record", "requests"}));
  ASSERT_EQ(one["points"].size(), 12u);
  ASSERT_EQ(two["points"].size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    for (const char* key : {"run_id", "setting", "outcome_digest", "decision_digest", "e2e_ms"}) {
      EXPECT_EQ(one["points"][i][key], two["points"][i][key]) << key << " of point " << i;
    }
  }
  EXPECT_EQ(one["frontier"], two["frontier"]);
  // A point is the same run that `sim` makes.
  const json alone = MustRun(program, {"sim", "--limit", "200", "--set", "policy.max_num_seqs=16",
                                       "--rate-scale", "4", "--seed", "3", "--json"});
  EXPECT_EQ(two["points"][11]["outcome_digest"], alone["outcome_digest"]);
  for (const char* db : {"one.db", "two.db"})
    EXPECT_EQ(program.Run({"db", "check", "--db", db}).status, 0);
}

TEST(CliSweep, MarksTheFrontierAndItsTwoWorkingPoints) {
  const Program program(SCHEDTWIN_BINARY);
  const json sweep =
      MustRun(program, {"sweep", "--limit", "300", "--rate-scale", "0.5,2,8", "--json"});
  int low = 0, high = 0;
  for (const json& point : sweep["points"]) {
    low += point["low_latency"].get<bool>() ? 1 : 0;
    high += point["high_throughput"].get<bool>() ? 1 : 0;
    EXPECT_TRUE(point["on_frontier"].get<bool>() || !point["low_latency"].get<bool>());
  }
  EXPECT_EQ(low, 1);
  EXPECT_EQ(high, 1);
  const Outcome text = program.Run({"sweep", "--limit", "300", "--rate-scale", "0.5,2,8"});
  EXPECT_THAT(text.out, HasSubstr("low latency"));
  EXPECT_THAT(text.out, HasSubstr("high throughput"));
}

TEST(CliSweep, TakesAxesFromAFile) {
  const Program program(SCHEDTWIN_BINARY);
  const std::string file =
      program.Write("grid.textproto",
                    "trace { limit: 50 }\n"
                    "axis { path: \"trace.source\" values: \"synth:azure_conv\" values: "
                    "\"synth:poisson:rate=5,count=40\" }\n"
                    "axis { path: \"policy.max_num_seqs\" values: \"2,8\" }\n");
  const json sweep = MustRun(program, {"sweep", file, "--json"});
  EXPECT_EQ(sweep["points"].size(), 4u);
  EXPECT_EQ(sweep["points"][3]["requests"], 40);
  const Outcome sim = program.Run({"sim", file});
  EXPECT_EQ(sim.status, 2);
  EXPECT_THAT(sim.err, HasSubstr("grid.textproto:2: an experiment with axes is many runs"));
}

TEST(CliSweep, SaysWhyThereIsNoFrontier) {
  const Program program(SCHEDTWIN_BINARY);
  const Outcome outcome =
      program.Run({"sweep", "--policy", "immediate", "--trace", "synth:poisson:count=20", "--seed",
                   "1,2", "--latency", "ttft_ms.p99"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no frontier: no run has ttft_ms"));
}

TEST(CliSweep, ARangeOfOneValueIsNoAxis) {
  const Program program(SCHEDTWIN_BINARY);
  const json sweep = MustRun(
      program, {"sweep", "--limit", "20", "--seed", "3..3", "--rate-scale", "1,2", "--json"});
  ASSERT_EQ(sweep["points"].size(), 2u);
  EXPECT_EQ(sweep["points"][0]["seed"], 3);
}

TEST(CliCompare, GivesEveryFigureAndTheRelativeDifference) {
  const Program program(SCHEDTWIN_BINARY);
  MustRun(program, kShort);
  MustRun(program, With(kShort, {"--rate-scale", "2"}));
  const json result = MustRun(program, {"compare", "latest-1", "latest", "--json"});
  EXPECT_EQ(result["run_a"], 1);
  EXPECT_EQ(result["run_b"], 2);
  std::set<std::string> seen;
  for (const json& m : result["metrics"]) {
    seen.insert(m["name"].get<std::string>() + "." + m["statistic"].get<std::string>());
    const double a = m["a"], b = m["b"];
    EXPECT_NEAR(m["rel_diff"].get<double>(), (b - a) / a, 1e-12);
  }
  EXPECT_EQ(seen.size(), 16u);
  const json same = MustRun(program, {"compare", "1", "1", "--json"});
  for (const json& m : same["metrics"]) EXPECT_EQ(m["rel_diff"], 0.0);
  EXPECT_THAT(program.Run({"compare", "1", "2"}).out, HasSubstr("trace_transforms"));
}

TEST(CliDb, ListsPublishedRunsOnly) {
  const Program program(SCHEDTWIN_BINARY);
  MustRun(program, kShort);
  MustRun(program, kShort);
  const json list = MustRun(program, {"db", "list", "--json"});
  ASSERT_EQ(list["runs"].size(), 2u);
  EXPECT_EQ(list["runs"][1]["run_id"], 2);
  EXPECT_EQ(list.size(), 1u);
}

// Starts a run that takes a while and waits until its file is there.
pid_t StartLongRun(const Program& program) {
  const pid_t child =
      program.Start({"sim", "--trace", "synth:poisson:rate=100000,count=1000000,prompt=20,output=8",
                     "--record", "full", "--json"});
  for (int i = 0; i < 1000 && !program.Exists("schedtwin.db-wal"); ++i) usleep(5'000);
  return child;
}

TEST(CliDb, AKilledRunIsNeverVisibleAndTheFileHolds) {
  const Program program(SCHEDTWIN_BINARY);
  MustRun(program, kShort);
  for (const unsigned wait_ms : {1u, 50u, 200u}) {
    const pid_t child = StartLongRun(program);
    usleep(wait_ms * 1000);
    kill(child, SIGKILL);
    ASSERT_EQ(program.Wait(child).status, 128 + SIGKILL) << "the run was too short to be killed";
    EXPECT_EQ(program.Run({"db", "check"}).status, 0);
    EXPECT_EQ(MustRun(program, {"db", "list", "--json"})["runs"].size(), 1u);
  }
  MustRun(program, kShort);  // writing cleans up
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["abandoned_runs"], 0);
  EXPECT_EQ(check["published_runs"], 2);
}

TEST(CliDb, AnInterruptedRunIsRemoved) {
  const Program program(SCHEDTWIN_BINARY);
  const pid_t child = StartLongRun(program);
  usleep(100'000);
  kill(child, SIGINT);
  const Outcome outcome = program.Wait(child);
  EXPECT_EQ(outcome.status, 130);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("interrupted"));
  const json check = MustRun(program, {"db", "check", "--json"});
  EXPECT_EQ(check["abandoned_runs"], 0) << "nothing was left behind";
  EXPECT_EQ(check["published_runs"], 0);
}

TEST(CliDb, ATerminatedRunSaysSoInItsStatus) {
  const Program program(SCHEDTWIN_BINARY);
  const pid_t child = StartLongRun(program);
  usleep(100'000);
  kill(child, SIGTERM);
  EXPECT_EQ(program.Wait(child).status, 143);
}

TEST(CliDb, AnIgnoredSignalStaysIgnored) {
  const Program program(SCHEDTWIN_BINARY);
  signal(SIGINT, SIG_IGN);  // what nohup and a shell's background do
  const pid_t child = StartLongRun(program);
  signal(SIGINT, SIG_DFL);
  usleep(100'000);
  kill(child, SIGINT);
  usleep(50'000);
  EXPECT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(program.Wait(child).status, 143);
}

TEST(CliReal, ReplaysTheAzureConversationTrace) {
  const std::string trace = AzureConvFile();
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << "no " << trace;
  const Program program(SCHEDTWIN_BINARY);
  const json run = MustRun(program, {"sim", "--trace", trace, "--record", "summary", "--json"});
  EXPECT_EQ(run["requests"], 19366);
  EXPECT_EQ(MustRun(program, {"trace", "info", trace, "--json"})["requests"], 19366);
}

}  // namespace
}  // namespace schedtwin
