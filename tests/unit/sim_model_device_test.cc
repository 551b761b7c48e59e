// ModelDevice: every step takes as long as the profile's model says for what the messages describe,
// and steps run one after another.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"
#include "sim/model_device.h"
#include "sim/simulate.h"
#include "tests/support/fakes.h"
#include "tests/support/mini_batch.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"

namespace schedtwin {
namespace {

/// Every part of a step's time is its own: no two shapes below take equally long.
Profile SmallProfile(ModelKind kind) {
  Profile p;
  p.name = p.model = "test";
  p.device = "fake";
  p.kind = kind;
  p.host_overhead_ns = 1'000;
  p.tile = 4;
  p.steps = {{4, 10'000}, {8, 15'000}, {64, 127'000}};
  if (kind == ModelKind::kOneShot) {
    p.max_units = 48;
    return p;
  }
  p.layers = 2;
  p.kv_blocks = 5000;
  p.block_tokens = 16;
  p.max_model_len_tokens = 4096;
  p.decode_base_ns = 50;
  p.decode_ns_per_context_token = 3;
  p.prefill.context_tokens = {0, 100};
  p.prefill.chunk_tokens = {1, 101, 201};
  p.prefill.layer_ns = {10, 110, 410, 30, 330, 830};
  p.prefill.launch_ns = 4;
  p.head = {{4, 777}, {8, 1333}};
  return p;
}

/// A device alone, with a test at the other end of the seam.
class Bench final : public ReplySink {
 public:
  explicit Bench(ModelKind kind = ModelKind::kDecoder)
      : model_(SmallProfile(kind)), device_(DeviceInfoOf(SmallProfile(kind)), &model_), ring_(6) {
    device_.Attach({3}, &ring_, this);
  }

  void Post(const DeviceReply& reply, Time due) override {
    EXPECT_EQ(due, reply.end);
    replies.push_back(reply);
  }
  void Join(std::uint32_t request, std::uint32_t context) {
    ring_.Push({.kind = CommandKind::kJoin, .request = request, .context_tokens = context});
  }
  void Leave(std::uint32_t request, std::uint32_t context) {
    ring_.Push({.kind = CommandKind::kLeave, .request = request, .context_tokens = context});
  }
  void Entry(std::uint32_t tokens, std::uint32_t context, bool decode = false,
             bool samples = false) {
    ++entries_;
    ring_.Push({.kind = CommandKind::kEntry,
                .decode = decode,
                .samples = decode || samples,
                .request = 7,
                .tokens = tokens,
                .context_tokens = context});
  }
  void Notify(Time now) { device_.Notify(now); }
  void Step(Time now, bool standing = false, std::uint32_t padding = 0) {
    ring_.Push({.kind = CommandKind::kStep,
                .standing = standing,
                .tokens = padding,
                .plan = {5, 6},
                .step = 9,
                .entries = std::exchange(entries_, 0)});
    device_.Notify(now);
  }
  /// How long the step took that was asked for last.
  Duration took() const { return replies.back().end - replies.back().start; }
  Duration Predict(StepShape shape, const std::vector<PrefillChunk>& prefills = {}) const {
    shape.prefills = prefills;
    return model_.Predict(shape);
  }

  std::vector<DeviceReply> replies;

 private:
  StepTimeModel model_;
  ModelDevice device_;
  CommandRing ring_;
  std::uint32_t entries_ = 0;  ///< since the last step
};

TEST(ModelDevice, TellsWhichStepAndWhatWasPredicted) {
  Bench bench;
  bench.Entry(5, 0);
  bench.Step(Time::Nanos(40));
  ASSERT_EQ(bench.replies.size(), 1u);
  const DeviceReply& reply = bench.replies[0];
  EXPECT_EQ(reply.status, ReplyStatus::kOk);
  EXPECT_EQ(reply.device.value, 3u);
  EXPECT_EQ(reply.plan, (PlanId{5, 6}));
  EXPECT_EQ(reply.step, 9u);
  EXPECT_EQ(reply.start, Time::Nanos(40));
  EXPECT_EQ(reply.predicted_ns, bench.took().ns());
  EXPECT_EQ(reply.compute_ns, -1) << "nothing was computed";
}

TEST(ModelDevice, PrefillsAreChunksAfterTheirContexts) {
  Bench bench;
  bench.Entry(5, 0);
  bench.Entry(30, 64);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({}, {{5, 0}, {30, 64}}));
  EXPECT_NE(bench.took(), bench.Predict({}, {{35, 0}}));
  // A one-token chunk of a prompt is no decode, however much is in its cache.
  bench.Entry(1, 64);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({}, {{1, 64}}));
}

TEST(ModelDevice, LastChunksSample) {
  Bench bench;
  bench.Entry(5, 0, false, /*samples=*/true);
  bench.Entry(30, 64);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({}, {{5, 0, true}, {30, 64, false}}));
  EXPECT_NE(bench.took(), bench.Predict({}, {{5, 0}, {30, 64}}));
}

TEST(ModelDevice, ListedDecodesAttendToTheirContextAndThemselves) {
  Bench bench;
  bench.Entry(1, 40, /*decode=*/true);
  bench.Entry(1, 100, /*decode=*/true);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({.decode_tokens = 2, .decode_context_tokens = 142}));
}

