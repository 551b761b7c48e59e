// StepTimeModel: exact values at and between points, past the ends, and what every prediction
// keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"

namespace schedtwin {
namespace {

Profile SmallDecoder() {
  Profile p;
  p.name = p.model = "test";
  p.kind = ModelKind::kDecoder;
  p.layers = 2;
  p.kv_blocks = 100;
  p.block_tokens = 16;
  p.host_overhead_ns = 1000;
  p.tile = 64;
  p.steps = {{64, 10'000}, {128, 15'000}, {256, 27'000}};
  p.decode_base_ns = 50;
  p.decode_ns_per_context_token = 0.25;
  p.prefill.context_tokens = {0, 100};
  p.prefill.chunk_tokens = {1, 101, 201};
  p.prefill.layer_ns = {10, 110, 410, 30, 330, 830};
  p.prefill.launch_ns = 4;
  EXPECT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  return p;
}

std::int64_t Prefill(const StepTimeModel& model, const std::vector<PrefillChunk>& chunks) {
  StepShape shape;
  shape.prefills = chunks;
  return model.Predict(shape).ns();
}

/// The part of a step that its prefill attention adds, by the same model without the table.
std::int64_t PrefillAttention(const StepTimeModel& model, std::uint32_t context,
                              std::uint32_t tokens) {
  return Prefill(model, {{tokens, context}}) - model.PredictUnits(tokens).ns();
}

TEST(StepTime, TokensArePaddedToTheTile) {
  const StepTimeModel model(SmallDecoder());
  EXPECT_EQ(model.PredictUnits(1).ns(), 11'000);
  EXPECT_EQ(model.PredictUnits(64).ns(), 11'000);
  EXPECT_EQ(model.PredictUnits(65).ns(), 16'000);
  EXPECT_EQ(model.PredictUnits(128).ns(), 16'000);
  EXPECT_EQ(model.PredictUnits(129).ns(), 22'000);  // 192, half way between two points
  EXPECT_EQ(model.PredictUnits(256).ns(), 28'000);
}

TEST(StepTime, PastTheTableTheLastSlopeGoesOn) {
  const StepTimeModel model(SmallDecoder());
  EXPECT_EQ(model.PredictUnits(257).ns(), 34'000);
  EXPECT_EQ(model.PredictUnits(640).ns(), 28'000 + 6 * 6'000);
  EXPECT_GT(model.PredictUnits(std::numeric_limits<std::uint32_t>::max()).ns(), 0);
}

TEST(StepTime, DecodeIsLinearInTheSumOfContexts) {
  const StepTimeModel model(SmallDecoder());
  EXPECT_EQ(model.PredictDecode(3, 1000).ns(), 11'000 + 2 * 50 + 500);
  EXPECT_EQ(model.PredictDecode(3, 1001).ns(), 11'000 + 2 * 50 + 501);  // 500.5 rounds up
  EXPECT_EQ(model.PredictDecode(65, 1000).ns(), 16'000 + 2 * 50 + 500);
  EXPECT_EQ(model.PredictDecode(0, 0).ns(), 1000);
}

TEST(StepTime, PrefillIsExactAtThePointsOfItsGrid) {
  const Profile p = SmallDecoder();
  const StepTimeModel model(p);
  for (std::size_t i = 0; i < p.prefill.context_tokens.size(); ++i) {
    for (std::size_t j = 0; j < p.prefill.chunk_tokens.size(); ++j) {
      EXPECT_EQ(PrefillAttention(model, p.prefill.context_tokens[i], p.prefill.chunk_tokens[j]),
                2 * static_cast<std::int64_t>(p.prefill.layer_ns[i * 3 + j]));
    }
  }
}

TEST(StepTime, PrefillIsBilinearBetweenThem) {
  const StepTimeModel model(SmallDecoder());
  EXPECT_EQ(PrefillAttention(model, 0, 51), 2 * 60);
  EXPECT_EQ(PrefillAttention(model, 50, 1), 2 * 20);
  EXPECT_EQ(PrefillAttention(model, 50, 151), 2 * 420);  // (260 + 580) / 2
}

TEST(StepTime, PrefillGrowsBeyondItsGrid) {
  const StepTimeModel model(SmallDecoder());
  EXPECT_EQ(PrefillAttention(model, 200, 101), 2 * 550);  // a straight line in the context
  // Context 0: s * s / 2 went from 5,100.5 to 20,200.5 while the time went from 110 to 410.
  const double per_work = (410.0 - 110.0) / (20'200.5 - 5'100.5);
  EXPECT_EQ(PrefillAttention(model, 0, 401),
            std::llround(2 * (410 + per_work * (80'400.5 - 20'200.5))));
  for (std::uint32_t context = 0; context < 2000; context += 37) {
    for (std::uint32_t tokens = 1; tokens < 2000; tokens += 41) {
      EXPECT_GE(PrefillAttention(model, context + 37, tokens),
                PrefillAttention(model, context, tokens));
      EXPECT_GE(PrefillAttention(model, context, tokens + 41),
                PrefillAttention(model, context, tokens));
    }
  }
}

TEST(StepTime, ChunksAddAndShareOneLaunch) {
  const StepTimeModel model(SmallDecoder());
  // 202 tokens: 256 in the table. Each chunk 2 * 110, of which 2 * 4 are the launch.
  EXPECT_EQ(Prefill(model, {{101, 0}, {101, 0}}), 28'000 + 2 * (110 + 110 - 4));
  EXPECT_EQ(Prefill(model, {{101, 0}, {101, 100}}), 28'000 + 2 * (110 + 330 - 4));
}

TEST(StepTime, MixedStepIsTheSumOfItsParts) {
  const StepTimeModel model(SmallDecoder());
  const std::array<PrefillChunk, 1> chunks = {{{.tokens = 101, .context_tokens = 0}}};
  StepShape shape;
  shape.decode_tokens = 20;
  shape.decode_context_tokens = 4000;
  shape.prefills = chunks;
  shape.padding_tokens = 7;  // 128 tokens in all
  EXPECT_EQ(model.Predict(shape).ns(), 16'000 + 2 * (50 + 1000) + 2 * 110);
  shape.padding_tokens = 8;
  EXPECT_EQ(model.Predict(shape).ns(), 22'000 + 2 * (50 + 1000) + 2 * 110);
}

/// SmallDecoder with an LM head.
Profile WithHead() {
  Profile p = SmallDecoder();
  p.head = {{64, 3000}, {192, 7000}};
  EXPECT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  return p;
}

TEST(StepTime, DecodesMayEachCostAShare) {
  Profile p = SmallDecoder();
  p.decode_ns_per_sequence = 7;
  ASSERT_TRUE(ValidateProfile(p).ok());
  const StepTimeModel model(p);
  EXPECT_EQ(model.PredictDecode(3, 1000).ns(), 11'000 + 2 * (50 + 3 * 7) + 500);
  EXPECT_EQ(model.PredictDecode(0, 0).ns(), 1000);
  StepShape shape;
  shape.decode_tokens = 3;
  shape.decode_context_tokens = 1000;
  EXPECT_EQ(model.Predict(shape), model.PredictDecode(3, 1000));
}

TEST(StepTime, HeadIsOfTheRowsThatSample) {
  const StepTimeModel model(WithHead());
  // 11'000 for the table and the overhead, 2 * 50 for attention, 0.5 for each token attended to.
  EXPECT_EQ(model.PredictDecode(1, 0).ns(), 11'100 + 3000);
  EXPECT_EQ(model.PredictDecode(64, 100).ns(), 11'150 + 3000);
  EXPECT_EQ(model.PredictDecode(65, 100).ns(), 16'150 + 5000);  // 128, half way
  EXPECT_EQ(model.PredictDecode(192, 0).ns(), 22'100 + 7000);
  EXPECT_EQ(model.PredictDecode(193, 0).ns(), 28'100 + 9000);  // past its end by its last slope
  // A prompt costs it once, at its end, however many tokens it has.
  const std::int64_t chunk = 16'000 + 2 * 110;
  EXPECT_EQ(Prefill(model, {{101, 0}}), chunk);
  EXPECT_EQ(Prefill(model, {{101, 0, true}}), chunk + 3000);
  EXPECT_EQ(Prefill(model, {{50, 0, true}, {50, 0, false}, {1, 0, true}}),
            16'000 + 2 * (59 + 59 + 10 - 8) + 3000);
}

TEST(StepTime, HeadCountsDecodesAndLastChunksTogether) {
  const StepTimeModel model(WithHead());
  const std::vector<PrefillChunk> chunks = {{1, 0, true}, {1, 0, false}, {1, 0, true}};
  StepShape shape;
  shape.prefills = chunks;
  shape.decode_tokens = 62;
  const std::int64_t rest = 16'000 + 2 * 50 + 2 * (3 * 10 - 2 * 4);  // 65 tokens
  EXPECT_EQ(model.Predict(shape).ns(), rest + 3000);
  shape.decode_tokens = 63;
  EXPECT_EQ(model.Predict(shape).ns(), rest + 5000);
  shape.decode_tokens = 62;
  shape.padding_tokens = 1;  // padding samples nothing
  EXPECT_EQ(model.Predict(shape).ns(), rest + 3000);
}

TEST(StepTime, NoRowsNoHead) {
  const StepTimeModel model(WithHead());
  EXPECT_EQ(model.Predict(StepShape{}).ns(), 1000);
  EXPECT_EQ(model.PredictDecode(0, 0).ns(), 1000);
  StepShape shape;
  shape.padding_tokens = 100;
  EXPECT_EQ(model.Predict(shape).ns(), 16'000);
}

TEST(StepTime, HeadOfOnePointGoesThroughTheOrigin) {
  Profile p = WithHead();
  p.head = {{64, 3000}};
  ASSERT_TRUE(ValidateProfile(p).ok());
  EXPECT_EQ(StepTimeModel(p).PredictDecode(129, 0).ns(), 22'100 + 9000);
}

TEST(StepTime, DecoderWithoutPrefillTable) {
  Profile p = SmallDecoder();
  p.prefill = {};
  ASSERT_TRUE(ValidateProfile(p).ok());
  EXPECT_EQ(Prefill(StepTimeModel(p), {{100, 0}}), 16'000);
}

TEST(StepTime, EmptyStepCostsTheOverheadAndNothingIsFree) {
  Profile p = SmallDecoder();
  EXPECT_EQ(StepTimeModel(p).Predict(StepShape{}).ns(), 1000);
  p.host_overhead_ns = 0;
  EXPECT_EQ(StepTimeModel(p).Predict(StepShape{}).ns(), 1);
  p.steps = {{64, 1e-9}};
  EXPECT_EQ(StepTimeModel(p).PredictUnits(1).ns(), 1);
}

TEST(StepTime, HugeTimesAreCappedNotWrapped) {
  Profile p = SmallDecoder();
  p.steps = {{64, 1e300}};
  EXPECT_EQ(StepTimeModel(p).PredictUnits(1).ns(), 1'000'000'000'000'000);
  p.steps = {{64, 1e15}};  // what a file may say; twice that is over the top
  EXPECT_EQ(StepTimeModel(p).PredictUnits(128).ns(), 1'000'000'000'000'000);
}

TEST(StepTime, FallingTailDoesNotGoBelowZero) {
  Profile p = SmallDecoder();
  p.steps = {{64, 10'000}, {128, 9'000}};
  EXPECT_EQ(StepTimeModel(p).PredictUnits(1'000'000).ns(), 10'000);
}

TEST(StepTime, OneShotTableAndFloor) {
  Profile p;
  p.name = p.model = "test";
  p.kind = ModelKind::kOneShot;
  p.steps = {{1, 500}, {2, 700}, {4, 1200}, {8, 2000}};
  ASSERT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  const StepTimeModel plain(p);
  EXPECT_EQ(plain.PredictUnits(1).ns(), 500);
  EXPECT_EQ(plain.PredictUnits(3).ns(), 950);
  EXPECT_EQ(plain.PredictUnits(8).ns(), 2000);
  EXPECT_EQ(plain.PredictUnits(10).ns(), 2400);
  p.floor_ns = 1000;
  const StepTimeModel floored(p);
  EXPECT_EQ(floored.PredictUnits(1).ns(), 1000);
  EXPECT_EQ(floored.PredictUnits(4).ns(), 1200);
  StepShape shape;
  shape.units = 3;
  EXPECT_EQ(plain.Predict(shape), plain.PredictUnits(3));
}

TEST(StepTime, LinearIsExactInIntegers) {
  const StepTimeModel service = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(1));
  for (const std::uint32_t units : {1u, 2u, 3u, 12'345'679u, 2'147'483'647u, 4'294'967'295u}) {
    EXPECT_EQ(service.PredictUnits(units).ns(), std::int64_t{units});
  }
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(7), Duration::Nanos(200'003));
  for (std::uint32_t units = 0; units < 4'000'000'000u; units += 123'456'789u) {
    StepShape shape;
    shape.units = units;
    EXPECT_EQ(model.Predict(shape).ns(), 7 + std::int64_t{200'003} * units);
  }
}

TEST(StepTime, ShortWaysGiveTheSameBits) {
  const absl::StatusOr<Profile> profile = LoadProfile("llama3-8b-a100");
  ASSERT_TRUE(profile.ok()) << profile.status();
  const StepTimeModel model(*profile);
  const StepTimeModel again(*profile);
  for (std::uint32_t tokens = 0; tokens < 600; ++tokens) {
    StepShape shape;
    shape.decode_tokens = tokens;
    shape.decode_context_tokens = std::uint64_t{tokens} * 731;
    EXPECT_EQ(model.Predict(shape), model.PredictDecode(tokens, shape.decode_context_tokens));
    EXPECT_EQ(model.Predict(shape), again.Predict(shape));
  }
}

TEST(StepTime, ShortWaysGiveTheSameBitsWithAHead) {
  Profile p = WithHead();
  p.head = {{64, 1234.56789}, {128, 4567.891}, {512, 30'000.1}};
  p.decode_ns_per_context_token = 0.123456789;
  const StepTimeModel model(p);
  for (std::uint32_t tokens = 0; tokens < 2000; ++tokens) {
    StepShape shape;
    shape.decode_tokens = tokens;
    shape.decode_context_tokens = std::uint64_t{tokens} * 731;
    ASSERT_EQ(model.Predict(shape), model.PredictDecode(tokens, shape.decode_context_tokens));
  }
}

TEST(StepTime, ShippedDecoderGrowsWithWork) {
  const absl::StatusOr<Profile> profile = LoadProfile("llama3-8b-a100");
  ASSERT_TRUE(profile.ok()) << profile.status();
  const StepTimeModel model(*profile);
  // Measured times dip by up to 10% inside and after a tile (184 tokens run faster than 152).
  std::int64_t highest = 0;
  for (std::uint32_t tokens = 1; tokens < 40'000; tokens += 8) {
    const std::int64_t ns = model.PredictUnits(tokens).ns();
    EXPECT_GT(ns, highest - highest / 10) << tokens;
    highest = std::max(highest, ns);
  }
  for (std::uint64_t context = 0; context < 500'000; context += 1000) {
    EXPECT_LT(model.PredictDecode(64, context), model.PredictDecode(64, context + 1000));
  }
  for (std::uint32_t context = 4096; context < 8192; context += 256) {
    EXPECT_LT(Prefill(model, {{512, context}}), Prefill(model, {{512, context + 256}}));
  }
  for (std::uint32_t tokens = 4096; tokens < 8192; tokens += 256) {
    EXPECT_LT(Prefill(model, {{tokens, 0}}), Prefill(model, {{tokens + 256, 0}}));
  }
}

}  // namespace
}  // namespace schedtwin
