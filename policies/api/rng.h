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
#include <limits>
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

/// e^x by range reduction and a fixed rational approximation (fdlibm's __ieee754_exp scheme), for
/// the same reason. Error below 1 ulp; infinity and 0 beyond what a double holds.
inline double FixedExp(double x) {
  if (x > 709.782712893383973096) return std::numeric_limits<double>::infinity();
  if (x < -745.13321910194110842) return 0;
  const double k = std::floor(x * 1.44269504088896338700 + 0.5);
  const double high = x - k * 6.93147180369123816490e-01;
  const double low = k * 1.90821492927058770002e-10;
  const double r = high - low;
  const double t = r * r;
  const double c =
      r - t * (1.66666666666666019037e-01 +
               t * (-2.77777777770155933842e-03 +
                    t * (6.61375632143793436117e-05 +
                         t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
  return std::ldexp(1 - ((low - r * c / (2 - c)) - high), static_cast<int>(k));
}

/// The standard normal distribution's quantile of 0 < p < 1 (Wichura's AS 241, PPND16): relative
/// error about 1e-16.
inline double FixedNormalQuantile(double p) {
  const auto polynomial = [](const double(&c)[8], double x) {
    double value = c[7];
    for (int i = 6; i >= 0; --i) value = value * x + c[i];
    return value;
  };
  constexpr double kCentre[2][8] = {
      {3.3871328727963666080e+0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
       1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
       3.3430575583588128105e+4, 2.5090809287301226727e+3},
      {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
       2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
       5.2264952788528545610e+3}};
  constexpr double kTail[2][8] = {
      {1.42343711074968357734e+0, 4.63033784615654529590e+0, 5.76949722146069140550e+0,
       3.64784832476320460504e+0, 1.27045825245236838258e+0, 2.41780725177450611770e-1,
       2.27238449892691845833e-2, 7.74545014278341407640e-4},
      {1, 2.05319162663775882187e+0, 1.67638483018380384940e+0, 6.89767334985100004550e-1,
       1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
       1.05075007164441684324e-9}};
  constexpr double kFarTail[2][8] = {
      {6.65790464350110377720e+0, 5.46378491116411436990e+0, 1.78482653991729133580e+0,
       2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
       2.71155556874348757815e-5, 2.01033439929228813265e-7},
      {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
       7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
       2.04426310338993978564e-15}};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentre[0], r) / polynomial(kCentre[1], r);
  }
  const double r = std::sqrt(-FixedLog(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? polynomial(kTail[0], r - 1.6) / polynomial(kTail[1], r - 1.6)
                          : polynomial(kFarTail[0], r - 5) / polynomial(kFarTail[1], r - 5);
  return q < 0 ? -z : z;
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
