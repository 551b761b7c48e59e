// The encoder's forward pass against a reference in double precision; a batch equals its units.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/encoder.h"
#include "kernels/model_shapes.h"
#include "tests/support/reference_encoder.h"
#include "tests/unit/kernel_testing.h"

namespace schedtwin {
namespace {

class KernelEncoder : public testing::TestWithParam<LinearBackendKind> {};
INSTANTIATE_TEST_SUITE_P(, KernelEncoder, testing::ValuesIn(LinearBackends()), BackendName);

constexpr ModelShape kShapes[] = {
    {"tiny", false, 32, 2, 2, 2, 64, 50},
    {"narrow heads", false, 48, 1, 6, 6, 40, 33},
    {"wide heads", false, 64, 2, 1, 1, 72, 20},
};

TEST_P(KernelEncoder, BatchesAgreeWithTheReferenceAndWithEachUnitAlone) {
  constexpr std::uint32_t kUnits = 5;
  std::mt19937 random(21);
  std::uint64_t seed = 900;
  for (const ModelShape& shape : kShapes) {
    for (const std::uint32_t tokens : {1U, 5U, 8U, 13U, 130U}) {
      CpuEncoder encoder(shape, tokens, kUnits, ++seed, GetParam());
      const auto input = RandomTokens(random, std::size_t{kUnits} * tokens, shape.vocab);
      std::vector<float> batch(kUnits * shape.dim, kNan), one(shape.dim, kNan);
      encoder.FillWithNan();
      encoder.Forward(input.data(), kUnits, batch.data());
      for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
        const std::span<const std::int32_t> its(input.data() + std::size_t{unit} * tokens, tokens);
        encoder.FillWithNan();
        encoder.Forward(its.data(), 1, one.data());
        const auto from = batch.begin() + std::ptrdiff_t{unit} * shape.dim;
        ExpectSame(GetParam(), one, std::vector<float>(from, from + shape.dim));
        if (tokens > 100 && unit > 0) continue;  // the reference is slow
        EXPECT_LT(reference::RelativeError(one, reference::EncodeUnit(shape, seed, its)), 1e-4)
            << shape.name << " " << tokens;
      }
    }
  }
}

TEST_P(KernelEncoder, IsCutBeforeAnyLayer) {
  const ModelShape& shape = kShapes[0];
  CpuEncoder encoder(shape, 6, 2, 5, GetParam());
  std::mt19937 random(23);
  const auto input = RandomTokens(random, 12, shape.vocab);
  std::vector<float> untouched(std::size_t{2} * shape.dim, 7), uncut = untouched, pooled = uncut;
  EXPECT_TRUE(encoder.Forward(input.data(), 2, uncut.data()));
  for (int layer = 0; layer < static_cast<int>(shape.layers); ++layer) {
    StopAt stop{layer};
    EXPECT_FALSE(encoder.Forward(input.data(), 2, pooled.data(), stop.check()));
    EXPECT_EQ(stop.asked, layer + 1) << "it went on";
    EXPECT_EQ(pooled, untouched);
  }
  StopAt never{1000};
  EXPECT_TRUE(encoder.Forward(input.data(), 2, pooled.data(), never.check()));
  EXPECT_EQ(pooled, uncut);
  StopAt making{1};
  EXPECT_THROW(CpuEncoder(shape, 6, 2, 5, GetParam(), making.check()), MakingStopped);
}

TEST_P(KernelEncoder, AgreesAtARealShape) {
  const ModelShape& shape = *FindModelShape("encoder-mini");
  CpuEncoder encoder(shape, 6, 2, 5, GetParam());
  std::mt19937 random(22);
  const auto input = RandomTokens(random, 12, shape.vocab);
  std::vector<float> pooled(std::size_t{2} * shape.dim, kNan);
  encoder.FillWithNan();
  encoder.Forward(input.data(), 2, pooled.data());
  const std::span<const std::int32_t> second(input.data() + 6, 6);
  const std::span<const float> got(pooled.data() + shape.dim, shape.dim);
  EXPECT_LT(reference::RelativeError(got, reference::EncodeUnit(shape, 5, second)), 1e-4);
}

TEST(KernelEncoderMisuse, IsRefused) {
  const auto make = [](ModelShape shape, std::uint32_t tokens, std::uint32_t units) {
    CpuEncoder encoder(shape, tokens, units, 1);
  };
  EXPECT_THROW(make(*FindModelShape("llama-15m"), 8, 1), std::invalid_argument);
  EXPECT_THROW(make({"KV heads", false, 32, 1, 4, 2, 64, 50}, 8, 1), std::invalid_argument);
  EXPECT_THROW(make({"width", false, 32, 1, 8, 8, 64, 50}, 8, 1), std::invalid_argument);
  EXPECT_THROW(make(kShapes[0], 0, 1), std::invalid_argument);
  EXPECT_THROW(make(kShapes[0], 8, 0), std::invalid_argument);
  EXPECT_THROW(make(kShapes[0], 1U << 20, 1U << 12), std::invalid_argument);

  CpuEncoder encoder(kShapes[0], 4, 2, 1);
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 50, 1, 1, 1, 1};
  std::vector<float> pooled(std::size_t{3} * kShapes[0].dim);
  EXPECT_THROW(encoder.Forward(tokens.data(), 2, pooled.data()), std::invalid_argument);
  EXPECT_THROW(encoder.Forward(tokens.data(), 3, pooled.data()), std::invalid_argument);
  encoder.Forward(tokens.data(), 0, pooled.data());
  encoder.Forward(tokens.data(), 1, pooled.data());
}

}  // namespace
}  // namespace schedtwin
