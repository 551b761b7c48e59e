// ModelShape: the sizes of a transformer, which is all that a forward pass with random weights and
// a table of step times need to know of it. The shapes that ship have names; tests make their own.
// Values only; immutable, so any thread may read them.
#ifndef SCHEDTWIN_KERNELS_MODEL_SHAPES_H_
#define SCHEDTWIN_KERNELS_MODEL_SHAPES_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace schedtwin {

struct ModelShape {
  std::string_view name;
  bool decoder;       ///< else an encoder: BERT's layers, and no KV cache
  std::uint32_t dim;  ///< width of the residual stream
  std::uint32_t layers;
  std::uint32_t heads;     ///< query heads; each is dim / heads wide
  std::uint32_t kv_heads;  ///< divides heads; less than heads: grouped-query attention
  std::uint32_t ffn;       ///< inner width of the feed-forward layer
  std::uint32_t vocab;     ///< token ids are 0 .. vocab - 1

  std::uint32_t head_dim() const { return dim / heads; }
  std::uint32_t kv_dim() const { return head_dim() * kv_heads; }
};

/// Null when there is none of that name.
const ModelShape* FindModelShape(std::string_view name);
std::span<const ModelShape> ModelShapes();

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_MODEL_SHAPES_H_