TEST(ModelDevice, TheStandingSetGrowsByATokenEachInEveryStep) {
  Bench bench;
  bench.Join(1, 40);
  bench.Join(2, 100);
  bench.Step(Time(), /*standing=*/true);
  EXPECT_EQ(bench.took(), bench.Predict({.decode_tokens = 2, .decode_context_tokens = 142}));
  bench.Step(Time(), /*standing=*/true);
  EXPECT_EQ(bench.took(), bench.Predict({.decode_tokens = 2, .decode_context_tokens = 144}));
  // A step without the set leaves it as it is.
  bench.Entry(5, 0);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({}, {{5, 0}}));
  bench.Leave(1, 42);
  bench.Step(Time(), /*standing=*/true);
  EXPECT_EQ(bench.took(), bench.Predict({.decode_tokens = 1, .decode_context_tokens = 103}));
}

TEST(ModelDevice, MixedStepsAreOneStep) {
  Bench bench;
  bench.Join(1, 40);
  bench.Entry(1, 20, /*decode=*/true);
  bench.Entry(9, 16);
  bench.Step(Time(), /*standing=*/true, /*padding=*/3);
  const Duration expected = bench.Predict(
      {.decode_tokens = 2, .decode_context_tokens = 62, .padding_tokens = 3}, {{9, 16}});
  EXPECT_EQ(bench.took(), expected);
  // Nothing of one step is left over for the next.
  bench.Entry(9, 16);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({}, {{9, 16}}));
}

TEST(ModelDevice, PaddingCostsTimeAndNothingElse) {
  Bench bench;
  bench.Entry(1, 40, /*decode=*/true);
  bench.Step(Time(), false, 30);
  EXPECT_EQ(bench.took(),
            bench.Predict({.decode_tokens = 1, .decode_context_tokens = 41, .padding_tokens = 30}));
  EXPECT_GT(bench.took(), bench.Predict({.decode_tokens = 1, .decode_context_tokens = 41}));
}

TEST(ModelDevice, OneShotLaunchesAddUpTheirUnits) {
  Bench bench(ModelKind::kOneShot);
  bench.Entry(5, 0);
  bench.Entry(6, 0);
  bench.Step(Time());
  EXPECT_EQ(bench.took(), bench.Predict({.units = 11}));
}

TEST(ModelDevice, StepsRunOneAfterAnother) {
  Bench bench;
  for (int i = 0; i < 3; ++i) {
    bench.Entry(5, 0);
    bench.Step(Time::Nanos(10 * i));
  }
  EXPECT_EQ(bench.replies[1].start, bench.replies[0].end) << "asked for while the first ran";
  EXPECT_EQ(bench.replies[2].start, bench.replies[1].end);
  const Time later = bench.replies[2].end + Duration::Nanos(100);
  bench.Entry(5, 0);
  bench.Step(later);
  EXPECT_EQ(bench.replies[3].start, later) << "it was idle";
}

TEST(ModelDevice, SaysNothingBeforeAStep) {
  Bench bench;
  bench.Join(1, 40);
  bench.Entry(5, 0);
  bench.Notify(Time::Nanos(5));
  EXPECT_TRUE(bench.replies.empty());
  bench.Step(Time::Nanos(9), /*standing=*/true);
  EXPECT_EQ(bench.took(),
            bench.Predict({.decode_tokens = 1, .decode_context_tokens = 41}, {{5, 0}}));
}

