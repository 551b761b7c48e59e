// Linear by our own loops (kernels/cpu/simd/panel_product.cc): no library.
#include <cstddef>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear_backends.h"

namespace schedtwin {
namespace {

class PlainLinear final : public Linear {
 public:
  PlainLinear(std::uint32_t n, std::uint32_t k, const float* weights)
      : Linear(n, k),
        panels_((std::uint64_t{n} + kPanelColumns - 1) / kPanelColumns * kPanelColumns * k) {
    for (std::uint32_t row = 0; row < n; ++row) {
      float* column = panels_.data() + std::size_t{row / kPanelColumns} * kPanelColumns * k +
                      row % kPanelColumns;
      for (std::uint32_t i = 0; i < k; ++i) {
        column[std::size_t{i} * kPanelColumns] = weights[std::size_t{row} * k + i];
      }
    }
  }

  void Prepare(std::uint32_t) override {}

 private:
  void RunPiece(const float* x, std::uint32_t rows, float* y) override {
    Kernels().panel_product(x, panels_.data(), rows, n_, k_, y);
  }

  Buffer panels_;
};

class PlainBackend final : public LinearBackend {
 public:
  std::string name() const override { return std::string("plain ") + Kernels().isa; }
  std::unique_ptr<Linear> Pack(std::uint32_t n, std::uint32_t k, const float* weights) override {
    return std::make_unique<PlainLinear>(n, k, weights);
  }
};

}  // namespace

std::unique_ptr<LinearBackend> MakePlainBackend() { return std::make_unique<PlainBackend>(); }

}  // namespace schedtwin
