#include "exec/cpu_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "exec/decoder_runner.h"
#include "exec/encoder_runner.h"
#include "kernels/cpu/linear.h"
#include "kernels/model_shapes.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kMaxModelLenTokens = 2048;
constexpr std::uint32_t kMaxUnits = 32;
constexpr std::uint64_t kMostKvBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kMostKvBlocks = 2048;
// More parameters than this take seconds a step in float32 on one core.
constexpr std::uint64_t kMostParameters = 400'000'000;

std::uint64_t ParametersOf(const ModelShape& shape) {
  const std::uint64_t dim = shape.dim;
  const std::uint64_t attention = 2 * dim * dim + 2 * dim * shape.kv_dim();
  const std::uint64_t ffn = (shape.decoder ? 3 : 2) * dim * shape.ffn;
  return shape.layers * (attention + ffn) + (shape.decoder ? 2 : 1) * dim * shape.vocab;
}

std::uint32_t KvBlocksOf(const ModelShape& shape) {
  const std::uint64_t block_bytes =
      std::uint64_t{2} * shape.layers * shape.kv_dim() * sizeof(float) * kBlockTokens;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kMostKvBytes / block_bytes, kMostKvBlocks));
}

}  // namespace

std::vector<std::string_view> CpuModels() {
  std::vector<std::pair<std::uint64_t, std::string_view>> models;
  for (const ModelShape& shape : ModelShapes()) {
    if (ParametersOf(shape) <= kMostParameters)
      models.emplace_back(ParametersOf(shape), shape.name);
  }
  std::sort(models.begin(), models.end());
  std::vector<std::string_view> names;
  for (const auto& [parameters, name] : models) names.push_back(name);
  return names;
}

absl::StatusOr<DeviceInfo> CpuDeviceInfo(std::string_view model) {
  const std::vector<std::string_view> names = CpuModels();
  if (std::find(names.begin(), names.end(), model) == names.end()) {
    std::string text = "no model '" + std::string(model) + "' for the CPU; there are";
    for (const std::string_view name : names)
      text += (name == names[0] ? " " : ", ") + std::string(name);
    return absl::NotFoundError(text);
  }
  const ModelShape& shape = *FindModelShape(model);
  DeviceInfo info;
  info.name = "cpu/" + std::string(model);
  if (!shape.decoder) {
    info.kind = ModelKind::kOneShot;
    info.max_step_tokens = kMaxUnits;
    return info;
  }
  info.kind = ModelKind::kDecoder;
  info.max_model_len_tokens = kMaxModelLenTokens;
  info.total_blocks = KvBlocksOf(shape);
  info.block_tokens = kBlockTokens;
  return info;
}

MakeStepRunner CpuStepRunner(std::string_view model, std::uint64_t seed) {
  const ModelShape* shape = FindModelShape(model);
  const DeviceInfo info = *CpuDeviceInfo(model);
  return [shape, info, seed]() -> std::unique_ptr<StepRunner> {
    if (info.kind == ModelKind::kOneShot) {
      return std::make_unique<EncoderRunner>(*shape, info, seed);
    }
    return std::make_unique<DecoderRunner>(*shape, info, seed);
  };
}

std::string CpuBackend() { return MakeLinearBackend()->name(); }

}  // namespace schedtwin
