#include "experiments/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kFile[] = R"(# burst of conversations
trace {
  source: "synth:azure_conv"
  rate_scale: 1.1
  limit: 1000
}
policy {
  name: "vllm_v1"
  param { name: "max_num_seqs" value: "64" }
}
slo { ttft: "200ms" }
axis { path: "policy.max_num_batched_tokens" values: "512,2048" }
axis { path: "seed" values: "1..3" values: "9" }
)";

Experiment MustParse(std::string_view text) {
  auto experiment = Experiment::FromText(text, "a.textproto");
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return *std::move(experiment);
}

std::string Error(std::string_view text) {
  return std::string(Experiment::FromText(text, "a.textproto").status().message());
}

TEST(Experiment, KnowsWhereEachFieldWasWritten) {
  const Experiment e = MustParse(kFile);
  EXPECT_EQ(e.TextOr("trace.rate_scale", ""), "1.1");
  EXPECT_EQ(e.Find("trace.limit")->where, "a.textproto:5");
  EXPECT_EQ(e.Find("policy.max_num_seqs")->where, "a.textproto:9");
  EXPECT_EQ(e.Find("slo.ttft")->text, "200ms");
  EXPECT_EQ(e.Find("seed"), nullptr);
  ASSERT_EQ(e.axes().size(), 2u);
  EXPECT_EQ(e.axes()[1].where, "a.textproto:13");
}

TEST(Experiment, FlagsOverrideFieldsAndAxes) {
  Experiment e = MustParse(kFile);
  ASSERT_TRUE(e.Set("policy", "fifo", "--policy").ok());
  ASSERT_TRUE(e.Set("seed", "5", "--seed").ok());
  EXPECT_EQ(e.Find("policy.name")->where, "--policy");
  EXPECT_EQ(e.axes().size(), 1u);
}

TEST(Experiment, TextReadsBackAsTheSameSettings) {
  Experiment e = MustParse(kFile);
  ASSERT_TRUE(TakeAxes(&e).ok());
  const Experiment again = MustParse(e.ToText());
  ASSERT_EQ(again.settings().size(), e.settings().size());
  for (const Setting& setting : e.settings()) {
    ASSERT_NE(again.Find(setting.path), nullptr) << setting.path;
    EXPECT_EQ(again.Find(setting.path)->text, setting.text);
  }
}

TEST(Experiment, FaultsAreOneSettingThatReadsBack) {
  const Experiment e = MustParse(
      "prefix_cache: true\nlength_predictor: \"bucketed:buckets=10,accuracy=0.8\"\n"
      "fault { device: 0 at: \"10s\" until: \"20s\" loses: true }\nfault { device: 2 at: \"1ms\" "
      "}\n");
  EXPECT_EQ(e.TextOr("fault", ""), "0@10s-20s,loses;2@1ms");
  EXPECT_EQ(e.Find("fault")->where, "a.textproto:3");
  EXPECT_EQ(e.TextOr("prefix_cache", ""), "true");
  Experiment again = MustParse(e.ToText());
  EXPECT_EQ(again.TextOr("fault", ""), e.TextOr("fault", ""));
  EXPECT_EQ(again.TextOr("prefix_cache", ""), "true");
  const auto axes = TakeAxes(&again);
  ASSERT_TRUE(axes.ok()) << axes.status();
  EXPECT_TRUE(axes->empty()) << "their commas are no list";
  EXPECT_THAT(Error("fault { device: 0 }"), HasSubstr("a.textproto:1: a fault needs a device"));
}

TEST(Experiment, ErrorsNameFileLineAndTheNearestName) {
  EXPECT_EQ(Error("trace {\n  rate_scal: 2\n}"),
            "a.textproto:2:12: there is no field 'rate_scal' in Trace; did you mean 'rate_scale'?");
  EXPECT_THAT(Error("policy {\n  max_num_seqs: 2\n}"),
              HasSubstr("in Policy; known are name, param"));
  EXPECT_THAT(Error("devices: -1"), HasSubstr("a.textproto:1:"));
  EXPECT_THAT(Error("trace {\n"), HasSubstr("a.textproto:2:"));
  EXPECT_EQ(Error("\naxis { path: \"trace.rate\" values: \"1\" }"),
            "a.textproto:2: there is no field 'trace.rate'; did you mean 'trace.rate_scale'?");
  EXPECT_THAT(Error("axis { path: \"seed\" }"), HasSubstr("has no values"));
  EXPECT_THAT(Error("policy { param { name: \"x\" } }"), HasSubstr("needs a name and a value"));
}

