// The models that run on the CPU: what a device of each says of itself, which depends on the
// model's name alone, never on the machine, so that a run can be replayed anywhere; and how to make
// one. Pure.
#ifndef SCHEDTWIN_EXEC_CPU_MODELS_H_
#define SCHEDTWIN_EXEC_CPU_MODELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/step_runner.h"
#include "policies/api/device.h"

namespace schedtwin {

/// Names, smallest first.
std::vector<std::string_view> CpuModels();

/// Limits and memory of a device with this model. NotFound: no such model, or not for the CPU; the
/// text names those there are.
absl::StatusOr<DeviceInfo> CpuDeviceInfo(std::string_view model);

/// The same of a device that can load any of these models: the narrowest of their limits.
/// InvalidArgument: decoders and one-shot models do not share a device. REQUIRES: there is a model.
absl::StatusOr<DeviceInfo> CpuDeviceInfo(std::span<const std::string_view> models);

/// Makes such a device's runner, with weights drawn from `seed`. REQUIRES: CpuDeviceInfo(model) is
/// OK.
MakeStepRunner CpuStepRunner(std::string_view model, std::uint64_t seed);
/// The same, one of several on a device that is `device`.
MakeStepRunner CpuStepRunner(std::string_view model, const DeviceInfo& device, std::uint64_t seed);

/// The kernel library and its instruction set: "onednn 2.6.3 avx2".
std::string CpuBackend();

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_CPU_MODELS_H_
