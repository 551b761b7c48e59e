// Random weights as a pure function of (seed, tensor number, index): nothing has to be kept to know
// them again, and one tensor's size shifts no other's. Nearly normal: a sum of four uniform numbers
// of 16 bits each, from the finaliser of SplitMix64 (Steele et al., 2014) over a counter.
#ifndef SCHEDTWIN_KERNELS_CPU_RANDOM_WEIGHTS_H_
#define SCHEDTWIN_KERNELS_CPU_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <span>

namespace schedtwin {

/// What SplitMix64 counts by: 2^64 over the golden ratio, odd.
inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15U;

/// SplitMix64's finaliser: every bit of the result depends on every bit of x.
constexpr std::uint64_t MixBits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// out[i] = mean + deviation * z, z being nearly normal.
inline void FillNormal(std::uint64_t seed, std::uint64_t tensor, float mean, float deviation,
                       std::span<float> out) {
  // Four uniform numbers in 0 .. 65535 have the sum 131070 and the variance (65536^2 - 1) / 3.
  constexpr float kUnit = 1.7320508F / 65536.0F;
  const std::uint64_t start = MixBits(MixBits(seed + kMixStep) + (tensor + 1) * kMixStep);
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    const std::uint64_t bits = MixBits(start + (i + 1) * kMixStep);
    const std::uint64_t sum =
        (bits & 0xffffU) + ((bits >> 16) & 0xffffU) + ((bits >> 32) & 0xffffU) + (bits >> 48);
    const float z = static_cast<float>(static_cast<std::int32_t>(sum) - 131070) * kUnit;
    out[i] = mean + deviation * z;
  }
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_RANDOM_WEIGHTS_H_
