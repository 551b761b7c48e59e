// The plain matrix product: weights packed in panels of sixteen columns that are read once from
// front to back, four rows of x at a time, k in pieces so that a panel's piece stays in the first
// cache (the loop order of Goto and van de Geijn, 2008).
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/micro_kernel.h"

namespace schedtwin::SCHEDTWIN_ISA {
namespace {

constexpr std::uint32_t kRows = 4, kPiece = 256;

/// The last panel where n is no multiple of its width: by way of a tile of its own.
void ProductAtEdge(const float* x, std::uint32_t k, const float* piece, std::uint32_t depth,
                   std::uint32_t columns, float* y, std::uint32_t n) {
  float tile[kRows * kPanelColumns] = {};
  Accumulate<kRows, kPanelColumns / kLanes>(x, k, piece, kPanelColumns, depth, tile, kPanelColumns);
  for (std::uint32_t r = 0; r < kRows; ++r) {
    for (std::uint32_t c = 0; c < columns; ++c) {
      y[std::size_t{r} * n + c] += tile[r * kPanelColumns + c];
    }
  }
}

}  // namespace

void PanelProduct(const float* x, const float* panels, std::uint32_t rows, std::uint32_t n,
                  std::uint32_t k, float* y) {
  __builtin_memset(y, 0, std::size_t{rows} * n * sizeof(float));
  for (std::uint32_t column = 0; column < n; column += kPanelColumns, panels += kPanelColumns * k) {
    for (std::uint32_t from = 0; from < k; from += kPiece) {
      const std::uint32_t depth = k - from < kPiece ? k - from : kPiece;
      const float* piece = panels + from * kPanelColumns;
      for (std::uint32_t row = 0; row < rows; row += kRows) {
        const float* a = x + std::size_t{row} * k + from;
        float* c = y + std::size_t{row} * n + column;
        if (n - column < kPanelColumns) {
          ProductAtEdge(a, k, piece, depth, n - column, c, n);
        } else {
          Accumulate<kRows, kPanelColumns / kLanes>(a, k, piece, kPanelColumns, depth, c, n);
        }
      }
    }
  }
}

}  // namespace schedtwin::SCHEDTWIN_ISA
