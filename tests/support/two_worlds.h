// TwoWorlds: the same run in the simulator and on the processor, for suites whose assertions must
// hold in both. Tiny models, so that a step takes well under a millisecond; the simulator's step
// times are about as long. A run on the processor is replayed from its log at once, by a policy and
// sources made anew, and must come out the same to the letter; so both are given by what makes
// them. One thread; used once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_
#define SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "exec/encoder_runner.h"
#include "exec/execute.h"
#include "policies/runtime/world.h"
#include "sim/replay.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"
#include "tests/support/real_world.h"
#include "tests/support/seen_lines.h"
#include "tests/support/watched_runner.h"

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

/// 256 blocks of 16 tokens: enough for all of a test's requests at once. A copy takes a
/// millisecond in the simulator, however small.
inline DeviceInfo TinyDecoderInfo() {
  constexpr Link kLink = {Duration::Millis(1), 1'000'000'000};
  DeviceInfo info;
  info.name = "tiny";
  info.kind = ModelKind::kDecoder;
  info.max_model_len_tokens = 512;
  info.total_blocks = 256;
  info.block_tokens = 16;
  info.host_blocks = 256;
  info.block_bytes = 4096;
  info.layers = kTinyDecoder.layers;
  info.host_link = info.peer_link = info.load_link = kLink;
  return info;
}

inline DeviceInfo TinyEncoderInfo() {
  DeviceInfo info;
  info.name = "tiny-encoder";
  info.kind = ModelKind::kOneShot;
  info.max_step_tokens = 8;
  return info;
}

using MakePolicy = std::function<std::unique_ptr<Policy>()>;
using Sources = std::vector<std::unique_ptr<RequestSource>>;
using MakeSources = std::function<Sources()>;

struct TwoWorlds {
  // What to run.
  DeviceInfo device = TinyDecoderInfo();
  std::uint32_t devices = 1;
  WorldOptions options;
  Duration layer_pause;  ///< each layer of a decoder lasts so much longer

  // What came of it.
  RecordingRecorder recorder;
  std::unique_ptr<Policy> policy;  ///< that of the run
  WatchedTokens tokens;            ///< of decoders, on the processor

  /// What all runs of this process have written into their logs so far.
  static SeenLines& Seen(TestWorld world) {
    static SeenLines seen[2];
    return seen[static_cast<std::size_t>(world)];
  }

  RunSummary Run(TestWorld world, const MakePolicy& make_policy,
                 const std::vector<RequestSpec>& requests) {
    return Run(world, make_policy, [&] {
      Sources sources;
      sources.push_back(std::make_unique<ListSource>(requests));
      return sources;
    });
  }

  RunSummary Run(TestWorld world, const MakePolicy& make_policy, const MakeSources& make_sources) {
    policy = make_policy();
    const Sources sources = make_sources();
    const RunSummary summary =
        world == TestWorld::kSim ? RunSim(Pointers(sources)) : RunCpu(Pointers(sources));
    for (const LogRecord& line : recorder.log) Seen(world).insert(KindOf(line));
    if (world == TestWorld::kCpu) ExpectReplays(summary, make_policy, make_sources);
    return summary;
  }

 private:
  static constexpr RecordWants kAll = {.steps = true, .log = true};

  static std::vector<RequestSource*> Pointers(const Sources& sources) {
    std::vector<RequestSource*> pointers;
    for (const std::unique_ptr<RequestSource>& source : sources) pointers.push_back(source.get());
    return pointers;
  }
  std::size_t models() const { return std::max<std::size_t>(1, options.models.size()); }

  RunSummary RunSim(const std::vector<RequestSource*>& sources) {
    const Duration layers = Duration::Nanos(layer_pause.ns() * device.layers);
    const StepTimeModel model =
        StepTimeModel::Linear(Duration::Micros(100) + layers, Duration::Micros(2));
    const std::vector<const StepTimeModel*> more(models() - 1, &model);
    SimSetup setup = {&model, device, devices, options, more};
    return Simulate(setup, policy.get(), sources, &recorder, kAll);
  }

  RunSummary RunCpu(const std::vector<RequestSource*>& sources) {
    ExecSetup setup;
    for (std::size_t i = 0; i < models(); ++i) setup.make_models.push_back(TinyRunner(i + 1));
    setup.devices = devices;
    setup.world = options;
    const absl::StatusOr<ExecResult> result =
        Execute(setup, policy.get(), sources, &recorder, kAll);
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      return {};
    }
    return result->summary;
  }

  /// Makes the tiny model that `device` is of.
  MakeStepRunner TinyRunner(std::uint64_t seed) {
    return [this, seed]() -> std::unique_ptr<StepRunner> {
      if (device.kind == ModelKind::kOneShot) {
        return std::make_unique<EncoderRunner>(kTinyEncoder, device, seed);
      }
      return std::make_unique<WatchedRunner>(kTinyDecoder, device, seed, layer_pause, &tokens);
    };
  }

  void ExpectReplays(const RunSummary& summary, const MakePolicy& make_policy,
                     const MakeSources& make_sources) const {
    SCOPED_TRACE("replayed from its log");
    ReplaySetup setup;
    setup.device = device;
    setup.devices = devices;
    setup.world = options;
    setup.world.identify_blocks = true;
    setup.measured = true;
    const std::unique_ptr<Policy> again = make_policy();
    const Sources sources = make_sources();
    ListLog log(recorder.log);
    const ReplayReport report = Replay(setup, again.get(), Pointers(sources), &log);
    EXPECT_FALSE(report.divergence.has_value()) << "after line " << report.lines;
    EXPECT_EQ(report.lines, recorder.log.size());
    EXPECT_EQ(report.summary.result, summary.result);
    EXPECT_EQ(report.summary.decision_digest, summary.decision_digest);
    EXPECT_EQ(report.summary.outcome_digest, summary.outcome_digest);
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_TWO_WORLDS_H_
