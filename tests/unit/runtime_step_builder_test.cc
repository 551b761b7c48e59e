// StepBuilder: commands become the shape of a step, and nothing of one step is left for the next.
#include <gtest/gtest.h>

#include <cstdint>

#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {
namespace {

DeviceCommand Member(std::uint32_t context) { return {.context_tokens = context}; }
DeviceCommand Listed(std::uint32_t tokens, std::uint32_t context, bool decode, bool samples) {
  return {.kind = CommandKind::kEntry,
          .decode = decode,
          .samples = samples,
          .tokens = tokens,
          .context_tokens = context};
}
DeviceCommand Step(bool standing, std::uint32_t entries, std::uint32_t padding = 0) {
  return {.kind = CommandKind::kStep, .standing = standing, .tokens = padding, .entries = entries};
}

TEST(StepBuilder, AddsUpADecoderStep) {
  StepBuilder builder(ModelKind::kDecoder);
  builder.Join(Member(40));
  builder.Join(Member(100));
  builder.AddEntry(Listed(1, 20, /*decode=*/true, /*samples=*/true));
  builder.AddEntry(Listed(9, 16, false, false));
  builder.AddEntry(Listed(1, 64, false, true));
  const StepShape shape = builder.Close(Step(/*standing=*/true, 3, /*padding=*/5));
  EXPECT_EQ(shape.decode_tokens, 3u);
  EXPECT_EQ(shape.decode_context_tokens, 21u + 41 + 101);
  EXPECT_EQ(shape.padding_tokens, 5u);
  EXPECT_EQ(shape.units, 0u);
  ASSERT_EQ(shape.prefills.size(), 2u);
  EXPECT_EQ(shape.prefills[0].tokens, 9u);
  EXPECT_EQ(shape.prefills[0].context_tokens, 16u);
  EXPECT_FALSE(shape.prefills[0].samples);
  EXPECT_TRUE(shape.prefills[1].samples);
}

TEST(StepBuilder, StepsHaveNothingOfEachOther) {
  StepBuilder builder(ModelKind::kDecoder);
  builder.Join(Member(40));
  builder.AddEntry(Listed(9, 16, false, false));
  const StepShape first = builder.Close(Step(/*standing=*/false, 1));
  EXPECT_EQ(first.decode_tokens, 0u) << "the set was not part of it";
  builder.AddEntry(Listed(7, 0, false, true));
  ASSERT_EQ(first.prefills.size(), 1u);
  EXPECT_EQ(first.prefills[0].tokens, 9u) << "the next step is being gathered elsewhere";
  const StepShape second = builder.Close(Step(/*standing=*/true, 1));
  ASSERT_EQ(second.prefills.size(), 1u);
  EXPECT_EQ(second.prefills[0].tokens, 7u);
  EXPECT_EQ(second.decode_context_tokens, 41u);
  builder.Leave(Member(41));
  EXPECT_EQ(builder.standing(), 0u);
  const StepShape third = builder.Close(Step(/*standing=*/true, 0, 3));
  EXPECT_TRUE(third.prefills.empty());
  EXPECT_EQ(third.decode_tokens + third.decode_context_tokens, 0u);
  EXPECT_EQ(third.padding_tokens, 3u);
}

TEST(StepBuilder, UnitsOfAOneShotModel) {
  StepBuilder builder(ModelKind::kOneShot);
  builder.AddEntry(Listed(5, 0, false, false));
  builder.AddEntry(Listed(6, 0, false, false));
  EXPECT_EQ(builder.Close(Step(false, 2)).units, 11u);
}

TEST(StepBuilder, PredictsWhatItsShapeTakes) {
  Profile p;
  p.name = p.model = "test";
  p.layers = 3;
  p.kv_blocks = p.block_tokens = 16;
  p.tile = 4;
  p.steps = {{4, 10'000.3}, {64, 127'000.7}};
  p.head = {{4, 777.1}};
  p.decode_base_ns = 50.9;
  p.decode_ns_per_context_token = 3.3;
  ASSERT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  const StepTimeModel model(p);
  StepBuilder fast(ModelKind::kDecoder);
  StepBuilder slow(ModelKind::kDecoder);
  for (std::uint32_t i = 0; i < 200; ++i) {
    for (StepBuilder* builder : {&fast, &slow}) {
      builder->Join(Member(i * 7));
      if (i % 3 == 0) builder->AddEntry(Listed(i + 2, i, false, i % 2 == 0));
    }
    const DeviceCommand step =
        Step(/*standing=*/i % 5 != 1, i % 3 == 0 ? 1 : 0, i % 4 == 0 ? i : 0);
    EXPECT_EQ(fast.Predict(step, model), model.Predict(slow.Close(step))) << i;
  }
}

}  // namespace
}  // namespace schedtwin
