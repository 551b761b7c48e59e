// EncoderRunner: a one-shot encoder model on the CPU behind StepRunner. A unit is one sequence of
// kSequenceTokens tokens; a step computes all units of its entries in one forward pass. Used on one
// thread, its worker's.
#ifndef SCHEDTWIN_EXEC_ENCODER_RUNNER_H_
#define SCHEDTWIN_EXEC_ENCODER_RUNNER_H_

#include <cstdint>
#include <vector>

#include "exec/step_runner.h"
#include "kernels/cpu/encoder.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

class EncoderRunner final : public StepRunner {
 public:
  static constexpr std::uint32_t kSequenceTokens = 128;

  /// REQUIRES: `info` is of a one-shot model with a largest step. Throws std::bad_alloc.
  EncoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed);

  DeviceInfo info() const override { return info_; }
  void Take(const DeviceCommand& command) override;
  void RunStep(const DeviceCommand& step) override;

 private:
  void AddUnits(std::uint32_t request, std::uint32_t units);

  DeviceInfo info_;
  std::uint32_t vocab_;
  CpuEncoder model_;
  std::vector<std::int32_t> tokens_;  ///< of the step's units so far
  std::vector<float> pooled_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_ENCODER_RUNNER_H_
