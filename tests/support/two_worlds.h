// TwoWorlds: the same run in the simulator and on the processor, for suites whose assertions must
// hold in both. Tiny models, so that a step takes well under a millisecond; the simulator's step
// times are about as long. One thread; used once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_
#define SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "exec/decoder_runner.h"
#include "exec/encoder_runner.h"
#include "exec/execute.h"
#include "policies/runtime/world.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"

namespace schedtwin {

enum class TestWorld : std::uint8_t { kSim, kCpu };

inline void PrintTo(TestWorld world, std::ostream* out) {
  *out << (world == TestWorld::kSim ? "sim" : "cpu");
}

inline constexpr ModelShape kTinyDecoder = {.name = "tiny",
                                            .decoder = true,
                                            .dim = 32,
                                            .layers = 2,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .ffn = 48,
                                            .vocab = 96};
inline constexpr ModelShape kTinyEncoder = {.name = "tiny-encoder",
                                            .decoder = false,
                                            .dim = 32,
                                            .layers = 1,
                                            .heads = 4,
                                            .kv_heads = 4,
                                            .ffn = 64,
                                            .vocab = 96};

/// 256 blocks of 16 tokens: enough for all of a test's requests at once.
inline DeviceInfo TinyDecoderInfo() {
  DeviceInfo info;
  info.name = "tiny";
  info.kind = ModelKind::kDecoder;
  info.max_model_len_tokens = 512;
  info.total_blocks = 256;
  info.block_tokens = 16;
  info.host_blocks = 256;
  info.layers = kTinyDecoder.layers;
  return info;
}

inline DeviceInfo TinyEncoderInfo() {
  DeviceInfo info;
  info.name = "tiny-encoder";
  info.kind = ModelKind::kOneShot;
  info.max_step_tokens = 8;
  return info;
}

/// Makes the runner of the tiny model that `info` is of.
inline MakeStepRunner TinyRunner(const DeviceInfo& info) {
  return [info]() -> std::unique_ptr<StepRunner> {
    if (info.kind == ModelKind::kOneShot) {
      return std::make_unique<EncoderRunner>(kTinyEncoder, info, 1);
    }
    return std::make_unique<DecoderRunner>(kTinyDecoder, info, 1);
  };
}

struct TwoWorlds {
  // What to run.
  DeviceInfo device = TinyDecoderInfo();
  std::uint32_t devices = 1;
  WorldOptions options;
  MakeStepRunner make_runner;  ///< none: the tiny model's

  // What came of it.
  RecordingRecorder recorder;

  RunSummary Run(TestWorld world, Policy* policy, std::vector<RequestSpec> requests) {
    ListSource source(std::move(requests));
    RequestSource* const sources[] = {&source};
    return Run(world, policy, sources);
  }

  RunSummary Run(TestWorld world, Policy* policy, std::span<RequestSource* const> sources) {
    constexpr RecordWants kAll = {.steps = true, .log = true};
    if (world == TestWorld::kSim) {
      const StepTimeModel model = StepTimeModel::Linear(Duration::Micros(100), Duration::Micros(2));
      return Simulate({&model, device, devices, options}, policy, sources, &recorder, kAll);
    }
    ExecSetup setup;
    setup.make_runner = make_runner ? make_runner : TinyRunner(device);
    setup.devices = devices;
    setup.world = options;
    const absl::StatusOr<ExecResult> result = Execute(setup, policy, sources, &recorder, kAll);
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      return {};
    }
    return result->summary;
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_
