#include "kernels/cpu/linear.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "kernels/cpu/linear_backends.h"

namespace schedtwin {

void Linear::Run(const float* x, std::uint32_t rows, float* y) {
  const std::uint32_t padded = PaddedRows(rows);
  for (std::uint32_t row = 0; row < padded; row += kMaxRows) {
    RunPiece(x + std::size_t{row} * k_, std::min(kMaxRows, padded - row),
             y + std::size_t{row} * n_);
  }
}

#if SCHEDTWIN_ONEDNN
bool HasOneDnn() { return true; }
#else
bool HasOneDnn() { return false; }
std::unique_ptr<LinearBackend> MakeOneDnnBackend() {
  throw std::invalid_argument("this build has no oneDNN (SCHEDTWIN_ONEDNN=OFF)");
}
#endif

std::unique_ptr<LinearBackend> MakeLinearBackend(LinearBackendKind kind) {
  return kind == LinearBackendKind::kOneDnn ? MakeOneDnnBackend() : MakePlainBackend();
}

}  // namespace schedtwin
