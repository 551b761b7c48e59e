// Accumulate: the register tile that attention and the plain matrix product are made of:
// C[R][columns] += A[R][n] * B[n][columns], the tile of C kept in registers over all n.
#ifndef SCHEDTWIN_KERNELS_CPU_SIMD_MICRO_KERNEL_H_
#define SCHEDTWIN_KERNELS_CPU_SIMD_MICRO_KERNEL_H_

#include <cstddef>

#include "kernels/cpu/simd/vec.h"

namespace schedtwin::SCHEDTWIN_ISA {

/// V vectors of columns. A single row is split over n as well: one chain of dependent sums for each
/// vector would leave the adders waiting.
template <int R, int V>
inline void Accumulate(const float* a, std::size_t a_stride, const float* b, std::size_t b_stride,
                       std::size_t n, float* c, std::size_t c_stride) {
  constexpr int kSplit = R == 1 ? 4 : 1;
  Vec sum[kSplit][R][V] = {};
  std::size_t k = 0;
  for (; k + kSplit <= n; k += kSplit) {
    for (int s = 0; s < kSplit; ++s) {
      const float* row = b + (k + s) * b_stride;
      for (int r = 0; r < R; ++r) {
        const float x = a[r * a_stride + k + s];
        for (int v = 0; v < V; ++v) sum[s][r][v] += x * Load(row + v * kLanes);
      }
    }
  }
  for (; k < n; ++k) {
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) {
        sum[0][r][v] += a[r * a_stride + k] * Load(b + k * b_stride + v * kLanes);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      Vec total = sum[0][r][v];
      for (int s = 1; s < kSplit; ++s) total += sum[s][r][v];
      float* to = c + r * c_stride + v * kLanes;
      Store(Load(to) + total, to);
    }
  }
}

/// Over `columns`, a multiple of 8: sixteen at a time, then eight.
template <int R>
inline void AccumulateColumns(const float* a, std::size_t a_stride, const float* b,
                              std::size_t b_stride, std::size_t n, float* c, std::size_t c_stride,
                              std::size_t columns) {
  std::size_t i = 0;
  for (; i + 16 <= columns; i += 16) {
    Accumulate<R, 16 / kLanes>(a, a_stride, b + i, b_stride, n, c + i, c_stride);
  }
  if (i < columns) Accumulate<R, 8 / kLanes>(a, a_stride, b + i, b_stride, n, c + i, c_stride);
}

}  // namespace schedtwin::SCHEDTWIN_ISA

#endif  // SCHEDTWIN_KERNELS_CPU_SIMD_MICRO_KERNEL_H_
