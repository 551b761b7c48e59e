#include "kernels/cpu/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/cpu/model_parts.h"
#include "kernels/cpu/random_weights.h"

namespace schedtwin {
namespace {

constexpr float kEpsilon = 1e-12F;

void CheckShape(const ModelShape& shape, std::uint32_t sequence_tokens, std::uint32_t max_units) {
  Require(!shape.decoder, "the model is no encoder");
  RequireCommonShape(shape);
  Require(shape.kv_heads == shape.heads, "an encoder has as many KV heads as heads");
  Require(sequence_tokens > 0 && max_units > 0, "units and their tokens must be at least 1");
  Require(std::uint64_t{sequence_tokens} * max_units <
              std::numeric_limits<std::uint32_t>::max() - kMaxRows,
          "the largest step is too long");
}

}  // namespace

std::vector<float> EncoderWeights(const ModelShape& shape, std::uint32_t sequence_tokens,
                                  std::uint64_t seed, EncoderTensor tensor, std::uint32_t layer) {
  using enum EncoderTensor;
  const std::uint64_t dim = shape.dim, ffn = shape.ffn;
  std::uint64_t outputs = 1, inputs = dim;  // of a bias: its own length
  float mean = 0, deviation = 0.1F;
  switch (tensor) {
    case kEmbedding:
      outputs = shape.vocab, deviation = 1;
      break;
    case kPositions:
      outputs = sequence_tokens, deviation = 1;
      break;
    case kQkv:
      outputs = 3 * dim;
      break;
    case kAttentionOut:
      outputs = dim;
      break;
    case kInner:
      outputs = ffn;
      break;
    case kOuter:
      outputs = dim, inputs = ffn;
      break;
    case kQkvBias:
      inputs = 3 * dim;
      break;
    case kInnerBias:
      inputs = ffn;
      break;
    case kEmbeddingNorm:
    case kAttentionNorm:
    case kOutputNorm:
      mean = 1;
      break;
    default:
      break;  // biases of dim
  }
  // Matrices are scaled so that what comes out is about as large as what goes in.
  if (outputs > 1 && deviation < 1) deviation = 1 / std::sqrt(static_cast<float>(inputs));
  std::vector<float> weights(outputs * inputs);
  FillNormal(seed, std::uint64_t{layer} * 16 + static_cast<std::uint64_t>(tensor), mean, deviation,
             weights);
  return weights;
}

CpuEncoder::CpuEncoder(const ModelShape& shape, std::uint32_t sequence_tokens,
                       std::uint32_t max_units, std::uint64_t seed, LinearBackendKind backend,
                       StopCheck stop)
    : shape_(shape),
      sequence_tokens_(sequence_tokens),
      max_units_(max_units),
      seed_(seed),
      kernels_(Kernels()) {
  CheckShape(shape, sequence_tokens, max_units);
  const std::uint32_t block = (sequence_tokens + kLaneMultiple - 1) / kLaneMultiple * kLaneMultiple;
  attention_ = {shape.heads, shape.heads, shape.head_dim(), block};
  backend_ = MakeLinearBackend(backend);
  const std::uint32_t rows = PaddedRows(sequence_tokens * max_units);
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    if (stop()) throw MakingStopped();
    layers_.push_back(MakeLayer(i, rows));
  }
  using enum EncoderTensor;
  const auto filled = [&](EncoderTensor tensor) {
    return Filled(EncoderWeights(shape_, sequence_tokens_, seed_, tensor, 0));
  };
  embedding_ = filled(kEmbedding);
  positions_ = filled(kPositions);
  embedding_norm_ = filled(kEmbeddingNorm);
  embedding_norm_bias_ = filled(kEmbeddingNormBias);
  const std::uint64_t dim = shape.dim;
  x_ = Buffer(rows * dim);
  qkv_ = Buffer(rows * 3 * dim);
  mixed_ = Buffer(rows * dim);
  delta_ = Buffer(rows * dim);
  inner_ = Buffer(std::uint64_t{rows} * shape.ffn);
  keys_ = Buffer(max_units * attention_.block_floats());
  values_ = Buffer(max_units * attention_.block_floats());
  for (std::uint32_t unit = 0; unit < max_units; ++unit) blocks_.push_back(unit);
}

