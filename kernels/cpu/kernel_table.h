// The elementwise and attention kernels of the CPU, and the inner loop of the plain matrix product,
// as one table of functions for each instruction set that they were compiled for. Kernels() is the
// best that this CPU runs, chosen once; CpuKernelTables() are all that it runs, for tests.
//
// Plain pointers and shapes; float32, rows of `dim` floats one after the other unless a stride says
// otherwise. No kernel allocates, keeps a state, or reads what it was not told of. Widths (dim,
// ffn, head_dim, block_tokens) are multiples of kLaneMultiple. Any number of threads may call.
//
// Keys and values lie in blocks of `block_tokens` tokens, each layer in a pool of its own:
//   keys   [block][kv_head][head_dim][block_tokens]  transposed: scores of neighbours in one vector
//   values [block][kv_head][block_tokens][head_dim]
// A sequence's block table names its blocks in order; the blocks may lie anywhere in the pool.
#ifndef SCHEDTWIN_KERNELS_CPU_KERNEL_TABLE_H_
#define SCHEDTWIN_KERNELS_CPU_KERNEL_TABLE_H_

#include <cstdint>
#include <span>

namespace schedtwin {

inline constexpr std::uint32_t kLaneMultiple = 8;
inline constexpr std::uint32_t kMaxHeadDim = 256;
inline constexpr std::uint32_t kPanelColumns = 16;

struct AttentionShape {
  std::uint32_t heads, kv_heads, head_dim, block_tokens;

  /// Of keys, and as many of values.
  std::uint64_t block_floats() const { return std::uint64_t{kv_heads} * head_dim * block_tokens; }
};

/// The tokens of one sequence in one step: `count` new ones after `context_tokens` that the pool
/// already holds.
struct AttentionChunk {
  const std::uint32_t* blocks;
  std::uint32_t context_tokens, count;
};

struct CpuKernels {
  const char* isa;

  /// out[i] = table[tokens[i]].
  void (*gather)(const float* table, const std::int32_t* tokens, std::uint32_t rows,
                 std::uint32_t dim, float* out);

  /// x += delta (unless null), then out = x / rms(x) * weight for every row.
  void (*rms_norm)(float* x, const float* delta, const float* weight, float epsilon,
                   std::uint32_t rows, std::uint32_t dim, float* out);

  /// x = (x + delta + bias - mean) / deviation * weight + shift for every row; delta and bias may
  /// be null, each by itself.
  void (*layer_norm)(float* x, const float* delta, const float* bias, const float* weight,
                     const float* shift, float epsilon, std::uint32_t rows, std::uint32_t dim);

  /// x[row] += bias.
  void (*add_bias)(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim);

  /// Each row of `qkv` is the queries, keys and values of one token of the chunk, all heads.
  /// Rotates queries (in place) and keys by the row of `rotation` (head_dim floats: cosine and sine
  /// of each neighbouring pair; null: no rotation), and appends keys and values to the sequence's
  /// blocks.
  void (*rope_append)(const AttentionShape& shape, const AttentionChunk& chunk, float* qkv,
                      const float* rotation, float* keys, float* values);

  /// Softmax attention of the chunk's queries over the context and the chunk itself, which must
  /// have been appended. Causal: a token sees those up to itself; otherwise all. Rows of `qkv` as
  /// above; `out` has rows of heads * head_dim.
  void (*attend)(const AttentionShape& shape, const AttentionChunk& chunk, bool causal,
                 const float* qkv, const float* keys, const float* values, float* out);

  /// out = silu(gate) * up, where each row of gate_up is ffn gates and then ffn ups.
  void (*swiglu)(const float* gate_up, std::uint32_t rows, std::uint32_t ffn, float* out);

  /// x = gelu(x + bias) for every row, with the tanh form of GELU.
  void (*gelu)(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim);

  /// Index of the largest; the first of several.
  std::int32_t (*argmax)(const float* x, std::uint32_t count);

  /// x[i] = e^x[i]; count is a multiple of kLaneMultiple. Below -87.3 the result stays that
  /// of -87.3, above 88 that of 88; of NaN it is NaN.
  void (*exp)(float* x, std::uint32_t count);

  /// y[rows][n] = x[rows][k] * weights, weights in panels [ceil(n /
  /// kPanelColumns)][k][kPanelColumns] filled up with zeros; rows is a multiple of 4.
  void (*panel_product)(const float* x, const float* panels, std::uint32_t rows, std::uint32_t n,
                        std::uint32_t k, float* y);
};

const CpuKernels& Kernels();
std::span<const CpuKernels* const> CpuKernelTables();  ///< slowest first

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_KERNEL_TABLE_H_
