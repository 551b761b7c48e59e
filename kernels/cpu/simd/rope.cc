// Rotary position embedding (Su et al., 2021) of neighbouring pairs, as in Meta's own Llama code
// and llama2.c, fused with the append of keys and values to the paged cache.
#include "kernels/cpu/simd/kernels.h"

namespace schedtwin::SCHEDTWIN_ISA {
namespace {

void Rotate(float* head, const float* rotation, std::uint32_t head_dim) {
  for (std::uint32_t i = 0; i < head_dim; i += 2) {
    const float c = rotation[i], s = rotation[i + 1], x = head[i], y = head[i + 1];
    head[i] = x * c - y * s;
    head[i + 1] = x * s + y * c;
  }
}

}  // namespace

void RopeAppend(const AttentionShape& shape, const AttentionChunk& chunk, float* qkv,
                const float* rotation, float* keys, float* values) {
  const std::uint32_t dim = shape.head_dim;
  const std::uint32_t heads = shape.heads + 2 * shape.kv_heads;
  for (std::uint32_t token = 0; token < chunk.count; ++token) {
    float* row = qkv + std::size_t{token} * heads * dim;
    if (rotation != nullptr) {
      for (std::uint32_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        Rotate(row + head * dim, rotation + std::size_t{token} * dim, dim);
      }
    }
    const std::uint32_t position = chunk.context_tokens + token;
    const std::size_t block = chunk.blocks[position / shape.block_tokens];
    const std::uint32_t slot = position % shape.block_tokens;
    const float* k = row + shape.heads * dim;
    const float* v = k + shape.kv_heads * dim;
    for (std::uint32_t head = 0; head < shape.kv_heads; ++head, k += dim, v += dim) {
      const std::size_t at = (block * shape.kv_heads + head) * dim * shape.block_tokens;
      float* key = keys + at + slot;
      for (std::uint32_t i = 0; i < dim; ++i) key[i * shape.block_tokens] = k[i];
      __builtin_memcpy(values + at + slot * dim, v, dim * sizeof(float));
    }
  }
}

}  // namespace schedtwin::SCHEDTWIN_ISA
