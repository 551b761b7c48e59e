// Every mistake gets one line on what, where and how to mend it, exit status 2, and no half-written
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CliMistake : public testing::TestWithParam<Mistake> {};

TEST_P(CliMistake, GetsOneLineAndExitStatus2) {
  const Program program(SCHEDTWIN_BINARY);
  program.Write("wrong.csv", "when,what\n1,2\n");
  program.Write("number.csv",
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,12x,10\n");
  program.Write("text.db", std::string(5000, 'x'));
  program.Write("empty.db", "");
  program.Write("huge.textproto",
                "name: \"o\" model: \"m\" kind: ONE_SHOT host_overhead_ns: 1e300\n"
                "one_shot { point { units: 1 step_ns: 100 } }\n");
  program.Write("bad.textproto", "policy {\n  nme: \"fifo\"\n}\n");
  program.Write("badparam.textproto",
                "policy {\n  name: \"vllm_v1\"\n  param { name: \"max_seqs\" value: \"1\" }\n}\n");
  program.Write("badfault.textproto", "\nfault { device: 3 at: \"1s\" }\n");
  program.Write("badunit.textproto", "\nslo { ttft: \"200\" }\n");
  ExpectMistakeIsTold(program, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    All, CliMistake,
    testing::Values(
        Mistake{"NoCommand", {}, "no command is given"},
        Mistake{"UnknownCommand", {"swep"}, "did you mean 'sweep'?"},
        Mistake{"UnknownSecondWord", {"db", "chck"}, "did you mean 'check'?"},
        Mistake{"MissingSecondWord", {"db"}, "needs a second word: list, show, check"},
        Mistake{"UnknownFlag",
                {"sim", "--polcy=fifo"},
                "unknown flag '--polcy'; did you mean '--policy'?"},
        Mistake{"FlagWithoutValue", {"sim", "--limit"}, "'--limit' needs a value"},
        Mistake{"SwitchWithValue", {"sim", "--json=yes"}, "'--json' takes no value"},
        Mistake{"FlagTwice", {"sim", "--seed", "1", "--seed", "2"}, "given twice"},
        Mistake{"ArgumentAsFlag", {"sim", "--argument", "x"}, "unknown flag '--argument'"},
        Mistake{"FlagAsValue", {"sim", "--db", "--json"}, "flag '--db' needs a value"},
        Mistake{"SloTwice", {"sim", "--slo", "ttft=1s,ttft=2s"}, "'ttft' is given twice"},
        Mistake{"SetTwice",
                {"sim", "--set", "policy=fifo", "--set", "policy.name=fifo"},
                "'policy.name' is given twice"},
        Mistake{"SloTooLong", {"sim", "--slo", "tpot=76000000min"}, "at most 365 days"},
        Mistake{"RangeDown", {"sweep", "--seed", "5..1"}, "range '5..1' must ascend"},
        Mistake{"FolderToRead", {"db", "list", "--db", "/tmp"}, "no regular file"},
        Mistake{"NoNameToRead", {"db", "list", "--db", ""}, "is no file for results"},
        Mistake{"EmptyFileToRead", {"db", "list", "--db", "empty.db"}, "holds no runs yet"},
        Mistake{"HugeProfile", {"sim", "--profile", "huge.textproto"}, "from 0 to 1e15"},
        Mistake{"ExtraArgument", {"db", "list", "x"}, "unexpected argument 'x'"},
        Mistake{"MissingFile",
                {"sim", "--trace", "none.csv"},
                "--trace: trace 'none.csv' does not exist"},
        Mistake{"WrongHeader", {"sim", "--trace", "wrong.csv"}, "wrong.csv:1: found 'when,what'"},
        Mistake{"BadNumber", {"sim", "--trace", "number.csv"}, "number.csv:2: "},
        Mistake{"UnknownTrace", {"sim", "--trace", "synth:azure"}, "synth:azure_conv"},
        Mistake{
            "UnknownFormat", {"sim", "--trace", "wrong.csv", "--format", "csv"}, "azure_llm_2023"},
        Mistake{"UnknownPolicy", {"sim", "--policy", "vllm_1"}, "did you mean 'vllm_v1'?"},
        Mistake{"UnknownParameter",
                {"sim", "--set", "policy.max_num_seq=4"},
                "did you mean 'max_num_seqs'?"},
        Mistake{"BadParameter",
                {"sim", "--set", "policy.max_num_seqs=0"},
                "it takes an integer from 1"},
        Mistake{
            "ParameterWithoutPrefix", {"sim", "--set", "max_num_seqs=4"}, "policy.max_num_seqs"},
        Mistake{"ListInSim", {"sim", "--seed", "1,2"}, "lists are for `schedtwin sweep`"},
        Mistake{"UnknownProfile", {"sim", "--profile", "llama3-8b"}, "llama3-8b-a100"},
        Mistake{
            "OtherKind", {"sim", "--policy", "vllm_v1", "--profile", "resnet50-t4"}, "one-shot"},
        Mistake{"OtherModel", {"sim", "--model", "bert"}, "is of model llama3-8b, not 'bert'"},
        Mistake{"RateScale",
                {"sim", "--rate-scale", "1e3"},
                "--rate-scale: trace.rate_scale cannot be '1e3'"},
        Mistake{"RateScaleZero", {"sim", "--rate-scale", "0"}, "above zero"},
        Mistake{"Limit", {"sim", "--limit", "-5"}, "--limit: trace.limit cannot be '-5'"},
        Mistake{"Duration", {"sim", "--duration", "10"}, "with its unit"},
        Mistake{"Devices", {"sim", "--devices", "0"}, "an integer from 1 to"},
        Mistake{"QueueDepth",
                {"sim", "--queue-depth", "0"},
                "--queue-depth: queue_depth cannot be '0'; it takes an integer from 1 to"},
        Mistake{"KvBlocks", {"sim", "--kv-blocks", "many"}, "kv_blocks cannot be 'many'"},
        Mistake{"HostBlocks", {"sim", "--host-blocks", "-1"}, "host_blocks cannot be '-1'"},
        Mistake{"HostBlocksOfOneShot",
                {"sim", "--policy", "immediate", "--host-blocks", "5"},
                "--host-blocks: host_blocks is for models with a KV cache"},
        Mistake{"PrefixCacheOfOneShot",
                {"sim", "--policy", "immediate", "--prefix-cache"},
                "--prefix-cache: prefix_cache is for models with a KV cache"},
        Mistake{"PrefixCacheText",
                {"sim", "--set", "prefix_cache=on"},
                "prefix_cache cannot be 'on'; it is true or false"},
        Mistake{"IsolateTenants", {"sim", "--isolate-tenants"}, "set prefix_cache, too"},
        Mistake{"DeadlineUnit", {"sim", "--deadline", "5"}, "--deadline: trace.deadline cannot be"},
        Mistake{"Patience", {"sim", "--patience", "0s"}, "trace.patience cannot be '0s'"},
        Mistake{"Fault", {"sim", "--fault", "1@5s"}, "--fault: fault '1@5s': device cannot be '1'"},
        Mistake{"FaultTime", {"sim", "--fault", "0@soon"}, "at cannot be 'soon'"},
        Mistake{"FaultUntil", {"sim", "--fault", "0@2s-1s"}, "until, 1s, is not after 2s"},
        Mistake{"FaultInFile", {"sim", "badfault.textproto"}, "badfault.textproto:2: fault '3@1s'"},
        Mistake{"ReportInterval", {"sim", "--report-interval", "0ms"}, "cannot be '0ms'"},
        Mistake{"ReportDelay", {"sim", "--report-delay", "1ms"}, "set report_interval, too"},
        Mistake{"DevicesAtStart",
                {"sim", "--devices", "2", "--devices-at-start", "3"},
                "--devices-at-start: devices_at_start cannot be '3'"},
        Mistake{"TieSeed", {"sim", "--tie-seed", "x"}, "--tie-seed: tie_seed cannot be 'x'"},
        Mistake{"DecisionCost", {"sim", "--decision-cost", "50"}, "it is zero, a duration"},
        Mistake{"DecisionCostOfNoRun",
                {"sim", "--decision-cost", "measured:7"},
                "--decision-cost: no results file schedtwin.db"},
        Mistake{"LengthPredictor",
                {"sim", "--length-predictor", "noisy"},
                "--length-predictor: length predictor noisy: it needs sigma="},
        Mistake{"LengthPredictorOfOneShot",
                {"sim", "--policy", "immediate", "--length-predictor", "noisy:sigma=1"},
                "no output lengths to predict"},
        Mistake{"OracleNotGranted",
                {"sim", "--length-predictor", "oracle"},
                "tells policies the true output lengths, which none can know; grant that with "
                "--oracle"},
        Mistake{"BaselinePolicy",
                {"sim", "--baseline", "vllm_2"},
                "--baseline: unknown policy 'vllm_2'; did you mean 'vllm_v1'?"},
        Mistake{"BaselineParameter",
                {"sim", "--baseline", "vllm_v1 max_num_seq=3"},
                "--baseline: policy vllm_v1 has no parameter 'max_num_seq'"},
        Mistake{"BaselineText", {"sim", "--baseline", "vllm_v1 fast"}, "'fast' sets nothing"},
        Mistake{"BaselineTwice",
                {"sim", "--baseline", "vllm_v1 max_num_seqs=3,max_num_seqs=4"},
                "'max_num_seqs' is given twice"},
        Mistake{"BaselineOfAnotherKind",
                {"sim", "--policy", "immediate", "--baseline", "vllm_v1"},
                "--baseline: profile resnet50-t4 is of a one-shot model"},
        Mistake{"SloUnit", {"sim", "--slo", "ttft=5"}, "with its unit"},
        Mistake{"SloName",
                {"sim", "--slo", "ttf=5ms"},
                "there is no target 'ttf'; did you mean 'ttft'?"},
        Mistake{"SloOfOneShot",
                {"sim", "--policy", "immediate", "--slo", "tpot=5ms"},
                "resnet50 answers in one launch"},
        Mistake{"Record", {"sim", "--record", "all"}, "known are summary, requests, steps, full"},
        Mistake{
            "UnwritableDb", {"sim", "--db", "no/such/folder/x.db"}, "cannot write results file"},
        Mistake{"FolderAsDb", {"sim", "--db", "/tmp"}, "no regular file"},
        Mistake{"NotADatabase", {"sim", "--db", "text.db"}, "not a schedtwin results file"},
        Mistake{"EmptyDbName", {"sim", "--db="}, "--db"},
        Mistake{"MissingDb", {"compare", "1", "2", "--db", "none.db"}, "no results file none.db"},
        Mistake{"MissingExperiment",
                {"sim", "none.textproto"},
                "cannot read experiment none.textproto"},
        Mistake{
            "UnknownField", {"sim", "bad.textproto"}, "bad.textproto:2:6: there is no field 'nme'"},
        Mistake{"FileParameter",
                {"sim", "badparam.textproto"},
                "badparam.textproto:3: policy vllm_v1 has no parameter 'max_seqs'"},
        Mistake{"FileUnit",
                {"sim", "badunit.textproto"},
                "badunit.textproto:2: slo.ttft cannot be '200'"},
        Mistake{"SweepOfNothing", {"sweep"}, "nothing to vary"},
        Mistake{"SweepBadPoint", {"sweep", "--set", "policy.max_num_seqs=1,x"}, "cannot be 'x'"},
        Mistake{"SweepJobs", {"sweep", "--seed", "1,2", "--jobs", "0"}, "--jobs: cannot be '0'"},
        Mistake{"SweepLatency",
                {"sweep", "--seed", "1,2", "--latency", "p99"},
                "--latency: 'p99' is no latency"},
        Mistake{"UnknownPolicyToShow", {"policies", "orca"}, "known are clockwork, composed"},
        Mistake{"QueueTooShallow",
                {"sim", "--set", "policy.name=vllm_v1", "--set", "policy.async_scheduling=true"},
                "policy vllm_v1: as it is set it launches plans ahead; use --queue-depth 2 or more "
                "(it is 1)"},
        Mistake{"UnknownProfileToShow", {"profiles", "h100"}, "llama3-8b-a100"}),
    [](const auto& mistake) { return std::string(mistake.param.name); });

TEST(CliErrors, UnknownRunsAreNamedAndCounted) {
  const Program program(SCHEDTWIN_BINARY);
  ASSERT_EQ(program.Run({"sim", "--limit", "5"}).status, 0);
  const Outcome outcome = program.Run({"compare", "1", "latest-1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("no run latest-1 in schedtwin.db, which holds 1 published runs"));
  EXPECT_EQ(program.Run({"db", "show", "first"}).status, 2);
}

TEST(CliErrors, ABrokenFileFailsTheCheckWithStatus1) {
  const Program program(SCHEDTWIN_BINARY);
  ASSERT_EQ(program.Run({"sim", "--limit", "500"}).status, 0);
  // Damage in the middle of the file, past the schema.
  const auto size = std::filesystem::file_size(program.Path("schedtwin.db"));
  std::fstream file(program.Path("schedtwin.db"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size - size / 4));
  file << std::string(size / 8, '\xff');
  file.close();
  const Outcome outcome = program.Run({"db", "check"});
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  const Outcome again = program.Run({"db", "check", "--json"});
  EXPECT_EQ(again.status, 1);
  EXPECT_EQ(again.json()["ok"], false) << again.out;
  EXPECT_FALSE(again.json()["problems"].empty());
}

TEST(CliHelp, EveryCommandExplainsItselfWithExamples) {
  const Program program(SCHEDTWIN_BINARY);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"sim"},
                                                  {"sweep"},
                                                  {"compare"},
                                                  {"policies"},
                                                  {"profiles"},
                                                  {"trace", "info"},
                                                  {"db", "list"},
                                                  {"db", "show"},
                                                  {"db", "check"},
                                                  {"db"},
                                                  {"trace"}}) {
    std::vector<std::string> args = command;
    args.push_back("--help");
    const Outcome outcome = program.Run(args);
    EXPECT_EQ(outcome.status, 0) << command[0];
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, StartsWith("usage: schedtwin " + command[0]));
    EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
    EXPECT_THAT(outcome.out, HasSubstr("--json"));
  }
  const Outcome help = program.Run({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* name :
       {"sim", "sweep", "compare", "policies", "profiles", "trace info", "db check"}) {
    EXPECT_THAT(help.out, HasSubstr(name));
  }
  EXPECT_THAT(program.Run({"--version"}).out, StartsWith("schedtwin "));
  EXPECT_EQ(program.Run({"help", "sim"}).out, program.Run({"sim", "-h"}).out);
}

TEST(CliLists, PrintPoliciesProfilesAndTracesAsJson) {
  const Program program(SCHEDTWIN_BINARY);
  const auto policies = program.Run({"policies", "--json"}).json();
  EXPECT_GE(policies["policies"].size(), 5u);
  for (const auto& policy : policies["policies"]) {
    EXPECT_TRUE(policy["one_shot"].get<bool>() || policy["decoder"].get<bool>()) << policy["name"];
    EXPECT_NE(policy["source"], "");
    for (const auto& parameter : policy["parameters"]) EXPECT_NE(parameter["meaning"], "");
  }
  EXPECT_EQ(program.Run({"policies", "fifo", "--json"}).json()["policies"][0]["name"], "fifo");
  const auto profiles = program.Run({"profiles", "--json"}).json();
  EXPECT_GE(profiles["profiles"].size(), 2u);
  for (const auto& profile : profiles["profiles"]) EXPECT_FALSE(profile["sources"].empty());
  const auto trace = program
                         .Run({"trace", "info", "synth:poisson:count=100,rate=10", "--limit", "60",
                               "--rate-scale", "2", "--json"})
                         .json();
  EXPECT_EQ(trace["requests"], 60);
  EXPECT_THAT(trace["transforms"].dump(), HasSubstr("rate_scale=2"));
}

}  // namespace
}  // namespace schedtwin
