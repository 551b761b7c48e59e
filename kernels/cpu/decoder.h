// CpuDecoder: the forward pass of a Llama decoder with random weights on one CPU thread, over a
// paged KV cache. A step is any mix of prefill chunks and decodes: each sequence brings the tokens
// that follow those whose keys and values its blocks already hold; theirs are appended.
//
// Llama: RMSNorm (epsilon 1e-5), rotary positions (base 10000) on neighbouring pairs as in
// llama2.c, grouped-query attention, SwiGLU, a final norm, and an LM head of its own that only the
// last tokens of sequences that sample pass through; the sampled token is the likeliest.
//
// Owns weights and scratch memory, and the cache unless it is given one. One thread at a time.
// Throws std::bad_alloc when memory is lacking and std::invalid_argument for misuse, before
// anything is changed. What a row computes does not depend on what else is in the step, as far as
// the linear backend's rows do not.
#ifndef SCHEDTWIN_KERNELS_CPU_DECODER_H_
#define SCHEDTWIN_KERNELS_CPU_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_arena.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/stop_check.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

struct DecoderSequence {
  const std::int32_t* tokens;    ///< `count` of them, at positions context_tokens and on
  std::uint32_t count;           ///< at least 1
  std::uint32_t context_tokens;  ///< whose keys and values the blocks hold
  const std::uint32_t* blocks;   ///< enough for context_tokens + count
  bool sample;                   ///< whether the last token's successor is wanted
};

struct DecoderOptions {
  std::uint32_t kv_blocks = 0;      ///< of the pool, if it is the decoder's own
  std::uint32_t block_tokens = 16;  ///< a multiple of 8
  /// Of a step, padding included; more grows the scratch memory.
  std::uint32_t reserve_tokens = 2048;
  std::uint64_t seed = 1;  ///< of the weights
  LinearBackendKind backend = DefaultLinearBackend();
  bool keep_logits = false;  ///< all of a step's, for tests; else 64 rows at a time
  KvArena* kv = nullptr;     ///< the cache; outlives the decoder. Null: one of its own
};

/// A decoder's tensors, matrices as [output][input]. The fused ones hold queries, keys, values and
/// gates, ups one after the other.
enum class DecoderTensor : std::uint8_t {
  kEmbedding,      ///< [vocab][dim]
  kAttentionNorm,  ///< [dim]
  kQkv,            ///< [dim + 2 * kv_dim][dim]
  kAttentionOut,   ///< [dim][dim]
  kFfnNorm,        ///< [dim]
  kGateUp,         ///< [2 * ffn][dim]
  kDown,           ///< [dim][ffn]
  kFinalNorm,      ///< [dim]
  kHead,           ///< [vocab][dim]
};

/// The weights that a decoder of this shape and seed has; layer is 0 for the tensors outside
/// layers.
std::vector<float> DecoderWeights(const ModelShape& shape, std::uint64_t seed, DecoderTensor tensor,
                                  std::uint32_t layer);

class CpuDecoder {
 public:
  /// Rows that pass through the LM head at a time.
  static constexpr std::uint32_t kHeadRows = 64;

  /// Making the weights takes as long as many steps. Throws MakingStopped once `stop` says so.
  CpuDecoder(const ModelShape& shape, const DecoderOptions& options, StopCheck stop = {});
  CpuDecoder(const CpuDecoder&) = delete;
  CpuDecoder& operator=(const CpuDecoder&) = delete;

  /// Runs one step. `padding_tokens` more rows pass through the layers (not attention) and are
  /// thrown away. `sampled` gets one token for each sequence that samples, in order. False: `stop`,
  /// asked before each layer and before the LM head, has cut the step; nothing is sampled then, and
  /// the cache past the contexts holds anything.
  bool Forward(std::span<const DecoderSequence> sequences, std::uint32_t padding_tokens,
               std::int32_t* sampled, StopCheck stop = {});

  /// Rows of `vocab` logits of the last step's sampled sequences; needs keep_logits.
  std::span<const float> logits() const;
  std::string backend_name() const { return backend_->name(); }

  /// For tests: cache and scratch memory hold NaN afterwards, so that a read of what no step has
  /// written shows.
  void FillWithNan();

 private:
  struct Layer {
    Buffer attention_norm, ffn_norm;
    std::unique_ptr<Linear> qkv, attention_out, gate_up, down;
  };

  void Check(std::span<const DecoderSequence> sequences) const;
  void Reserve(std::uint32_t rows, std::uint32_t samples);
  void Embed(std::span<const DecoderSequence> sequences, std::uint32_t rows);
  void RunLayer(std::span<const DecoderSequence> sequences, std::uint32_t rows, std::size_t index,
                const float* delta);
  void Sample(std::span<const DecoderSequence> sequences, std::int32_t* sampled);
  void HeadRows(std::uint32_t rows, float* logits, std::int32_t* sampled);

  ModelShape shape_;
  DecoderOptions options_;
  AttentionShape attention_;
  const CpuKernels& kernels_;
  std::unique_ptr<LinearBackend> backend_;
  std::vector<double> frequencies_;  ///< of rotation, radians per position
  Buffer embedding_, final_norm_;
  std::unique_ptr<Linear> head_;
  std::vector<Layer> layers_;
  std::optional<KvArena> own_kv_;
  KvArena* kv_;

  // Scratch: one row for each token of the step.
  std::uint64_t reserved_rows_ = 0;
  Buffer x_;                                  ///< [dim] the residual stream
  Buffer normed_;                             ///< [dim]
  Buffer qkv_;                                ///< [dim + 2 * kv_dim]
  Buffer mixed_;                              ///< [dim] what attention gives
  Buffer delta_;                              ///< [dim] what a half layer adds to the stream
  Buffer gate_up_;                            ///< [2 * ffn]
  Buffer inner_;                              ///< [ffn]
  Buffer rotation_;                           ///< [head_dim]
  Buffer head_x_, head_delta_, head_normed_;  ///< [kHeadRows][dim]
  Buffer logits_;                             ///< [kHeadRows, or all that sample][vocab]
  std::uint64_t logit_rows_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_DECODER_H_
