#include "kernels/cpu/kv_arena.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/model_parts.h"

namespace schedtwin {

KvArena::KvArena(const ModelShape& shape, std::uint32_t block_tokens, std::uint32_t blocks)
    : block_floats_(Product(shape.kv_dim(), block_tokens)), blocks_(blocks) {
  const std::uint64_t pool = Product(blocks, block_floats_);
  for (std::uint32_t i = 0; i < shape.layers; ++i) layers_.push_back({Buffer(pool), Buffer(pool)});
}

void KvArena::CopyBlock(const KvArena& from, std::uint32_t from_block, std::uint32_t to_block) {
  Require(from.block_floats_ == block_floats_ && from.layers_.size() == layers_.size(),
          "KV is copied between arenas of one model");
  Require(from_block < from.blocks_ && to_block < blocks_, "a block lies outside the KV pool");
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::copy_n(from.keys(i) + from_block * block_floats_, block_floats_,
                keys(i) + to_block * block_floats_);
    std::copy_n(from.values(i) + from_block * block_floats_, block_floats_,
                values(i) + to_block * block_floats_);
  }
}

void KvArena::FillWithNan() {
  for (const Layer& layer : layers_) {
    for (const Buffer* buffer : {&layer.keys, &layer.values}) {
      std::fill(buffer->span().begin(), buffer->span().end(),
                std::numeric_limits<float>::quiet_NaN());
    }
  }
}

}  // namespace schedtwin
