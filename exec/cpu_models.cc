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

// Nominal: what is planned with. Copies run at 3 to 20 GB/s here, by what the caches hold, and are
// begun when a thread has woken; weights are not read but drawn and packed. What a run takes it
// measures.
constexpr Link kCopyLink = {Duration::Micros(50), 3'000'000'000};
constexpr Link kLoadLink = {Duration::Micros(50), 200'000'000};

std::uint64_t KvBlockBytesOf(const ModelShape& shape) {
  return std::uint64_t{2} * shape.layers * shape.kv_dim() * sizeof(float) * kBlockTokens;
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
  info.layers = shape.layers;
  info.load_link = kLoadLink;
  if (!shape.decoder) {
    info.kind = ModelKind::kOneShot;
    info.max_step_tokens = kMaxUnits;
    return info;
  }
  info.kind = ModelKind::kDecoder;
  info.max_model_len_tokens = kMaxModelLenTokens;
  info.block_bytes = KvBlockBytesOf(shape);
  info.total_blocks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kMostKvBytes / info.block_bytes, kMostKvBlocks));
  info.host_blocks = info.total_blocks;
  info.block_tokens = kBlockTokens;
  info.host_link = kCopyLink;
  info.peer_link = kCopyLink;
  return info;
}

absl::StatusOr<DeviceInfo> CpuDeviceInfo(std::span<const std::string_view> models) {
  absl::StatusOr<DeviceInfo> all = CpuDeviceInfo(models[0]);
  for (const std::string_view model : models.subspan(1)) {
    const absl::StatusOr<DeviceInfo> one = CpuDeviceInfo(model);
    if (!all.ok() || !one.ok()) return all.ok() ? one : all;
    if (one->kind != all->kind) {
      return absl::InvalidArgumentError("'" + std::string(models[0]) + "' and '" +
                                        std::string(model) +
                                        "' cannot share a device: one is a decoder, one is not");
    }
    all->name += "+" + std::string(model);
    all->layers = std::min(all->layers, one->layers);
    all->block_bytes = std::max(all->block_bytes, one->block_bytes);
    all->total_blocks = std::min(all->total_blocks, one->total_blocks);
    all->host_blocks = std::min(all->host_blocks, one->host_blocks);
  }
  return all;
}

MakeStepRunner CpuStepRunner(std::string_view model, std::uint64_t seed) {
  return CpuStepRunner(model, *CpuDeviceInfo(model), seed);
}

MakeStepRunner CpuStepRunner(std::string_view model, const DeviceInfo& device, std::uint64_t seed) {
  const ModelShape* shape = FindModelShape(model);
  return [shape, device, seed]() -> std::unique_ptr<StepRunner> {
    if (device.kind == ModelKind::kOneShot) {
      return std::make_unique<EncoderRunner>(*shape, device, seed);
    }
    return std::make_unique<DecoderRunner>(*shape, device, seed);
  };
}

std::string CpuBackend() { return MakeLinearBackend()->name(); }

}  // namespace schedtwin
