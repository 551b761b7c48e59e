// KvArena: the memory in which one decoder's keys and values lie, in blocks, with a pool for each
// layer (kernel_table.h has the layout). It outlives the weights that filled it, and blocks can be
// copied between the arenas of one model, wherever they are. Owns its memory; move-only. Threads
// may work on different blocks of it at once.
#ifndef SCHEDTWIN_KERNELS_CPU_KV_ARENA_H_
#define SCHEDTWIN_KERNELS_CPU_KV_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

class KvArena {
 public:
  /// Throws std::bad_alloc.
  KvArena(const ModelShape& shape, std::uint32_t block_tokens, std::uint32_t blocks);

  std::uint32_t blocks() const { return blocks_; }
  float* keys(std::size_t layer) const { return layers_[layer].keys.data(); }
  float* values(std::size_t layer) const { return layers_[layer].values.data(); }
  /// Copies all layers' keys and values of a block of `from`, which may be this one. Throws
  /// std::invalid_argument if there are no such blocks, or the arenas are of different models.
  void CopyBlock(const KvArena& from, std::uint32_t from_block, std::uint32_t to_block);
  /// For tests: holds NaN afterwards.
  void FillWithNan();

 private:
  struct Layer {
    Buffer keys, values;
  };

  std::uint64_t block_floats_;
  std::uint32_t blocks_;
  std::vector<Layer> layers_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_KV_ARENA_H_
