#include "kernels/cpu/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/cpu/model_parts.h"
#include "kernels/cpu/random_weights.h"

namespace schedtwin {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr double kRopeBase = 10000;

void CheckShape(const ModelShape& shape, const DecoderOptions& options) {
  Require(shape.decoder, "the model is no decoder");
  RequireCommonShape(shape);
  Require(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "KV heads must divide heads");
  Require(options.kv != nullptr || options.kv_blocks > 0, "the KV pool needs blocks");
  Require(options.block_tokens > 0 && options.block_tokens % kLaneMultiple == 0,
          "a KV block's tokens must be a multiple of 8");
}

}  // namespace

std::vector<float> DecoderWeights(const ModelShape& shape, std::uint64_t seed, DecoderTensor tensor,
                                  std::uint32_t layer) {
  const std::uint64_t dim = shape.dim;
  std::uint64_t outputs = 1, inputs = dim;
  switch (tensor) {
    case DecoderTensor::kEmbedding:
    case DecoderTensor::kHead:
      outputs = shape.vocab;
      break;
    case DecoderTensor::kQkv:
      outputs = dim + std::uint64_t{2} * shape.kv_dim();
      break;
    case DecoderTensor::kAttentionOut:
      outputs = dim;
      break;
    case DecoderTensor::kGateUp:
      outputs = std::uint64_t{2} * shape.ffn;
      break;
    case DecoderTensor::kDown:
      outputs = dim, inputs = shape.ffn;
      break;
    case DecoderTensor::kAttentionNorm:
    case DecoderTensor::kFfnNorm:
    case DecoderTensor::kFinalNorm:
      break;
  }
  // Scaled so that what comes out is about as large as what goes in; norms around one.
  float mean = 0, deviation = 1 / std::sqrt(static_cast<float>(inputs));
  if (tensor == DecoderTensor::kEmbedding) deviation = 1;
  if (outputs == 1) mean = 1, deviation = 0.1F;
  std::vector<float> weights(outputs * inputs);
  FillNormal(seed, std::uint64_t{layer} * 16 + static_cast<std::uint64_t>(tensor), mean, deviation,
             weights);
  return weights;
}

CpuDecoder::CpuDecoder(const ModelShape& shape, const DecoderOptions& options, StopCheck stop)
    : shape_(shape), options_(options), kernels_(Kernels()), kv_(options.kv) {
  CheckShape(shape, options);
  if (kv_ == nullptr) kv_ = &own_kv_.emplace(shape, options.block_tokens, options.kv_blocks);
  attention_ = {shape.heads, shape.kv_heads, shape.head_dim(), options.block_tokens};
  backend_ = MakeLinearBackend(options.backend);
  const auto weights = [&](DecoderTensor tensor, std::uint32_t layer) {
    return DecoderWeights(shape_, options_.seed, tensor, layer);
  };
  const std::uint32_t prepared = std::max<std::uint32_t>(options.reserve_tokens, 1);
  const auto linear = [&](DecoderTensor tensor, std::uint32_t layer, std::uint32_t n,
                          std::uint32_t k) {
    auto packed = backend_->Pack(n, k, weights(tensor, layer).data());
    packed->Prepare(tensor == DecoderTensor::kHead ? std::min(prepared, kHeadRows) : prepared);
    return packed;
  };
  using enum DecoderTensor;
  const std::uint32_t dim = shape.dim, qkv = dim + 2 * shape.kv_dim(), ffn = shape.ffn;
  layers_.resize(shape.layers);
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    if (stop()) throw MakingStopped();
    layers_[i] = {.attention_norm = Filled(weights(kAttentionNorm, i)),
                  .ffn_norm = Filled(weights(kFfnNorm, i)),
                  .qkv = linear(kQkv, i, qkv, dim),
                  .attention_out = linear(kAttentionOut, i, dim, dim),
                  .gate_up = linear(kGateUp, i, 2 * ffn, dim),
                  .down = linear(kDown, i, dim, ffn)};
  }
  if (stop()) throw MakingStopped();
  embedding_ = Filled(weights(kEmbedding, 0));
  final_norm_ = Filled(weights(kFinalNorm, 0));
  head_ = linear(kHead, 0, shape.vocab, dim);
  for (std::uint32_t i = 0; i < attention_.head_dim; i += 2) {
    frequencies_.push_back(std::pow(kRopeBase, -static_cast<double>(i) / attention_.head_dim));
  }
  Reserve(options.reserve_tokens, 1);
}

