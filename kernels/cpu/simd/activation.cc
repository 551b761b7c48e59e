// SwiGLU (Shazeer, 2020), GELU in the tanh form of the BERT paper's code (Hendrycks and Gimpel,
// 2016), bias, and e^x over an array.
#include "kernels/cpu/simd/kernels.h"

namespace schedtwin::SCHEDTWIN_ISA {

void AddBias(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim) {
  for (std::uint32_t row = 0; row < rows; ++row, x += dim) {
    for (std::uint32_t i = 0; i < dim; i += kLanes) Store(Load(x + i) + Load(bias + i), x + i);
  }
}

void SwiGlu(const float* gate_up, std::uint32_t rows, std::uint32_t ffn, float* out) {
  for (std::uint32_t row = 0; row < rows; ++row, out += ffn) {
    const float* gate = gate_up + std::size_t{2} * ffn * row;
    for (std::uint32_t i = 0; i < ffn; i += kLanes) {
      const Vec g = Load(gate + i);
      Store(g * Sigmoid(g) * Load(gate + ffn + i), out + i);
    }
  }
}

/// (1 + tanh(z)) / 2 is the sigmoid of 2z.
void Gelu(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim) {
  constexpr float kTwoRootTwoOverPi = 1.59576912F;
  for (std::uint32_t row = 0; row < rows; ++row, x += dim) {
    for (std::uint32_t i = 0; i < dim; i += kLanes) {
      const Vec v = Load(x + i) + Load(bias + i);
      Store(v * Sigmoid(kTwoRootTwoOverPi * (v + 0.044715F * v * v * v)), x + i);
    }
  }
}

void ExpArray(float* x, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; i += kLanes) Store(Exp(Load(x + i)), x + i);
}

}  // namespace schedtwin::SCHEDTWIN_ISA