// More entries than the ring holds: the device makes room, and it is still one step.
TEST(ModelDevice, TakesAStepLargerThanTheRing) {
  constexpr std::uint32_t kRequests = 3000;
  const StepTimeModel model(SmallProfile(ModelKind::kDecoder));
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(SmallProfile(ModelKind::kDecoder));
  ScriptedPolicy policy;
  std::vector<Entry> entries;
  policy.on_arrival = [&](Context& context, RequestId request) {
    EXPECT_TRUE(context.memory({0}).Reserve(request, 5));
    entries.push_back({request, 5});
    if (entries.size() < kRequests) return;
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = entries}).ok());
  };
  ListSource source(std::vector<RequestSpec>(kRequests, TokenRequest(0, 5, 1)));
  RequestSource* const sources[] = {&source};
  const RunSummary summary = Simulate(setup, &policy, sources, nullptr, {});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(summary.steps, 1u);
  const std::vector<PrefillChunk> chunks(kRequests, {5, 0, true});
  StepShape shape;
  shape.prefills = chunks;
  EXPECT_EQ(summary.last_end, Time() + model.Predict(shape));
}

// What a policy is told beforehand is what the step takes, and what is recorded of it.
TEST(ModelDevice, PredictionsOfPlansAreWhatTheirStepsTake) {
  const StepTimeModel model(SmallProfile(ModelKind::kDecoder));
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(SmallProfile(ModelKind::kDecoder));
  ScriptedPolicy policy;
  std::vector<Duration> predicted;
  const auto launch = [&](Context& context, const Plan& plan) {
    predicted.push_back(context.services().Predict(plan).value());
    EXPECT_TRUE(context.actions().Launch(plan).ok());
  };
  policy.on_arrival = [&](Context& context, RequestId request) {
    const Entry entry{request, 20};
    context.memory({0}).Reserve(request, 40);
    if (request.value == 0) launch(context, {.device = {0}, .entries = {&entry, 1}});
  };
  policy.on_slot_free = [&](Context& context, DeviceId device) {
    if (!context.live({0})) return;
    context.actions().Join(device, {0});
    const Entry entry{{1}, 10};
    const bool chunk = context.live({1}) && context.request({1}).next_tokens() > 1;
    launch(context, {.device = device,
                     .entries = {&entry, chunk ? 1u : 0u},
                     .standing = true,
                     .padding_tokens = 2});
  };
  ListSource source({TokenRequest(0, 20, 6), TokenRequest(0, 20, 1)});
  RequestSource* const sources[] = {&source};
  RecordingRecorder recorder;
  Simulate(setup, &policy, sources, &recorder, {.steps = true});
  ASSERT_EQ(recorder.steps.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(recorder.steps[i].end - recorder.steps[i].start, predicted.at(i)) << i;
    EXPECT_EQ(recorder.steps[i].predicted_ns, predicted.at(i).ns());
  }
}

TEST(Simulate, TheDeviceIsTheProfiles) {
  const DeviceInfo decoder = DeviceInfoOf(SmallProfile(ModelKind::kDecoder));
  EXPECT_EQ(decoder.name, "fake");
  EXPECT_EQ(decoder.kind, ModelKind::kDecoder);
  EXPECT_EQ(decoder.total_blocks, 5000u);
  EXPECT_EQ(decoder.block_tokens, 16u);
  EXPECT_EQ(decoder.max_model_len_tokens, 4096u);
  EXPECT_EQ(decoder.max_step_tokens, 0u);
  const DeviceInfo one_shot = DeviceInfoOf(SmallProfile(ModelKind::kOneShot));
  EXPECT_EQ(one_shot.max_step_tokens, 48u) << "units in one launch";
  EXPECT_EQ(one_shot.total_blocks, 0u);
}

TEST(Simulate, RunsManyTimesFromOneSetup) {
  const StepTimeModel model(SmallProfile(ModelKind::kDecoder));
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(SmallProfile(ModelKind::kDecoder));
  const auto run = [&] {
    MiniBatch policy(true, 100);
    ListSource source({TokenRequest(0, 20, 6), TokenRequest(5000, 30, 9)});
    RequestSource* const sources[] = {&source};
    return Simulate(setup, &policy, sources, nullptr, {}).decision_digest;
  };
  EXPECT_EQ(run(), run()) << "nothing outlives a run";
}

}  // namespace
}  // namespace schedtwin