TEST(Experiment, MissingFileSaysSo) {
  EXPECT_THAT(Experiment::FromFile("/nonexistent/x.textproto").status().message(),
              HasSubstr("cannot read experiment /nonexistent/x.textproto: No such file"));
  EXPECT_THAT(Experiment::FromFile("/tmp").status().message(), HasSubstr("is a folder"));
}

TEST(Experiment, SmallRatiosReadBack) {
  Experiment e;
  ASSERT_TRUE(e.Set("trace.rate_scale", "0.00001", "--rate-scale").ok());
  EXPECT_EQ(MustParse(e.ToText()).TextOr("trace.rate_scale", ""), "0.00001");
  ASSERT_TRUE(e.Set("trace.rate_scale", "100000000000", "--rate-scale").ok());
  EXPECT_EQ(MustParse(e.ToText()).TextOr("trace.rate_scale", ""), "100000000000");
}

TEST(Experiment, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(MustParse("\xef\xbb\xbfseed: 5").TextOr("seed", ""), "5");
}

TEST(Experiment, AParameterIsGivenOnce) {
  EXPECT_EQ(Error("policy {\n param { name: \"x\" value: \"1\" }\n"
                  " param { name: \"x\" value: \"2\" }\n}"),
            "a.textproto:3: parameter 'x' is given twice, first at a.textproto:2; once is enough");
}

TEST(Axes, RangesAscendAndAreBounded) {
  for (const char* bad : {"5..1", "1..1000001", "-9223372036854775808..9223372036854775807"}) {
    Experiment e;
    ASSERT_TRUE(e.Set("seed", bad, "--seed").ok());
    EXPECT_EQ(TakeAxes(&e).status().message(), "--seed: range '" + std::string(bad) +
                                                   "' must ascend and hold at most 1000000 values");
  }
  Experiment e;
  ASSERT_TRUE(e.Set("seed", "9223372036854775806..9223372036854775807", "--seed").ok());
  EXPECT_THAT((*TakeAxes(&e))[0].values, ElementsAre("9223372036854775806", "9223372036854775807"));
}

TEST(Axes, ARangeOfOneValueIsThatValue) {
  Experiment e;
  ASSERT_TRUE(e.Set("seed", "7..7", "--seed").ok());
  EXPECT_TRUE(TakeAxes(&e)->empty());
  EXPECT_EQ(e.TextOr("seed", ""), "7");
}

TEST(Axes, ComeFromTheFileAndFromLists) {
  Experiment e = MustParse(kFile);
  ASSERT_TRUE(e.Set("trace.rate_scale", "0.5, 1", "--rate-scale").ok());
  const auto axes = TakeAxes(&e);
  ASSERT_TRUE(axes.ok()) << axes.status();
  ASSERT_EQ(axes->size(), 3u);
  EXPECT_THAT((*axes)[0].values, ElementsAre("512", "2048"));
  EXPECT_THAT((*axes)[1].values, ElementsAre("1", "2", "3", "9"));
  EXPECT_EQ((*axes)[2].path, "trace.rate_scale");
  EXPECT_THAT((*axes)[2].values, ElementsAre("0.5", "1"));
  EXPECT_EQ(e.Find("trace.rate_scale"), nullptr);
  EXPECT_NE(e.Find("policy.max_num_seqs"), nullptr);
}

TEST(Axes, NeverSplitATracesName) {
  Experiment e;
  ASSERT_TRUE(e.Set("trace", "synth:poisson:rate=5,n=10", "--trace").ok());
  EXPECT_TRUE(TakeAxes(&e)->empty());
}

TEST(Axes, RefuseEmptyValuesAndTwiceTheSamePath) {
  Experiment e;
  ASSERT_TRUE(e.Set("seed", "1,,2", "--seed").ok());
  EXPECT_THAT(TakeAxes(&e).status().message(), HasSubstr("--seed: empty value"));
  e = MustParse("axis { path: \"seed\" values: \"1\" }\naxis { path: \"seed\" values: \"2\" }");
  EXPECT_THAT(TakeAxes(&e).status().message(), HasSubstr("another axis on 'seed'"));
}

}  // namespace
}  // namespace schedtwin
