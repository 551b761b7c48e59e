// What the two CPU models are made with, decoder and encoder alike: refusals of misuse, the rules
// that both hold a shape to, and buffers that start as given values. Included by their sources
// alone. Pure functions: no state, any thread.
#ifndef SCHEDTWIN_KERNELS_CPU_MODEL_PARTS_H_
#define SCHEDTWIN_KERNELS_CPU_MODEL_PARTS_H_

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

/// Throws std::invalid_argument, which says `what`, unless `holds`.
inline void Require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

/// What a shape of either kind must be; which KV heads may go with its heads is each model's own.
inline void RequireCommonShape(const ModelShape& shape) {
  Require(shape.layers > 0 && shape.vocab > 0, "a model has layers and a vocabulary");
  Require(shape.heads > 0 && shape.dim % shape.heads == 0, "heads must divide dim");
  Require(shape.head_dim() > 0 && shape.head_dim() % kLaneMultiple == 0 &&
              shape.head_dim() <= kMaxHeadDim,
          "a head's width must be a multiple of 8, at most 256");
  Require(shape.ffn > 0 && shape.ffn % kLaneMultiple == 0, "ffn must be a multiple of 8");
}

/// A buffer of exactly these values.
inline Buffer Filled(const std::vector<float>& values) {
  Buffer buffer(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_MODEL_PARTS_H_