void CpuDecoder::Check(std::span<const DecoderSequence> sequences) const {
  for (const DecoderSequence& sequence : sequences) {
    Require(sequence.count > 0, "a sequence brings at least one token");
    for (std::uint32_t i = 0; i < sequence.count; ++i) {
      Require(
          sequence.tokens[i] >= 0 && static_cast<std::uint32_t>(sequence.tokens[i]) < shape_.vocab,
          "a token lies outside the vocabulary");
    }
    const std::uint64_t end = std::uint64_t{sequence.context_tokens} + sequence.count;
    for (std::uint64_t i = 0; i * options_.block_tokens < end; ++i) {
      Require(sequence.blocks[i] < kv_->blocks(), "a block lies outside the KV pool");
    }
  }
}

void CpuDecoder::Reserve(std::uint32_t rows, std::uint32_t samples) {
  const std::uint64_t padded = PaddedRows(rows);
  if (padded > reserved_rows_) {
    reserved_rows_ = 0;  // until all have grown
    for (Buffer* buffer : {&x_, &normed_, &mixed_, &delta_}) buffer->Grow(padded * shape_.dim);
    qkv_.Grow(padded * (shape_.dim + std::uint64_t{2} * shape_.kv_dim()));
    gate_up_.Grow(padded * 2 * shape_.ffn);
    inner_.Grow(padded * shape_.ffn);
    rotation_.Grow(padded * attention_.head_dim);
    reserved_rows_ = padded;
  }
  for (Buffer* buffer : {&head_x_, &head_delta_, &head_normed_}) {
    buffer->Grow(std::uint64_t{kHeadRows} * shape_.dim);
  }
  const std::uint64_t kept = options_.keep_logits ? PaddedRows(samples) : kHeadRows;
  logits_.Grow(std::max<std::uint64_t>(kept, kHeadRows) * shape_.vocab);
}

void CpuDecoder::Embed(std::span<const DecoderSequence> sequences, std::uint32_t rows) {
  const std::size_t dim = shape_.dim;
  std::size_t row = 0;
  for (const DecoderSequence& sequence : sequences) {
    kernels_.gather(embedding_.data(), sequence.tokens, sequence.count, shape_.dim,
                    x_.data() + row * dim);
    float* rotation = rotation_.data() + row * attention_.head_dim;
    for (std::uint32_t i = 0; i < sequence.count; ++i) {
      const double position = static_cast<double>(sequence.context_tokens) + i;
      for (const double frequency : frequencies_) {
        const float angle = static_cast<float>(std::remainder(position * frequency, 2 * M_PI));
        *rotation++ = std::cos(angle);
        *rotation++ = std::sin(angle);
      }
    }
    row += sequence.count;
  }
  for (const std::int32_t token = 0; row < rows; ++row) {  // the padding: any token, no attention
    kernels_.gather(embedding_.data(), &token, 1, shape_.dim, x_.data() + row * dim);
    std::fill_n(mixed_.data() + row * dim, dim, 0.0F);
  }
}

