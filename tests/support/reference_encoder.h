// EncodeUnit: a BERT encoder in double precision, one unit at a time, with CpuEncoder's weights.
#ifndef SCHEDTWIN_TESTS_SUPPORT_REFERENCE_ENCODER_H_
#define SCHEDTWIN_TESTS_SUPPORT_REFERENCE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/encoder.h"
#include "kernels/model_shapes.h"
#include "tests/support/reference_math.h"

namespace schedtwin::reference {

// The final hidden state of the unit's first token.
inline Row EncodeUnit(const ModelShape& shape, std::uint64_t seed,
                      std::span<const std::int32_t> tokens) {
  using enum EncoderTensor;
  const auto get = [&](EncoderTensor tensor, std::uint32_t layer = 0) {
    return EncoderWeights(shape, static_cast<std::uint32_t>(tokens.size()), seed, tensor, layer);
  };
  constexpr double kEpsilon = 1e-12;
  const std::size_t dim = shape.dim, width = shape.head_dim();
  const std::vector<float> embedding = get(kEmbedding), positions = get(kPositions);
  std::vector<Row> x;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto from = embedding.begin() + std::ptrdiff_t{tokens[t]} * shape.dim;
    const std::span<const float> position(positions.data() + t * dim, dim);
    x.push_back(LayerNorm(Plus(Row(from, from + shape.dim), position), get(kEmbeddingNorm),
                          get(kEmbeddingNormBias), kEpsilon));
  }
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<Row> queries, keys, values;
    for (const Row& row : x) {
      const Row qkv = Plus(Times(get(kQkv, layer), row), get(kQkvBias, layer));
      queries.emplace_back(qkv.begin(), qkv.begin() + shape.dim);
      keys.emplace_back(qkv.begin() + shape.dim, qkv.begin() + 2 * shape.dim);
      values.emplace_back(qkv.begin() + 2 * shape.dim, qkv.end());
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row mixed;
      for (std::size_t at = 0; at < dim; at += width) {
        const auto from = queries[t].begin() + static_cast<std::ptrdiff_t>(at);
        const Row query(from, from + static_cast<std::ptrdiff_t>(width));
        const Row out = Attend(query, keys, values, at, x.size());
        mixed.insert(mixed.end(), out.begin(), out.end());
      }
      const Row delta =
          Plus(Times(get(kAttentionOut, layer), mixed), get(kAttentionOutBias, layer));
      x[t] = LayerNorm(Plus(x[t], delta), get(kAttentionNorm, layer),
                       get(kAttentionNormBias, layer), kEpsilon);
      Row inner = Plus(Times(get(kInner, layer), x[t]), get(kInnerBias, layer));
      for (double& v : inner) v = Gelu(v);
      const Row outer = Plus(Times(get(kOuter, layer), inner), get(kOuterBias, layer));
      x[t] = LayerNorm(Plus(x[t], outer), get(kOutputNorm, layer), get(kOutputNormBias, layer),
                       kEpsilon);
    }
  }
  return x.front();
}

}  // namespace schedtwin::reference

#endif  // SCHEDTWIN_TESTS_SUPPORT_REFERENCE_ENCODER_H_
