// The functions of one instruction set's table (kernels/cpu/kernel_table.h says what each does).
#ifndef SCHEDTWIN_KERNELS_CPU_SIMD_KERNELS_H_
#define SCHEDTWIN_KERNELS_CPU_SIMD_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace schedtwin::SCHEDTWIN_ISA {

void Gather(const float* table, const std::int32_t* tokens, std::uint32_t rows, std::uint32_t dim,
            float* out);
void RmsNorm(float* x, const float* delta, const float* weight, float epsilon, std::uint32_t rows,
             std::uint32_t dim, float* out);
void LayerNorm(float* x, const float* delta, const float* bias, const float* weight,
               const float* shift, float epsilon, std::uint32_t rows, std::uint32_t dim);
void AddBias(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim);
void RopeAppend(const AttentionShape& shape, const AttentionChunk& chunk, float* qkv,
                const float* rotation, float* keys, float* values);
void Attend(const AttentionShape& shape, const AttentionChunk& chunk, bool causal, const float* qkv,
            const float* keys, const float* values, float* out);
void SwiGlu(const float* gate_up, std::uint32_t rows, std::uint32_t ffn, float* out);
void Gelu(float* x, const float* bias, std::uint32_t rows, std::uint32_t dim);
std::int32_t ArgMax(const float* x, std::uint32_t count);
void ExpArray(float* x, std::uint32_t count);
void PanelProduct(const float* x, const float* panels, std::uint32_t rows, std::uint32_t n,
                  std::uint32_t k, float* y);

}  // namespace schedtwin::SCHEDTWIN_ISA

#endif  // SCHEDTWIN_KERNELS_CPU_SIMD_KERNELS_H_
