// Attention over paged blocks: a tile of query rows that share a KV head walks the context in spans
// with a running maximum and sum (online softmax: Milakov and Gimelshein, 2018; FlashAttention, Dao
// et al., 2022), so that no row of scores is ever stored whole.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/micro_kernel.h"

namespace schedtwin::SCHEDTWIN_ISA {
namespace {

constexpr std::uint32_t kSpan = 128;  ///< tokens; a multiple of every group below

struct Problem {
  const AttentionShape& shape;
  const AttentionChunk& chunk;
  bool causal;
  const float* qkv;
  const float* keys;
  const float* values;
  float* out;
};

/// R query rows of one KV head. Row i of the head's rows is query head i % group of token i /
/// group.
template <int R>
struct Tile {
  float q[R * kMaxHeadDim];  ///< scaled by 1 / sqrt(head_dim)
  float o[R * kMaxHeadDim];  ///< values weighed by e^(score - max), not yet divided by sum
  float p[R * kSpan];        ///< scores of the span, then their weights
  float max[R], sum[R];
  std::uint32_t limit[R];  ///< tokens that the row sees
};

std::size_t Offset(const Problem& in, std::uint32_t kv_head, std::uint32_t token) {
  const AttentionShape& shape = in.shape;
  const std::size_t block = in.chunk.blocks[token / shape.block_tokens];
  return (block * shape.kv_heads + kv_head) * shape.head_dim * shape.block_tokens;
}

/// Tokens from `token` on that lie in its block, of those before `end`.
std::uint32_t RunInBlock(const Problem& in, std::uint32_t token, std::uint32_t end) {
  const std::uint32_t left = in.shape.block_tokens - token % in.shape.block_tokens;
  return left < end - token ? left : end - token;
}

/// Scores of the tokens from..end; the columns up to the next multiple of eight are filled with
/// what lies in the block's unused slots, and masked below.
template <int R>
void Score(const Problem& in, std::uint32_t kv_head, std::uint32_t from, std::uint32_t end,
           Tile<R>& tile) {
  __builtin_memset(tile.p, 0, sizeof(tile.p));
  for (std::uint32_t token = from; token < end;) {
    const std::uint32_t run = RunInBlock(in, token, end);
    const float* keys = in.keys + Offset(in, kv_head, token) + token % in.shape.block_tokens;
    AccumulateColumns<R>(tile.q, kMaxHeadDim, keys, in.shape.block_tokens, in.shape.head_dim,
                         tile.p + (token - from), kSpan, (run + 7) / 8 * 8);
    token += run;
  }
}

/// Turns row r's scores into weights against the new maximum; what the row does not see weighs 0.
template <int R>
void Weigh(std::uint32_t from, std::uint32_t end, std::uint32_t head_dim, int r, Tile<R>& tile) {
  float* p = tile.p + r * kSpan;
  const std::uint32_t seen =
      tile.limit[r] <= from ? 0 : (tile.limit[r] < end ? tile.limit[r] : end) - from;
  const std::uint32_t padded = (end - from + 7) / 8 * 8;
  for (std::uint32_t i = seen; i < padded; ++i) p[i] = -__builtin_inff();
  float largest = tile.max[r];
  if (seen > 0) {
    Vec v = Splat(largest);
    for (std::uint32_t i = 0; i < padded; i += kLanes) v = Max(v, Load(p + i));
    largest = Largest(v);
    for (std::uint32_t i = 0; i < padded; i += kLanes) Store(Exp(Load(p + i) - largest), p + i);
  }
  for (std::uint32_t i = seen; i < padded; ++i) p[i] = 0;
  Vec sum = {};
  for (std::uint32_t i = 0; i < padded; i += kLanes) sum += Load(p + i);
  if (largest != tile.max[r]) {
    const Vec scale = Exp(Splat(tile.max[r] - largest));
    tile.sum[r] *= scale[0];
    for (std::uint32_t i = 0; i < head_dim; i += kLanes) {
      float* o = tile.o + r * kMaxHeadDim + i;
      Store(Load(o) * scale, o);
    }
    tile.max[r] = largest;
  }
  tile.sum[r] += Sum(sum);
}

template <int R>
void AddValues(const Problem& in, std::uint32_t kv_head, std::uint32_t from, std::uint32_t end,
               Tile<R>& tile) {
  const std::uint32_t head_dim = in.shape.head_dim;
  for (std::uint32_t token = from; token < end;) {
    const std::uint32_t run = RunInBlock(in, token, end);
    const float* values = in.values + Offset(in, kv_head, token) +
                          std::size_t{token % in.shape.block_tokens} * head_dim;
    AccumulateColumns<R>(tile.p + (token - from), kSpan, values, head_dim, run, tile.o, kMaxHeadDim,
                         head_dim);
    token += run;
  }
}

template <int R>
void AttendTile(const Problem& in, std::uint32_t kv_head, std::uint32_t first_row) {
  const AttentionShape& shape = in.shape;
  const std::uint32_t dim = shape.head_dim, group = shape.heads / shape.kv_heads;
  const std::size_t qkv_stride = std::size_t{shape.heads + 2 * shape.kv_heads} * dim;
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(dim));
  Tile<R> tile;
  std::uint32_t last = 0;
  for (int r = 0; r < R; ++r) {
    const std::uint32_t row = first_row + static_cast<std::uint32_t>(r), token = row / group;
    const float* q = in.qkv + token * qkv_stride + (kv_head * group + row % group) * dim;
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Store(Load(q + i) * scale, tile.q + r * kMaxHeadDim + i);
      Store(Vec{}, tile.o + r * kMaxHeadDim + i);
    }
    tile.limit[r] = in.chunk.context_tokens + (in.causal ? token + 1 : in.chunk.count);
    tile.max[r] = -__builtin_inff();
    tile.sum[r] = 0;
    last = tile.limit[r];  // rows see more and more
  }
  for (std::uint32_t from = 0; from < last; from += kSpan) {
    const std::uint32_t end = last - from < kSpan ? last : from + kSpan;
    Score<R>(in, kv_head, from, end, tile);
    for (int r = 0; r < R; ++r) Weigh<R>(from, end, dim, r, tile);
    AddValues<R>(in, kv_head, from, end, tile);
  }
  for (int r = 0; r < R; ++r) {
    const std::uint32_t row = first_row + static_cast<std::uint32_t>(r), token = row / group;
    float* out = in.out + (std::size_t{token} * shape.heads + kv_head * group + row % group) * dim;
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Store(Load(tile.o + r * kMaxHeadDim + i) / tile.sum[r], out + i);
    }
  }
}

}  // namespace

void Attend(const AttentionShape& shape, const AttentionChunk& chunk, bool causal, const float* qkv,
            const float* keys, const float* values, float* out) {
  const Problem in{shape, chunk, causal, qkv, keys, values, out};
  const std::uint32_t rows = chunk.count * (shape.heads / shape.kv_heads);
  for (std::uint32_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
    std::uint32_t row = 0;
    for (; row + 4 <= rows; row += 4) AttendTile<4>(in, kv_head, row);
    for (; row < rows; ++row) AttendTile<1>(in, kv_head, row);
  }
}

}  // namespace schedtwin::SCHEDTWIN_ISA
