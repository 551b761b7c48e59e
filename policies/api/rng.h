// Randomness as a parameter: counter-based streams (Random123 Philox4x32-10; Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC'11) keyed by (run seed, stream name, entity).
// Adding an entity or a stream shifts nobody else's draws, and two policies see the same traffic.
// The distributions are fixed algorithms in integer and basic floating-point arithmetic: the
// standard library's differ between libraries, libm's transcendentals between CPUs. Every draw is
// counted by its stream.
#ifndef SCHEDTWIN_POLICIES_API_RNG_H_
#define SCHEDTWIN_POLICIES_API_RNG_H_

#include <Random123/philox.h>

#include <cmath>
#include <cstdint>
#include <string_view>

namespace schedtwin {

/// Natural logarithm of x > 0 by range reduction and a fixed series (fdlibm's __ieee754_log
/// scheme): only + - * / and exact scaling, so every conforming machine gives the same bits. Error
/// below 1 ulp.
inline double FixedLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact: m in [0.5, 1)
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double w = z * z;
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double half_square = 0.5 * f * f;
  const double k = exponent;
  return k * 6.93147180369123816490e-01 -
         ((half_square - (s * (half_square + odd + even) + k * 1.90821492927058770002e-10)) - f);
}

/// One stream of draws. A value: copying it copies its position. 64 bits of key from (seed, name,
/// entity); period 2^66 draws.
class Rng {
 public:
  Rng(std::uint64_t run_seed, std::string_view stream, std::uint64_t entity = 0) {
    std::uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a over the name, then two rounds of SplitMix64
    for (const char c : stream) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    h = Mix(Mix(h + run_seed) ^ run_seed);
    key_.v[0] = static_cast<std::uint32_t>(h);
    key_.v[1] = static_cast<std::uint32_t>(h >> 32);
    counter_.v[2] = static_cast<std::uint32_t>(entity);
    counter_.v[3] = static_cast<std::uint32_t>(entity >> 32);
  }

  std::uint32_t Next32() {
    if (used_ == 4) Refill();
    ++draws_;
    return block_.v[used_++];
  }
  std::uint64_t Next64() {
    const std::uint64_t high = Next32();
    return (high << 32) | Next32();
  }

  /// Uniform in [0, n), without bias (Lemire 2019). REQUIRES: n > 0.
  std::uint32_t Below(std::uint32_t n) {
    std::uint64_t product = static_cast<std::uint64_t>(Next32()) * n;
    if (static_cast<std::uint32_t>(product) < n) {
      const std::uint32_t threshold = (0u - n) % n;
      while (static_cast<std::uint32_t>(product) < threshold) {
        product = static_cast<std::uint64_t>(Next32()) * n;
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// Uniform in the open interval (0, 1), 52 bits.
  double Uniform() {
    return (static_cast<double>(Next64() >> 12) + 0.5) * (1.0 / 4503599627370496.0);
  }

  /// Exponential with mean 1, by inversion.
  double Exponential() { return -FixedLog(Uniform()); }

  /// Normal with mean 0 and deviation 1: Marsaglia's polar method, one of the pair kept.
  double Normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double u = 0, v = 0, s = 0;
    do {
      u = 2 * Uniform() - 1;
      v = 2 * Uniform() - 1;
      s = u * u + v * v;
    } while (s >= 1 || s == 0);
    const double scale = std::sqrt(-2 * FixedLog(s) / s);
    spare_ = v * scale;
    has_spare_ = true;
    return u * scale;
  }

  /// How many 32-bit words were drawn so far.
  std::uint64_t draws() const { return draws_; }

 private:
  static std::uint64_t Mix(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  void Refill() {
    block_ = r123::Philox4x32()(counter_, key_);
    used_ = 0;
    if (++counter_.v[0] == 0) ++counter_.v[1];
  }

  r123::Philox4x32::key_type key_ = {{}};
  r123::Philox4x32::ctr_type counter_ = {{}};
  r123::Philox4x32::ctr_type block_ = {{}};
  unsigned used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
  std::uint64_t draws_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_RNG_H_
