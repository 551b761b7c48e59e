// EncoderRunner: a one-shot encoder model on the CPU behind StepRunner. A unit is one sequence of
// kSequenceTokens tokens; a step computes all units of its entries in one forward pass. Used on one
// thread, its worker's.
#ifndef SCHEDTWIN_EXEC_ENCODER_RUNNER_H_
#define SCHEDTWIN_EXEC_ENCODER_RUNNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/step_runner.h"
#include "kernels/cpu/encoder.h"
#include "kernels/model_shapes.h"

namespace schedtwin {

class EncoderRunner final : public StepRunner {
 public:
  static constexpr std::uint32_t kSequenceTokens = 128;

  /// REQUIRES: `info` is of a one-shot model with a largest step.
  EncoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed);

  DeviceInfo info() const override { return info_; }
  bool Load(StopCheck stop) override;
  void Unload() override { model_.reset(); }
  void Take(const DeviceCommand& command) override;
  bool RunStep(const DeviceCommand& step, StopCheck stop) override;

 private:
  void AddUnits(std::uint32_t request, std::uint32_t units);

  ModelShape shape_;
  DeviceInfo info_;
  std::uint32_t vocab_;
  std::uint64_t seed_;
  std::unique_ptr<CpuEncoder> model_;  ///< null: not loaded
  std::vector<std::int32_t> tokens_;   ///< of the step's units so far
  std::vector<float> pooled_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_ENCODER_RUNNER_H_