CpuEncoder::Layer CpuEncoder::MakeLayer(std::uint32_t index, std::uint32_t rows) {
  using enum EncoderTensor;
  const auto filled = [&](EncoderTensor tensor) {
    return Filled(EncoderWeights(shape_, sequence_tokens_, seed_, tensor, index));
  };
  const auto linear = [&](EncoderTensor tensor, std::uint32_t n, std::uint32_t k) {
    auto packed =
        backend_->Pack(n, k, EncoderWeights(shape_, sequence_tokens_, seed_, tensor, index).data());
    packed->Prepare(rows);
    return packed;
  };
  const std::uint32_t dim = shape_.dim, ffn = shape_.ffn;
  return {.qkv = linear(kQkv, 3 * dim, dim),
          .attention_out = linear(kAttentionOut, dim, dim),
          .inner = linear(kInner, ffn, dim),
          .outer = linear(kOuter, dim, ffn),
          .qkv_bias = filled(kQkvBias),
          .attention_out_bias = filled(kAttentionOutBias),
          .attention_norm = filled(kAttentionNorm),
          .attention_norm_bias = filled(kAttentionNormBias),
          .inner_bias = filled(kInnerBias),
          .outer_bias = filled(kOuterBias),
          .output_norm = filled(kOutputNorm),
          .output_norm_bias = filled(kOutputNormBias)};
}

void CpuEncoder::RunLayer(std::uint32_t units, const Layer& layer) {
  const std::uint32_t dim = shape_.dim, rows = units * sequence_tokens_;
  layer.qkv->Run(x_.data(), rows, qkv_.data());
  kernels_.add_bias(qkv_.data(), layer.qkv_bias.data(), rows, 3 * dim);
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    const AttentionChunk chunk{&blocks_[unit], 0, sequence_tokens_};
    const std::size_t row = std::size_t{unit} * sequence_tokens_;
    float* qkv = qkv_.data() + row * 3 * dim;
    kernels_.rope_append(attention_, chunk, qkv, nullptr, keys_.data(), values_.data());
    kernels_.attend(attention_, chunk, false, qkv, keys_.data(), values_.data(),
                    mixed_.data() + row * dim);
  }
  layer.attention_out->Run(mixed_.data(), rows, delta_.data());
  kernels_.layer_norm(x_.data(), delta_.data(), layer.attention_out_bias.data(),
                      layer.attention_norm.data(), layer.attention_norm_bias.data(), kEpsilon, rows,
                      dim);
  layer.inner->Run(x_.data(), rows, inner_.data());
  kernels_.gelu(inner_.data(), layer.inner_bias.data(), rows, shape_.ffn);
  layer.outer->Run(inner_.data(), rows, delta_.data());
  kernels_.layer_norm(x_.data(), delta_.data(), layer.outer_bias.data(), layer.output_norm.data(),
                      layer.output_norm_bias.data(), kEpsilon, rows, dim);
}

bool CpuEncoder::Forward(const std::int32_t* tokens, std::uint32_t units, float* pooled,
                         StopCheck stop) {
  Require(units <= max_units_, "more units than the encoder was made for");
  const std::uint32_t rows = units * sequence_tokens_, dim = shape_.dim;
  for (std::uint32_t i = 0; i < rows; ++i) {
    Require(tokens[i] >= 0 && static_cast<std::uint32_t>(tokens[i]) < shape_.vocab,
            "a token lies outside the vocabulary");
  }
  kernels_.gather(embedding_.data(), tokens, rows, dim, x_.data());
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    kernels_.layer_norm(x_.data() + std::size_t{unit} * sequence_tokens_ * dim, positions_.data(),
                        nullptr, embedding_norm_.data(), embedding_norm_bias_.data(), kEpsilon,
                        sequence_tokens_, dim);
  }
  for (const Layer& layer : layers_) {
    if (stop()) return false;
    RunLayer(units, layer);
  }
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    std::copy_n(x_.data() + std::size_t{unit} * sequence_tokens_ * dim, dim,
                pooled + std::size_t{unit} * dim);
  }
  return true;
}

void CpuEncoder::FillWithNan() {
  for (const Buffer* buffer : {&x_, &qkv_, &mixed_, &delta_, &inner_, &keys_, &values_}) {
    std::fill(buffer->span().begin(), buffer->span().end(),
              std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace schedtwin