/// `delta`: what the layer before has still to add to the stream, or null.
void CpuDecoder::RunLayer(std::span<const DecoderSequence> sequences, std::uint32_t rows,
                          std::size_t index, const float* delta) {
  Layer& layer = layers_[index];
  float* keys = kv_->keys(index);
  float* values = kv_->values(index);
  kernels_.rms_norm(x_.data(), delta, layer.attention_norm.data(), kEpsilon, rows, shape_.dim,
                    normed_.data());
  layer.qkv->Run(normed_.data(), rows, qkv_.data());
  const std::size_t width = shape_.dim + std::size_t{2} * shape_.kv_dim();
  std::size_t row = 0;
  for (const DecoderSequence& sequence : sequences) {
    const AttentionChunk chunk{sequence.blocks, sequence.context_tokens, sequence.count};
    float* qkv = qkv_.data() + row * width;
    kernels_.rope_append(attention_, chunk, qkv, rotation_.data() + row * attention_.head_dim, keys,
                         values);
    kernels_.attend(attention_, chunk, true, qkv, keys, values, mixed_.data() + row * shape_.dim);
    row += sequence.count;
  }
  layer.attention_out->Run(mixed_.data(), rows, delta_.data());
  kernels_.rms_norm(x_.data(), delta_.data(), layer.ffn_norm.data(), kEpsilon, rows, shape_.dim,
                    normed_.data());
  layer.gate_up->Run(normed_.data(), rows, gate_up_.data());
  kernels_.swiglu(gate_up_.data(), rows, shape_.ffn, inner_.data());
  layer.down->Run(inner_.data(), rows, delta_.data());
}

void CpuDecoder::HeadRows(std::uint32_t rows, float* logits, std::int32_t* sampled) {
  kernels_.rms_norm(head_x_.data(), head_delta_.data(), final_norm_.data(), kEpsilon, rows,
                    shape_.dim, head_normed_.data());
  head_->Run(head_normed_.data(), rows, logits);
  for (std::uint32_t i = 0; i < rows; ++i) {
    sampled[i] = kernels_.argmax(logits + std::size_t{i} * shape_.vocab, shape_.vocab);
  }
}

void CpuDecoder::Sample(std::span<const DecoderSequence> sequences, std::int32_t* sampled) {
  const std::size_t dim = shape_.dim;
  std::size_t end = 0;
  std::uint32_t gathered = 0;
  logit_rows_ = 0;
  const auto flush = [&] {
    const std::uint64_t at = options_.keep_logits ? logit_rows_ * shape_.vocab : 0;
    HeadRows(gathered, logits_.data() + at, sampled + logit_rows_);
    logit_rows_ += gathered;
    gathered = 0;
  };
  for (const DecoderSequence& sequence : sequences) {
    end += sequence.count;
    if (!sequence.sample) continue;
    std::copy_n(x_.data() + (end - 1) * dim, dim, head_x_.data() + gathered * dim);
    std::copy_n(delta_.data() + (end - 1) * dim, dim, head_delta_.data() + gathered * dim);
    if (++gathered == kHeadRows) flush();
  }
  if (gathered > 0) flush();
}

bool CpuDecoder::Forward(std::span<const DecoderSequence> sequences, std::uint32_t padding_tokens,
                         std::int32_t* sampled, StopCheck stop) {
  Check(sequences);
  std::uint64_t rows = padding_tokens;
  std::uint32_t samples = 0;
  for (const DecoderSequence& sequence : sequences) {
    rows += sequence.count;
    samples += sequence.sample ? 1 : 0;
  }
  Require(rows <= std::numeric_limits<std::uint32_t>::max() - kRowTile, "the step is too long");
  const auto count = static_cast<std::uint32_t>(rows);
  Reserve(count, samples);
  Embed(sequences, count);
  const float* delta = nullptr;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (stop()) return false;
    RunLayer(sequences, count, i, delta);
    delta = delta_.data();
  }
  if (stop()) return false;
  Sample(sequences, sampled);
  return true;
}

std::span<const float> CpuDecoder::logits() const {
  Require(options_.keep_logits, "logits are kept only with keep_logits");
  return {logits_.data(), logit_rows_ * shape_.vocab};
}

void CpuDecoder::FillWithNan() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  kv_->FillWithNan();
  for (const Buffer* buffer : {&x_, &normed_, &qkv_, &mixed_, &delta_, &gate_up_, &inner_,
                               &rotation_, &head_x_, &head_delta_, &head_normed_, &logits_}) {
    std::fill(buffer->span().begin(), buffer->span().end(), kNan);
  }
}

}  // namespace schedtwin
