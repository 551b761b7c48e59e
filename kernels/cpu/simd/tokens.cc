// Where tokens come in and go out: the rows of an embedding table, and the likeliest token.
#include "kernels/cpu/simd/kernels.h"

namespace schedtwin::SCHEDTWIN_ISA {

void Gather(const float* table, const std::int32_t* tokens, std::uint32_t rows, std::uint32_t dim,
            float* out) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const float* from = table + static_cast<std::size_t>(tokens[row]) * dim;
    __builtin_memcpy(out + std::size_t{row} * dim, from, dim * sizeof(float));
  }
}

/// The largest value first, by vectors, then where it stands.
std::int32_t ArgMax(const float* x, std::uint32_t count) {
  float largest = x[0];
  std::uint32_t i = 0;
  if (count >= kLanes) {
    Vec v = Load(x);
    for (i = kLanes; i + kLanes <= count; i += kLanes) v = Max(v, Load(x + i));
    largest = Largest(v);
  }
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  for (i = 0; i < count; ++i) {
    if (x[i] == largest) return static_cast<std::int32_t>(i);
  }
  return 0;  // not a number among them
}

}  // namespace schedtwin::SCHEDTWIN_ISA
