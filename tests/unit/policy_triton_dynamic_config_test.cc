// triton_dynamic's configuration: what a config.pbtxt sets, with what it must agree, and every
// mistake as one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/unit/policy_triton_testing.h"

namespace schedtwin {
namespace {

using triton_testing::At;
using triton_testing::Batches;
using triton_testing::Burst;
using triton_testing::Requests;
using triton_testing::Settings;
using triton_testing::Triton;
using triton_testing::operator+;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As it comes from a model repository: most of it is none of the batcher's business.
constexpr char kRealistic[] = R"(name: "resnet50"
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "data" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "prob" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" } ]
dynamic_batching {
  preferred_batch_size: [ 8, 4 ]
  max_queue_delay_microseconds: 200
}
instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]
optimization { cuda { graphs: true } }
parameters: { key: "x" value: { string_value: "y" } }
model_warmup [ { name: "w" batch_size: 1 } ]
)";

// What is wrong with these settings; nothing, if they are right.
std::string Check(const Settings& settings) {
  const PolicyInfo* info = FindPolicy("triton_dynamic");
  Parameters parameters;
  std::string error;
  if (!Parameters::Parse(info->parameters, settings, &parameters, &error)) return "parse " + error;
  return info->check(parameters);
}

TEST(PolicyTritonDynamicConfig, FileOfAModelRepositoryIsRead) {
  ASSERT_EQ(Check({{"config", kRealistic}}), "");
  EXPECT_THAT(Batches(Triton({{"config", kRealistic}}, Requests{At(0, 16)} + Burst(10, 9))),
              ElementsAre("0 x16", "100 x9"));
}

TEST(PolicyTritonDynamicConfig, WhatTheFileLeavesOpenTheParametersSay) {
  const Settings settings = {{"config", kRealistic}, {"variant", "fixed"}};
  EXPECT_THAT(Batches(Triton(settings, Requests{At(0, 16)} + Burst(10, 9))),
              ElementsAre("0 x16", "100 x8", "210 x1"));
}

TEST(PolicyTritonDynamicConfig, ParametersMayRepeatTheFile) {
  EXPECT_EQ(Check({{"config", kRealistic},
                   {"max_batch_size", "16"},
                   {"preferred_batch_size", "4:8"},
                   {"max_queue_delay", "200us"}}),
            "");
}

TEST(PolicyTritonDynamicConfig, RateLimiterIsRead) {
  const char config[] =
      "max_batch_size: 1 dynamic_batching { }\n"
      "instance_group { count: 1 rate_limiter { resources { name: \"R\" count: 1 } priority: 1 } "
      "}\n"
      "instance_group { count: 1 rate_limiter { resources [ { name: \"R\" count: 1 } ]\n"
      "                                         priority: 2 } }";
  const Settings settings = {{"config", config}, {"rate_limit", "execution_count"}};
  EXPECT_EQ(Check(settings), "");
  EXPECT_THAT(
      Batches(Triton(settings, Burst(0, 6), 2)),
      ElementsAre("d0 0 x1", "d1 100 x1", "d0 200 x1", "d0 300 x1", "d1 400 x1", "d0 500 x1"));
}

TEST(PolicyTritonDynamicConfig, QueuePoliciesAreRead) {
  const char config[] =
      "max_batch_size: 1 dynamic_batching { default_queue_policy { timeout_action: DELAY\n"
      "  default_timeout_microseconds: 50 max_queue_size: 2 } }";
  const policy_testing::Played played =
      policy_testing::Play(Triton({{"config", config}}, {At(0), At(10), At(90), At(91)}));
  EXPECT_THAT(played.steps,
              ElementsAre("0-100000 U0:1", "100000-200000 U2:1", "200000-300000 U1:1"));
  EXPECT_EQ(played.requests[3].reason, EndReason::kRejected);
}

struct Mistake {
  const char* name;
  Settings settings;
  const char* says;

  friend void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }
};

class TritonMistake : public testing::TestWithParam<Mistake> {};

