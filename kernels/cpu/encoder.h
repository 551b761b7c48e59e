// CpuEncoder: the forward pass of a BERT encoder with random weights on one CPU thread. A step is a
// batch of units, each of the same number of tokens; all tokens of a unit see one another, and
// units do not see each other. The result of a unit is its first token's final hidden state.
//
// BERT: learned positions, layer norms after each sum (epsilon 1e-12), GELU (tanh form), biases.
// All tokens are of one segment, whose embedding is part of the positions'.
//
// Owns weights and scratch memory. One thread at a time. Throws std::bad_alloc when memory is
// lacking and std::invalid_argument for misuse, before anything is changed. Forward allocates
// nothing.
#ifndef SCHEDTWIN_KERNELS_CPU_ENCODER_H_
#define SCHEDTWIN_KERNELS_CPU_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/stop_check.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

/// An encoder's tensors, matrices as [output][input]; queries, keys and values are fused. Each has
/// a weight and a bias, except the two embeddings.
enum class EncoderTensor : std::uint8_t {
  kEmbedding,          ///< [vocab][dim]
  kPositions,          ///< [sequence_tokens][dim]
  kEmbeddingNorm,      ///< [dim]
  kEmbeddingNormBias,  ///< [dim]
  kQkv,                ///< [3 * dim][dim]
  kQkvBias,            ///< [3 * dim]
  kAttentionOut,       ///< [dim][dim]
  kAttentionOutBias,   ///< [dim]
  kAttentionNorm,      ///< [dim]
  kAttentionNormBias,  ///< [dim]
  kInner,              ///< [ffn][dim]
  kInnerBias,          ///< [ffn]
  kOuter,              ///< [dim][ffn]
  kOuterBias,          ///< [dim]
  kOutputNorm,         ///< [dim]
  kOutputNormBias,     ///< [dim]
};

/// The weights that an encoder of this shape and seed has; layer is 0 for the tensors outside
/// layers.
std::vector<float> EncoderWeights(const ModelShape& shape, std::uint32_t sequence_tokens,
                                  std::uint64_t seed, EncoderTensor tensor, std::uint32_t layer);

class CpuEncoder {
 public:
  /// Throws MakingStopped once `stop` says so.
  CpuEncoder(const ModelShape& shape, std::uint32_t sequence_tokens, std::uint32_t max_units,
             std::uint64_t seed, LinearBackendKind backend = DefaultLinearBackend(),
             StopCheck stop = {});

  /// tokens: [units][sequence_tokens]; pooled: [units][dim]; units: at most max_units. False:
  /// `stop`, asked before each layer, has cut the step; `pooled` is untouched.
  bool Forward(const std::int32_t* tokens, std::uint32_t units, float* pooled, StopCheck stop = {});

  std::string backend_name() const { return backend_->name(); }
  /// For tests: scratch memory holds NaN afterwards.
  void FillWithNan();

 private:
  struct Layer {
    std::unique_ptr<Linear> qkv, attention_out, inner, outer;
    Buffer qkv_bias, attention_out_bias, attention_norm, attention_norm_bias;
    Buffer inner_bias, outer_bias, output_norm, output_norm_bias;
  };

  Layer MakeLayer(std::uint32_t index, std::uint32_t rows);
  void RunLayer(std::uint32_t units, const Layer& layer);

  ModelShape shape_;
  std::uint32_t sequence_tokens_, max_units_;
  std::uint64_t seed_;
  AttentionShape attention_;  ///< each unit's keys and values are one block
  const CpuKernels& kernels_;
  std::unique_ptr<LinearBackend> backend_;
  Buffer embedding_, positions_, embedding_norm_, embedding_norm_bias_;
  std::vector<Layer> layers_;
  std::vector<std::uint32_t> blocks_;

  // Scratch: one row for each token of the step.
  Buffer x_;      ///< [dim] the stream
  Buffer qkv_;    ///< [3 * dim]
  Buffer mixed_;  ///< [dim] what attention gives
  Buffer delta_;  ///< [dim] what a half layer adds to the stream
  Buffer inner_;  ///< [ffn]
  Buffer keys_, values_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_ENCODER_H_
