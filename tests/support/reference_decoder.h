// ReferenceDecoder: a Llama decoder in double precision, without cache, blocks or batches: every
// call computes a whole sequence from its first token. It has CpuDecoder's weights and nothing else
// of it.
#ifndef SCHEDTWIN_TESTS_SUPPORT_REFERENCE_DECODER_H_
#define SCHEDTWIN_TESTS_SUPPORT_REFERENCE_DECODER_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cpu/decoder.h"
#include "kernels/model_shapes.h"
#include "tests/support/reference_math.h"

namespace schedtwin::reference {

class ReferenceDecoder {
 public:
  ReferenceDecoder(const ModelShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {
    for (std::uint32_t i = 0; i < shape.layers; ++i) {
      using enum DecoderTensor;
      layers_.push_back({Get(kAttentionNorm, i), Get(kQkv, i), Get(kAttentionOut, i),
                         Get(kFfnNorm, i), Get(kGateUp, i), Get(kDown, i)});
    }
    embedding_ = Get(DecoderTensor::kEmbedding, 0);
    final_norm_ = Get(DecoderTensor::kFinalNorm, 0);
    head_ = Get(DecoderTensor::kHead, 0);
  }

  // The logits that follow token `position` of the sequence.
  Row Logits(std::span<const std::int32_t> tokens, std::size_t position) const {
    return Times(head_, RmsNorm(Hidden(tokens.first(position + 1)).back(), final_norm_, 1e-5));
  }
  // The logits that follow each token.
  std::vector<Row> AllLogits(std::span<const std::int32_t> tokens) const {
    std::vector<Row> logits;
    for (const Row& row : Hidden(tokens)) {
      logits.push_back(Times(head_, RmsNorm(row, final_norm_, 1e-5)));
    }
    return logits;
  }

 private:
  struct Layer {
    std::vector<float> attention_norm, qkv, attention_out, ffn_norm, gate_up, down;
  };

  std::vector<float> Get(DecoderTensor tensor, std::uint32_t layer) const {
    return DecoderWeights(shape_, seed_, tensor, layer);
  }

  std::vector<Row> Hidden(std::span<const std::int32_t> tokens) const {
    std::vector<Row> x;
    for (const std::int32_t token : tokens) {
      const auto from = embedding_.begin() + std::ptrdiff_t{token} * shape_.dim;
      x.emplace_back(from, from + shape_.dim);
    }
    for (const Layer& layer : layers_) {
      AddAttention(layer, x);
      for (Row& row : x) row = Plus(row, FeedForward(layer, row));
    }
    return x;
  }

  void Rotate(Row& row, std::size_t from, std::size_t position) const {
    const std::size_t width = shape_.head_dim();
    for (std::size_t i = 0; i < width; i += 2) {
      const double angle = static_cast<double>(position) /
                           std::pow(10000.0, static_cast<double>(i) / static_cast<double>(width));
      const double a = row[from + i], b = row[from + i + 1];
      row[from + i] = a * std::cos(angle) - b * std::sin(angle);
      row[from + i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  }

  void AddAttention(const Layer& layer, std::vector<Row>& x) const {
    const std::size_t dim = shape_.dim, width = shape_.head_dim(), kv_dim = shape_.kv_dim();
    const std::size_t group = shape_.heads / shape_.kv_heads;
    std::vector<Row> keys, values;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row qkv = Times(layer.qkv, RmsNorm(x[t], layer.attention_norm, 1e-5));
      for (std::size_t at = 0; at < dim + kv_dim; at += width) Rotate(qkv, at, t);
      const auto begin = qkv.begin();
      keys.emplace_back(begin + dim, begin + dim + kv_dim);
      values.emplace_back(begin + dim + kv_dim, begin + dim + 2 * kv_dim);
      Row mixed;
      for (std::size_t head = 0; head < shape_.heads; ++head) {
        const Row query(begin + head * width, begin + (head + 1) * width);
        const Row out = Attend(query, keys, values, head / group * width, t + 1);
        mixed.insert(mixed.end(), out.begin(), out.end());
      }
      x[t] = Plus(x[t], Times(layer.attention_out, mixed));
    }
  }

  Row FeedForward(const Layer& layer, const Row& x) const {
    const Row gate_up = Times(layer.gate_up, RmsNorm(x, layer.ffn_norm, 1e-5));
    Row inner(shape_.ffn);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      inner[i] = Silu(gate_up[i]) * gate_up[shape_.ffn + i];
    }
    return Times(layer.down, inner);
  }

  ModelShape shape_;
  std::uint64_t seed_;
  std::vector<Layer> layers_;
  std::vector<float> embedding_, final_norm_, head_;
};

}  // namespace schedtwin::reference

#endif  // SCHEDTWIN_TESTS_SUPPORT_REFERENCE_DECODER_H_
