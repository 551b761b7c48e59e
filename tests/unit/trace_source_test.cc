// TraceSource: many views of one trace; scaled exactly, cut where it was asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<const Trace> Sample() {
  Trace trace;
  trace.rows = {{0, 10, 1, 1}, {7, 20, 2, 3}, {10, 30, 3, 1}, {1'000'000'007, 41, 5, 2}};
  trace.provenance.source = "sample";
  return std::make_shared<const Trace>(std::move(trace));
}

std::vector<RequestSpec> Pulled(const TraceSourceOptions& options) {
  std::unique_ptr<TraceSource> source = TraceSource::Create(Sample(), options).value();
  std::vector<RequestSpec> specs;
  RequestSpec spec;
  while (source->Next(&spec) == Pull::kRequest) specs.push_back(spec);
  EXPECT_EQ(source->Next(&spec), Pull::kDry);
  EXPECT_EQ(source->Next(&spec), Pull::kDry);
  EXPECT_EQ(source->size(), specs.size());
  return specs;
}

std::vector<std::int64_t> Arrivals(const TraceSourceOptions& options) {
  std::vector<std::int64_t> arrivals;
  for (const RequestSpec& spec : Pulled(options)) arrivals.push_back(spec.arrival.ns());
  return arrivals;
}

std::vector<std::uint32_t> Prompts(const TraceSourceOptions& options) {
  std::vector<std::uint32_t> prompts;
  for (const RequestSpec& spec : Pulled(options)) prompts.push_back(spec.prompt_tokens);
  return prompts;
}

Ratio Times(const std::string& text) { return ParseRatio(text, "scale").value(); }

std::string Error(const TraceSourceOptions& options) {
  const auto source = TraceSource::Create(Sample(), options);
  EXPECT_FALSE(source.ok());
  return std::string(source.status().message());
}

TEST(TraceSource, YieldsTheRowsAsTheyAre) {
  const std::vector<RequestSpec> specs = Pulled({});
  ASSERT_EQ(specs.size(), 4u);
  EXPECT_EQ(specs[3].arrival, Time::Nanos(1'000'000'007));
  EXPECT_EQ(specs[3].prompt_tokens, 41u);
  EXPECT_EQ(specs[3].output_tokens, 5u);
  EXPECT_EQ(specs[3].units, 2u);
  EXPECT_EQ(specs[3].model, ModelId{0});
  EXPECT_EQ(specs[3].max_new_tokens, 0u);
  EXPECT_TRUE(specs[3].deadline.infinite());
}

TEST(TraceSource, RateScaleDividesArrivalsRoundingDown) {
  EXPECT_THAT(Arrivals({.rate_scale = Times("2")}), ElementsAre(0, 3, 5, 500'000'003));
  EXPECT_THAT(Arrivals({.rate_scale = Times("0.5")}), ElementsAre(0, 14, 20, 2'000'000'014));
  EXPECT_THAT(Arrivals({.rate_scale = Times("0.1")}), ElementsAre(0, 70, 100, 10'000'000'070));
  EXPECT_THAT(Arrivals({.rate_scale = Times("1.1")}), ElementsAre(0, 6, 9, 909'090'915));
  EXPECT_THAT(Arrivals({.rate_scale = Times("1.0")}), ElementsAre(0, 7, 10, 1'000'000'007));
}

TEST(TraceSource, LimitAndDurationCut) {
  EXPECT_THAT(Arrivals({.limit = 2}), ElementsAre(0, 7));
  EXPECT_THAT(Arrivals({.limit = 4}), ElementsAre(0, 7, 10, 1'000'000'007));
  EXPECT_THAT(Arrivals({.limit = 400}), ElementsAre(0, 7, 10, 1'000'000'007));
  EXPECT_THAT(Arrivals({.duration = Duration::Nanos(10)}), ElementsAre(0, 7));
  EXPECT_THAT(Arrivals({.duration = Duration::Nanos(11)}), ElementsAre(0, 7, 10));
  EXPECT_THAT(Arrivals({.duration = Duration::Nanos(1)}), ElementsAre(0));
  EXPECT_THAT(Arrivals({.limit = 1, .duration = Duration::Nanos(11)}), ElementsAre(0));
  // The duration is of the trace as it is sent, after rate scaling.
  EXPECT_THAT(Arrivals({.rate_scale = Times("2"), .duration = Duration::Nanos(6)}),
              ElementsAre(0, 3, 5));
}

TEST(TraceSource, LengthScaleRoundsToNearestAndKeepsAtLeastOneToken) {
  EXPECT_THAT(Prompts({.length_scale = Times("1.5")}), ElementsAre(15, 30, 45, 62));
  EXPECT_THAT(Prompts({.length_scale = Times("0.01")}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Prompts({.length_scale = Times("3")}), ElementsAre(30, 60, 90, 123));
  const std::vector<RequestSpec> specs = Pulled({.length_scale = Times("0.5")});
  EXPECT_EQ(specs[0].output_tokens, 1u);  // 0.5, up
  EXPECT_EQ(specs[3].output_tokens, 3u);  // 2.5, up
  EXPECT_EQ(specs[1].units, 3u);          // units are no lengths
}

TEST(TraceSource, AsUnitsKeepsArrivalsAndUnitsAlone) {
  const std::vector<RequestSpec> specs = Pulled({.as_units = true});
  ASSERT_EQ(specs.size(), 4u);
  for (const RequestSpec& spec : specs) {
    EXPECT_EQ(spec.prompt_tokens, 0u);
    EXPECT_EQ(spec.output_tokens, 0u);
  }
  EXPECT_EQ(specs[1].units, 3u);
  EXPECT_EQ(specs[3].arrival, Time::Nanos(1'000'000'007));
}

TEST(TraceSource, NamesOptionsThatLeaveNothingOrDoNotFit) {
  EXPECT_EQ(Error({.limit = 0}), "limit 0 leaves no request of sample; use 1 or more");
  EXPECT_EQ(Error({.duration = Duration()}),
            "duration 0ns leaves no request of sample; use 1ns or more");
  EXPECT_THAT(Error({.rate_scale = {1, 1'000'000'000'000}}),
              HasSubstr("stretches sample beyond 73 years"));
  EXPECT_THAT(
      Error({.length_scale = {1'000'000'000'000, 1}}),
      HasSubstr("makes the longest request of sample (41 tokens) longer than 32 bits hold"));
  EXPECT_FALSE(TraceSource::Create(std::make_shared<const Trace>(), {}).ok());
  Trace ages;
  ages.rows = {{0, 1, 1, 1}, {std::int64_t{1} << 62, 1, 1, 1}};
  ages.provenance.source = "ages";
  const auto shared = std::make_shared<const Trace>(std::move(ages));
  EXPECT_EQ(TraceSource::Create(shared, {}).status().message(),
            "trace ages is longer than 73 years; send it faster with a rate scale");
  EXPECT_TRUE(TraceSource::Create(shared, {.rate_scale = Times("4")}).ok());
}

TEST(TraceSource, ListsItsTransforms) {
  EXPECT_THAT(TraceSource::Create(Sample(), {}).value()->transforms(), IsEmpty());
  const TraceSourceOptions options = {.rate_scale = Times("1.5"),
                                      .length_scale = Times("0.25"),
                                      .limit = 3,
                                      .duration = Duration::Seconds(2),
                                      .as_units = true};
  EXPECT_THAT(TraceSource::Create(Sample(), options).value()->transforms(),
              ElementsAre("rate_scale=1.5", "length_scale=0.25", "limit=3", "duration=2000000000ns",
                          "as_units"));
}

TEST(TraceSource, RowsShowsTheViewWithoutMovingIt) {
  std::unique_ptr<TraceSource> source =
      TraceSource::Create(Sample(), {.rate_scale = Times("2"), .limit = 2}).value();
  RequestSpec spec;
  ASSERT_EQ(source->Next(&spec), Pull::kRequest);
  const std::vector<TraceRow> rows = source->Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].arrival_ns, 3);
  ASSERT_EQ(source->Next(&spec), Pull::kRequest);
  EXPECT_EQ(spec.arrival, Time::Nanos(3));
}

TEST(TraceSource, ViewsShareOneTrace) {
  const std::shared_ptr<const Trace> trace =
      OpenTrace({.spec = "synth:poisson:count=1000"}).value();
  const auto slow = TraceSource::Create(trace, {}).value();
  const auto fast = TraceSource::Create(trace, {.rate_scale = Times("10")}).value();
  EXPECT_EQ(&slow->trace(), &fast->trace());
  RequestSpec a, b;
  while (slow->Next(&a) == Pull::kRequest) {
    ASSERT_EQ(fast->Next(&b), Pull::kRequest);
    ASSERT_EQ(b.arrival.ns(), a.arrival.ns() / 10);
  }
  EXPECT_EQ(fast->Next(&b), Pull::kDry);
}

}  // namespace
}  // namespace schedtwin
