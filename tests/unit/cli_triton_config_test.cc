// A model's config.pbtxt as a user gives it to triton_dynamic: read from its file, kept with the
// run, and its mistakes told in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/cli_testing.h"

namespace schedtwin {
namespace {

using ::testing::HasSubstr;

constexpr char kConfig[] =
    "name: \"resnet50\"\n"
    "max_batch_size: 16\n"
    "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 2000 }\n";

std::vector<std::string> Sim(const std::vector<std::string>& more) {
  return With({"sim", "--policy", "triton_dynamic", "--profile", "resnet50-t4", "--trace",
               "synth:poisson:rate=100,count=200"},
              more);
}

TEST(CliTritonConfig, FileIsTheSameAsItsParameters) {
  const Program program(SCHEDTWIN_BINARY);
  program.Write("config.pbtxt", kConfig);
  const auto by_file = MustRun(program, Sim({"--set", "policy.config=@config.pbtxt", "--json"}));
  const auto by_parameters = MustRun(
      program, Sim({"--set", "policy.max_batch_size=16", "--set", "policy.preferred_batch_size=4:8",
                    "--set", "policy.max_queue_delay=2ms", "--json"}));
  EXPECT_EQ(by_file["decision_digest"], by_parameters["decision_digest"]);
  const auto without = MustRun(program, Sim({"--json"}));
  EXPECT_NE(by_file["decision_digest"], without["decision_digest"]);
}

TEST(CliTritonConfig, RunKeepsWhatTheFileSaid) {
  const Program program(SCHEDTWIN_BINARY);
  program.Write("config.pbtxt", kConfig);
  ASSERT_EQ(program.Run(Sim({"--set", "policy.config=@config.pbtxt"})).status, 0);
  program.Write("config.pbtxt", "max_batch_size: 1 dynamic_batching { }");
  const Outcome shown = program.Run({"db", "show", "latest"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("max_queue_delay_microseconds: 2000"));
}

class TritonConfigMistake : public testing::TestWithParam<Mistake> {};

TEST_P(TritonConfigMistake, IsTold) {
  const Program program(SCHEDTWIN_BINARY);
  program.Write("config.pbtxt", kConfig);
  program.Write("misspelt.pbtxt", "max_batch_size: 8\ndynamic_batching {\n  max_delay: 5\n}\n");
  program.Write("none.pbtxt", "max_batch_size: 8\n");
  ExpectMistakeIsTold(program, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Cli, TritonConfigMistake,
    testing::Values(
        Mistake{"Misspelt", Sim({"--set", "policy.config=@misspelt.pbtxt"}),
                "config: 3:12: Triton's ModelDynamicBatching has no field 'max_delay'"},
        Mistake{"NoDynamicBatching", Sim({"--set", "policy.config=@none.pbtxt"}),
                "it has no dynamic_batching"},
        Mistake{"NoFile", Sim({"--set", "policy.config=@nowhere.pbtxt"}), "nowhere.pbtxt"},
        Mistake{"AgainstAParameter",
                Sim({"--set", "policy.config=@config.pbtxt", "--set", "policy.max_batch_size=8"}),
                "config sets another max_batch_size"}),
    [](const auto& mistake) { return std::string(mistake.param.name); });

}  // namespace
}  // namespace schedtwin
