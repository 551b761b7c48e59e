// Vec: a vector register of floats and the few operations that the kernels need, written with the
// vector extensions that gcc and clang share. For the sources of this folder alone: each is
// compiled once for every instruction set, in the namespace SCHEDTWIN_ISA. They must not use inline
// functions of the standard library: the linker keeps one copy of those, which might be the one
// that this CPU cannot run.
#ifndef SCHEDTWIN_KERNELS_CPU_SIMD_VEC_H_
#define SCHEDTWIN_KERNELS_CPU_SIMD_VEC_H_

#include <cstddef>
#include <cstdint>

#ifndef SCHEDTWIN_ISA
#define SCHEDTWIN_ISA baseline
#endif

namespace schedtwin::SCHEDTWIN_ISA {

#ifdef __AVX2__
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Vec __attribute__((vector_size(kLanes * sizeof(float)))) = float;
using IntVec __attribute__((vector_size(kLanes * sizeof(float)))) = std::int32_t;

inline Vec Load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
inline void Store(Vec v, float* to) { __builtin_memcpy(to, &v, sizeof(v)); }
inline Vec Splat(float x) { return x - Vec{}; }
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }

inline float Sum(Vec v) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

inline float Largest(Vec v) {
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

/// e^x to about 1e-7 (relative): x = n ln 2 + r with |r| <= ln 2 / 2, and the polynomial for e^r of
/// the Cephes library's expf (S. Moshier). Arguments are clamped to -87.3 .. 88.
inline Vec Exp(Vec x) {
  x = Min(Splat(88.0F), Max(Splat(-87.3F), x));  // in this order NaN stays NaN
  constexpr float kRound = 12582912.0F;          // 1.5 * 2^23: adding and taking it away rounds
  const Vec n = (x * 1.44269504F + kRound) - kRound;
  const Vec r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Vec p = Splat(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const IntVec exponent = (__builtin_convertvector(n, IntVec) + 127) << 23;
  return p * reinterpret_cast<Vec>(exponent);
}

inline Vec Sigmoid(Vec x) { return 1.0F / (1.0F + Exp(-x)); }

}  // namespace schedtwin::SCHEDTWIN_ISA

#endif  // SCHEDTWIN_KERNELS_CPU_SIMD_VEC_H_
