// RMSNorm (Zhang and Sennrich, 2019) and LayerNorm (Ba et al., 2016), each fused with the sum that
// comes before it.
#include "kernels/cpu/simd/kernels.h"

namespace schedtwin::SCHEDTWIN_ISA {

void RmsNorm(float* x, const float* delta, const float* weight, float epsilon, std::uint32_t rows,
             std::uint32_t dim, float* out) {
  for (std::uint32_t row = 0; row < rows; ++row, x += dim, out += dim) {
    Vec squares = {};
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Vec v = Load(x + i);
      if (delta != nullptr) {
        v += Load(delta + i);
        Store(v, x + i);
      }
      squares += v * v;
    }
    const float scale = 1.0F / __builtin_sqrtf(Sum(squares) / static_cast<float>(dim) + epsilon);
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Store(Load(x + i) * scale * Load(weight + i), out + i);
    }
    if (delta != nullptr) delta += dim;
  }
}

void LayerNorm(float* x, const float* delta, const float* bias, const float* weight,
               const float* shift, float epsilon, std::uint32_t rows, std::uint32_t dim) {
  const float count = static_cast<float>(dim);
  for (std::uint32_t row = 0; row < rows; ++row, x += dim) {
    Vec sum = {};
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Vec v = Load(x + i);
      if (delta != nullptr) v += Load(delta + i);
      if (bias != nullptr) v += Load(bias + i);
      Store(v, x + i);
      sum += v;
    }
    const float mean = Sum(sum) / count;
    Vec squares = {};
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      const Vec v = Load(x + i) - mean;
      squares += v * v;
    }
    const float scale = 1.0F / __builtin_sqrtf(Sum(squares) / count + epsilon);
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      Store((Load(x + i) - mean) * scale * Load(weight + i) + Load(shift + i), x + i);
    }
    if (delta != nullptr) delta += dim;
  }
}

}  // namespace schedtwin::SCHEDTWIN_ISA