TEST_P(TritonMistake, IsOneLineThatSaysWhat) {
  const std::string error = Check(GetParam().settings);
  EXPECT_THAT(error, HasSubstr(GetParam().says));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

Settings File(const char* text) { return {{"config", text}}; }

INSTANTIATE_TEST_SUITE_P(
    PolicyTritonDynamicConfig, TritonMistake,
    testing::Values(
        Mistake{"MisspeltBatchingField", File("dynamic_batching {\n  prefered_batch_size: 4\n}"),
                "config: 2:22: Triton's ModelDynamicBatching has no field 'prefered_batch_size'"},
        Mistake{"MisspeltPolicyField",
                File("dynamic_batching { default_queue_policy { max_queue: 4 } }"),
                "ModelQueuePolicy has no field 'max_queue'"},
        Mistake{"MisspeltRateLimiterField",
                File("dynamic_batching { } instance_group { rate_limiter { resource { } } }"),
                "ModelRateLimiter has no field 'resource'"},
        Mistake{"MisspeltModelField", File("max_batchsize: 4 dynamic_batching { }"),
                "ModelConfig has no field 'max_batchsize'"},
        Mistake{"MisspeltGroupField", File("dynamic_batching { } instance_group { cont: 2 }"),
                "ModelInstanceGroup has no field 'cont'"},
        Mistake{"UnknownAction",
                File("dynamic_batching { default_queue_policy { timeout_action: DROP } }"),
                "config: 1:64: Unknown enumeration value of \"DROP\""},
        Mistake{"NotANumber", File("dynamic_batching {\n priority_levels: x }"), "config: 2:19: "},
        Mistake{"NoBatching", File("max_batch_size: 4"), "it has no dynamic_batching"},
        Mistake{"NoBatchSize", File("max_batch_size: 0 dynamic_batching { }"),
                "max_batch_size is 0"},
        Mistake{"PreferredBelowOne", File("dynamic_batching { preferred_batch_size: -1 }"),
                "preferred_batch_size has -1"},
        Mistake{"PreferredAboveTheMaximum",
                File("max_batch_size: 8 dynamic_batching { preferred_batch_size: 16 }"),
                "preferred_batch_size has 16, more than max_batch_size, which is 8"},
        Mistake{"PolicyOfNoLevel",
                File("dynamic_batching { priority_levels: 2 default_priority_level: 1\n"
                     "priority_queue_policy { key: 3 value { } } }"),
                "priority_queue_policy is for level 3"},
        Mistake{"DelayTooLong",
                File("dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }"),
                "max_queue_delay_microseconds is 18446744073709551615"},
        Mistake{"NoInstances", File("dynamic_batching { } instance_group { count: 0 }"),
                "instance_group.count is 0"},
        Mistake{"GlobalAndNot",
                File("dynamic_batching { } instance_group { rate_limiter {\n"
                     "resources { name: \"R\" global: true count: 1 }\n"
                     "resources { name: \"R\" count: 1 } } }"),
                "'R' of instance_group.rate_limiter is both global and not"},
        Mistake{"FileAgainstParameter",
                {{"config", "max_batch_size: 8 dynamic_batching { }"}, {"max_batch_size", "16"}},
                "config sets another max_batch_size than the parameter"},
        Mistake{"FileAgainstSizes",
                {{"config", "dynamic_batching { preferred_batch_size: 4 }"},
                 {"preferred_batch_size", "8"}},
                "config sets another preferred_batch_size than the parameter"},
        Mistake{"FileAgainstInstances",
                {{"config", "dynamic_batching { } instance_group { rate_limiter { priority: 2 } }"},
                 {"instance_priority", "3"}},
                "leave instance_resources and instance_priority out"},
        Mistake{"NoDefaultLevel", {{"priority_levels", "3"}}, "default_priority_level is 0"},
        Mistake{"DefaultLevelBeyond",
                {{"priority_levels", "3"}, {"default_priority_level", "4"}},
                "it must be from 1 to 3"},
        Mistake{
            "DefaultLevelWithoutLevels", {{"default_priority_level", "1"}}, "priority_levels is 0"},
        Mistake{"OrderAcrossLevels",
                {{"priority_levels", "2"},
                 {"default_priority_level", "1"},
                 {"preserve_ordering", "true"}},
                "more than one of priority_levels"},
        Mistake{"OrderWithDelay",
                {{"timeout_action", "delay"}, {"preserve_ordering", "true"}},
                "the timeout action delay"},
        Mistake{"ResourcesWithoutCount", {{"instance_resources", "R"}}, "instance_resources has"},
        Mistake{"ResourceTwice", {{"instance_resources", "R=1,R=2"}}, "instance_resources has"},
        Mistake{"SupplyThatIsNone", {{"resource_supply", "R="}}, "resource_supply is 'R='"},
        Mistake{"SupplyTooSmall",
                {{"instance_resources", "R=2"}, {"resource_supply", "R=1"}},
                "it could never execute"},
        Mistake{"SupplyOfAnother",
                {{"instance_resources", "R=2"}, {"resource_supply", "Q=4"}},
                "resource_supply has 0"}),
    [](const auto& mistake) { return mistake.param.name; });

}  // namespace
}  // namespace schedtwin
