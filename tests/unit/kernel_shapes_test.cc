// The shapes that ship, and the random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "kernels/cpu/decoder.h"
#include "kernels/cpu/random_weights.h"
#include "kernels/model_shapes.h"

namespace schedtwin {
namespace {

TEST(KernelShapes, AreFoundByName) {
  std::set<std::string_view> names;
  for (const ModelShape& shape : ModelShapes()) {
    EXPECT_EQ(FindModelShape(shape.name), &shape);
    EXPECT_EQ(shape.dim % shape.heads, 0U) << shape.name;
    EXPECT_EQ(shape.heads % shape.kv_heads, 0U) << shape.name;
    EXPECT_TRUE(shape.decoder || shape.kv_heads == shape.heads) << shape.name;
    EXPECT_EQ(shape.head_dim() % kLaneMultiple, 0U) << shape.name;
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
  }
  EXPECT_EQ(FindModelShape("llama"), nullptr);
  EXPECT_EQ(FindModelShape(""), nullptr);
  ASSERT_NE(FindModelShape("llama-1b"), nullptr);
  EXPECT_EQ(FindModelShape("llama-1b")->kv_dim(), 256U);
}

TEST(KernelWeights, AreNearlyNormalAndKnownAgain) {
  std::vector<float> values(100'000), again(1000), other(1000);
  FillNormal(3, 5, 1, 2, values);
  FillNormal(3, 5, 1, 2, again);
  EXPECT_THAT(again, testing::ElementsAreArray(values.data(), again.size()));
  double sum = 0, squares = 0, product = 0;
  for (const float v : values) sum += v, squares += (v - 1.0) * (v - 1.0);
  EXPECT_NEAR(sum / 1e5, 1, 0.03);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 2, 0.03);
  for (const std::uint64_t tensor : {std::uint64_t{4}, std::uint64_t{6}}) {
    FillNormal(3, tensor, 0, 1, other);
    for (std::size_t i = 0; i < other.size(); ++i) product += other[i] * (values[i] - 1) / 2;
    EXPECT_LT(std::abs(product / 1000), 0.2);
  }
  FillNormal(4, 5, 1, 2, other);
  EXPECT_NE(other, again);
}

TEST(KernelWeights, OfLayersAndSeedsDiffer) {
  const ModelShape shape{"tiny", true, 32, 2, 4, 2, 48, 40};
  using enum DecoderTensor;
  EXPECT_EQ(DecoderWeights(shape, 1, kQkv, 0).size(), 64U * 32);
  EXPECT_EQ(DecoderWeights(shape, 1, kDown, 0).size(), 32U * 48);
  EXPECT_NE(DecoderWeights(shape, 1, kQkv, 0), DecoderWeights(shape, 1, kQkv, 1));
  EXPECT_NE(DecoderWeights(shape, 1, kQkv, 0), DecoderWeights(shape, 2, kQkv, 0));
  EXPECT_NE(DecoderWeights(shape, 1, kEmbedding, 0), DecoderWeights(shape, 1, kHead, 0));
}

}  // namespace
}  // namespace schedtwin
