// ModelDevice: every step takes as long as the profile's model says for what the messages describe,
// and steps run one after another; copies and loads take what the links say, each way in a line of
// its own; what is cut or cancelled ends when it should, and gives its time back.
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

/// A block is 100 bytes: 110 ns to the host or back, 250 ns from a peer; a byte of weights 10 ns.
DeviceInfo WithLinks(DeviceInfo info) {
  info.block_bytes = 100;
  info.host_link = {Duration::Nanos(10), 1'000'000'000};
  info.peer_link = {Duration::Nanos(50), 500'000'000};
  info.load_link = {Duration(), 100'000'000};
  return info;
}

/// A device alone, with a test at the other end of the seam. It is number 3.
class Bench final : public ReplySink {
 public:
  explicit Bench(ModelKind kind = ModelKind::kDecoder)
      : Bench(WithLinks(DeviceInfoOf(SmallProfile(kind))), StepTimeModel(SmallProfile(kind))) {}
  Bench(DeviceInfo info, StepTimeModel model)
      : model_(std::move(model)), device_(std::move(info), &model_), ring_(6) {
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
  void Copy(Time now, std::uint32_t operation, std::uint32_t blocks, Tier from, Tier to,
            std::uint32_t from_device = 3, bool blocking = false) {
    ring_.Push({.kind = CommandKind::kCopy,
                .blocking = blocking,
                .tokens = blocks,
                .context_tokens = from_device,
                .plan = {operation, 0},
                .step = static_cast<std::uint32_t>(to),
                .entries = static_cast<std::uint32_t>(from)});
    device_.Notify(now);
  }
  void Out(Time now, std::uint32_t operation, std::uint32_t blocks, bool blocking = false) {
    Copy(now, operation, blocks, Tier::kDevice, Tier::kHost, 3, blocking);
  }
  void In(Time now, std::uint32_t operation, std::uint32_t blocks, bool blocking = false) {
    Copy(now, operation, blocks, Tier::kHost, Tier::kDevice, 3, blocking);
  }
  void Load(Time now, std::uint32_t operation, std::uint64_t bytes, std::uint32_t peer = 0) {
    ring_.Push({.kind = CommandKind::kLoad,
                .tokens = static_cast<std::uint32_t>(bytes >> 32),
                .context_tokens = static_cast<std::uint32_t>(bytes),
                .plan = {operation, 0},
                .entries = peer});
    device_.Notify(now);
  }
  void Unload(Time now, std::uint32_t operation) {
    ring_.Push({.kind = CommandKind::kUnload, .plan = {operation, 0}});
    device_.Notify(now);
  }
  void Cancel(Time now, std::uint32_t operation) {
    ring_.Push({.kind = CommandKind::kCancel, .plan = {operation, 0}});
    device_.Notify(now);
  }
  void Abort(Time now, bool layer, std::uint32_t step = 9) {
    ring_.Push({.kind = CommandKind::kAbort, .layer = layer, .plan = {5, 6}, .step = step});
    device_.Notify(now);
  }
  /// That the latest answer is of this operation, or of the step, with this status and these times.
  void Expect(ReplyKind kind, std::uint32_t operation, ReplyStatus status, std::int64_t start,
              std::int64_t end) {
    ASSERT_FALSE(replies.empty());
    const DeviceReply& reply = replies.back();
    EXPECT_EQ(reply.kind, kind);
    EXPECT_EQ(reply.plan.slot, kind == ReplyKind::kStepDone ? 5u : operation);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.start.ns(), start);
    EXPECT_EQ(reply.end.ns(), end);
    EXPECT_EQ(reply.device.value, 3u);
  }
  void ExpectDone(std::uint32_t operation, std::int64_t start, std::int64_t end) {
    Expect(ReplyKind::kOperationDone, operation, ReplyStatus::kOk, start, end);
  }
  void ExpectCancelled(std::uint32_t operation, std::int64_t start, std::int64_t end) {
    Expect(ReplyKind::kOperationDone, operation, ReplyStatus::kAborted, start, end);
  }
  void ExpectCut(std::int64_t start, std::int64_t end) {
    Expect(ReplyKind::kStepDone, 0, ReplyStatus::kAborted, start, end);
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

// ---- Copies and loads ----

TEST(ModelDeviceCopies, TakeWhatTheirLinkSays) {
  Bench bench;
  bench.Out(Time::Nanos(5), 1, 3);
  bench.ExpectDone(1, 5, 315);
  bench.In(Time::Nanos(6), 2, 2);
  bench.ExpectDone(2, 6, 216);
  Bench other;
  other.Copy(Time::Nanos(7), 3, 2, Tier::kDevice, Tier::kDevice, /*from_device=*/1);
  other.ExpectDone(3, 7, 457);
  Bench host;
  host.Copy(Time::Nanos(7), 4, 2, Tier::kDevice, Tier::kHost, /*from_device=*/1);
  host.ExpectDone(4, 7, 457);
}

TEST(ModelDeviceCopies, EachWayIsALineBesideTheSteps) {
  Bench bench;
  bench.Entry(5, 0);
  bench.Step(Time());
  const Time step_end = bench.replies.back().end;
  bench.Out(Time::Nanos(10), 1, 1);
  bench.ExpectDone(1, 10, 120);
  bench.Out(Time::Nanos(20), 2, 1);
  bench.ExpectDone(2, 120, 230);
  bench.In(Time::Nanos(20), 3, 1);
  bench.ExpectDone(3, 20, 130);
  bench.Copy(Time::Nanos(30), 4, 1, Tier::kDevice, Tier::kDevice, /*from_device=*/1);
  bench.ExpectDone(4, 130, 380);
  bench.Load(Time::Nanos(40), 5, 20);
  bench.ExpectDone(5, 40, 240);
  bench.Out(Time::Nanos(1000), 6, 1);
  bench.ExpectDone(6, 1000, 1110);
  bench.Entry(5, 0);
  bench.Step(Time::Nanos(50));
  EXPECT_EQ(bench.replies.back().start, step_end) << "steps wait for none of them";
}

TEST(ModelDeviceCopies, BlockingOnesHaveTheirPlaceBetweenTheSteps) {
  Bench bench;
  bench.Entry(5, 0);
  bench.Step(Time());
  const std::int64_t end = bench.replies.back().end.ns();
  bench.Out(Time::Nanos(10), 1, 1, /*blocking=*/true);
  bench.ExpectDone(1, end, end + 110);
  bench.In(Time::Nanos(10), 2, 1, /*blocking=*/true);
  bench.ExpectDone(2, end + 110, end + 220);
  bench.Entry(5, 0);
  bench.Step(Time::Nanos(20));
  EXPECT_EQ(bench.replies.back().start.ns(), end + 220);
}

TEST(ModelDeviceCopies, LoadsAreOneAfterAnother) {
  Bench bench;
  bench.Load(Time::Nanos(5), 1, 30);
  bench.ExpectDone(1, 5, 305);
  bench.Load(Time::Nanos(6), 2, 10, /*peer=*/1);
  bench.ExpectDone(2, 305, 375);
  bench.Unload(Time::Nanos(7), 3);
  bench.ExpectDone(3, 375, 375);
  bench.Load(Time::Nanos(8), 4, (std::uint64_t{1} << 32) + 1);
  bench.ExpectDone(4, 375, 375 + 10 * ((std::int64_t{1} << 32) + 1));
}

TEST(ModelDeviceCopies, ADeviceThatStartsWithoutALoadLinkHasItsModelsAtOnce) {
  Bench bench(DeviceInfoOf(SmallProfile(ModelKind::kDecoder)),
              StepTimeModel(SmallProfile(ModelKind::kDecoder)));
  bench.Load(Time::Nanos(5), 1, 30);
  bench.ExpectDone(1, 5, 5);
}

TEST(ModelDeviceCancel, InTheMiddleItEndsAndTheLineIsFree) {
  Bench bench;
  bench.Out(Time::Nanos(10), 1, 1);
  bench.Cancel(Time::Nanos(60), 1);
  bench.ExpectCancelled(1, 10, 60);
  bench.Out(Time::Nanos(70), 2, 1);
  bench.ExpectDone(2, 70, 180);
}

TEST(ModelDeviceCancel, NotBegunItNeverDoes) {
  Bench bench;
  bench.Out(Time::Nanos(10), 1, 1);
  bench.Out(Time::Nanos(20), 2, 1);  // 120 to 230
  bench.Cancel(Time::Nanos(30), 2);
  bench.ExpectCancelled(2, 30, 30);
  bench.Out(Time::Nanos(40), 3, 1);
  bench.ExpectDone(3, 120, 230);
}

TEST(ModelDeviceCancel, WhatStandsBehindKeepsItsTime) {
  Bench bench;
  bench.Out(Time::Nanos(10), 1, 1);
  bench.Out(Time::Nanos(20), 2, 1);  // 120 to 230
  bench.Cancel(Time::Nanos(30), 1);
  bench.ExpectCancelled(1, 10, 30);
  bench.Out(Time::Nanos(40), 3, 1);
  bench.ExpectDone(3, 230, 340);
}

TEST(ModelDeviceCancel, TooLateUnknownOrTwiceItSaysNothing) {
  Bench bench;
  bench.Out(Time::Nanos(10), 1, 1);
  bench.Cancel(Time::Nanos(120), 1);
  bench.Cancel(Time::Nanos(60), 7);
  EXPECT_EQ(bench.replies.size(), 1u);
  bench.In(Time::Nanos(130), 2, 1);
  bench.Cancel(Time::Nanos(140), 2);
  bench.Cancel(Time::Nanos(140), 2);
  EXPECT_EQ(bench.replies.size(), 3u);
}

TEST(ModelDeviceCancel, BlockingOneGivesItsPlaceBack) {
  Bench bench;
  bench.Entry(5, 0);
  bench.Step(Time());
  const std::int64_t end = bench.replies.back().end.ns();
  bench.In(Time::Nanos(10), 1, 1, /*blocking=*/true);
  bench.Cancel(Time::Nanos(20), 1);
  bench.ExpectCancelled(1, 20, 20);
  bench.Entry(5, 0);
  bench.Step(Time::Nanos(30));
  EXPECT_EQ(bench.replies.back().start.ns(), end);
}

// ---- Steps that are cut ----

/// A one-shot launch of `units` ns, on a device whose model has four layers and no overhead.
struct FourLayers {
  explicit FourLayers(std::uint32_t units) : bench(Info(), Model()) {
    bench.Entry(units, 0);
    bench.Step(Time::Nanos(100));
    EXPECT_EQ(bench.took().ns(), units);
  }
  static DeviceInfo Info() {
    DeviceInfo info;
    info.kind = ModelKind::kOneShot;
    info.layers = 4;
    return WithLinks(info);
  }
  static StepTimeModel Model() { return StepTimeModel::Linear(Duration(), Duration::Nanos(1)); }
  Bench bench;
};

TEST(ModelDeviceAbort, NowIsNow) {
  FourLayers four(400);
  four.bench.Abort(Time::Nanos(123), /*layer=*/false);
  four.bench.ExpectCut(100, 123);
  four.bench.Entry(400, 0);
  four.bench.Step(Time::Nanos(130));
  EXPECT_EQ(four.bench.replies.back().start, Time::Nanos(130)) << "it is idle";
}

TEST(ModelDeviceAbort, AtTheEndOfTheLayerThatRuns) {
  for (const auto& [at, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {100, 200}, {101, 200}, {200, 200}, {201, 300}, {299, 300}, {300, 300}, {400, 400}}) {
    FourLayers four(400);
    four.bench.Abort(Time::Nanos(at), /*layer=*/true);
    four.bench.ExpectCut(100, end);
  }
}

TEST(ModelDeviceAbort, LayersAreEqualToTheNanosecond) {  // they end at 2, 5, 8 and 11
  for (const auto& [at, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 2}, {2, 2}, {3, 5}, {5, 5}, {6, 8}, {8, 8}}) {
    FourLayers four(11);
    four.bench.Abort(Time::Nanos(100 + at), /*layer=*/true);
    four.bench.ExpectCut(100, 100 + end);
  }
}

TEST(ModelDeviceAbort, InTheLastLayerItIsAsGoodAsDone) {
  FourLayers four(400);
  four.bench.Abort(Time::Nanos(401), /*layer=*/true);
  four.bench.Abort(Time::Nanos(500), /*layer=*/false);
  EXPECT_EQ(four.bench.replies.size(), 1u);
}

TEST(ModelDeviceAbort, HostOverheadIsNoLayer) {
  Bench bench;  // two layers after 1000 ns
  bench.Entry(5, 0);
  bench.Step(Time());
  const std::int64_t first = 1000 + (bench.took().ns() - 1000) / 2;
  bench.Abort(Time::Nanos(400), /*layer=*/true);
  bench.ExpectCut(0, first);
}

TEST(ModelDeviceAbort, TwiceAndOfAnotherStepItSaysNothing) {
  FourLayers four(400);
  four.bench.Abort(Time::Nanos(110), /*layer=*/false, /*step=*/8);
  EXPECT_EQ(four.bench.replies.size(), 1u);
  four.bench.Abort(Time::Nanos(120), /*layer=*/false);
  four.bench.Abort(Time::Nanos(120), /*layer=*/true);
  EXPECT_EQ(four.bench.replies.size(), 2u);
}

// The copy has its time already: what comes next is after it, not beside it.
TEST(ModelDeviceAbort, StepsStayBehindABlockingCopyThatIsBehindTheOneCut) {
  FourLayers four(400);
  four.bench.Out(Time::Nanos(110), 1, 1, /*blocking=*/true);
  four.bench.ExpectDone(1, 500, 610);
  four.bench.Abort(Time::Nanos(150), /*layer=*/false);
  four.bench.ExpectCut(100, 150);
  four.bench.Entry(400, 0);
  four.bench.Step(Time::Nanos(160));
  EXPECT_EQ(four.bench.replies.back().start, Time::Nanos(610));
}

// ---- Whole runs ----

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
  EXPECT_EQ(decoder.layers, 2u);
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
