#include "kernels/cpu/kernel_table.h"

#include <cstddef>

namespace schedtwin {
namespace baseline {
extern const CpuKernels kKernels;
}
#if SCHEDTWIN_KERNELS_AVX2
namespace avx2 {
extern const CpuKernels kKernels;
}
#endif

std::span<const CpuKernels* const> CpuKernelTables() {
#if SCHEDTWIN_KERNELS_AVX2
  static constexpr const CpuKernels* kTables[] = {&baseline::kKernels, &avx2::kKernels};
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return {kTables, has_avx2 ? std::size_t{2} : std::size_t{1}};
#else
  static constexpr const CpuKernels* kTables[] = {&baseline::kKernels};
  return kTables;
#endif
}

const CpuKernels& Kernels() {
  static const CpuKernels& best = *CpuKernelTables().back();
  return best;
}

}  // namespace schedtwin
