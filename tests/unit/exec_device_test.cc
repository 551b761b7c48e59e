// A device's commands beyond the step, over the seam alone: aborts, operations and their order,
// cancelled ones, models that come and go, KV that is swapped and moved. No run around them: a test
// says everything that the runtime would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cpu_device.h"
#include "exec/cpu_models.h"
#include "exec/decoder_runner.h"
#include "exec/execute.h"
#include "policies/runtime/command_sender.h"
#include "tests/support/fakes.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using Tokens = std::vector<std::int32_t>;
using Blocks = std::vector<std::uint32_t>;

void Nap() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

/// A run's devices, and a test in the runtime's place.
class Seam final : private ReplySink {
 public:
  explicit Seam(const std::vector<MakeStepRunner>& models, std::uint32_t devices = 1,
                std::uint64_t loaded = ~std::uint64_t{0}) {
    for (std::uint32_t i = 0; i < devices; ++i) {
      auto device = CpuDevice::Start(models, loaded, &mailbox_, &clock_, nullptr);
      if (!device.ok()) throw std::runtime_error(device.status().ToString());
      devices_.push_back(*std::move(device));
    }
    for (std::uint32_t i = 0; i < devices; ++i) {
      senders_.emplace_back(devices_[i].get(), &now_);
      devices_[i]->SetPeers(devices_);
      devices_[i]->Attach({i}, senders_[i].ring(), this);
    }
  }
  ~Seam() {
    for (const auto& device : devices_) device->Stop();
  }

  void Tell(const DeviceCommand& command, std::uint32_t device = 0) {
    senders_[device].Send(command);
  }
  /// Of what ends a batch.
  void Send(const DeviceCommand& command, std::uint32_t device = 0) {
    Tell(command, device);
    senders_[device].Notify();
  }
  DeviceReply Await() {
    while (replies_.empty()) time_source_.Advance(Time::Infinite());
    const DeviceReply reply = replies_.front();
    replies_.pop_front();
    return reply;
  }
  DeviceReply Do(const DeviceCommand& command, std::uint32_t device = 0) {
    Send(command, device);
    return Await();
  }
  /// Nothing is to come, and nothing has come that was not awaited.
  bool Quiet() const { return mailbox_.expected() == 0 && replies_.empty(); }

  Time Now() const { return clock_.Now(); }
  CpuDevice& device(std::uint32_t i) { return *devices_[i]; }

 private:
  void Post(const DeviceReply& reply, Time) override { replies_.push_back(reply); }

  WallClock clock_;
  Mailbox mailbox_;
  WallTimeSource time_source_{&clock_, &mailbox_, Wait::kSleep};
  Time now_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::deque<CommandSender> senders_;
  std::deque<DeviceReply> replies_;
};

DeviceCommand StepOf(std::uint32_t plan, std::uint32_t model = 0) {
  return {.kind = CommandKind::kStep, .request = model, .plan = {plan, 1}};
}
DeviceCommand AbortOf(std::uint32_t plan, std::uint32_t step = 0) {
  return {.kind = CommandKind::kAbort, .plan = {plan, 1}, .step = step};
}
DeviceCommand Operation(CommandKind kind, std::uint32_t slot, std::uint32_t model = 0) {
  return {.kind = kind, .request = model, .plan = {slot, 7}};
}
DeviceCommand CancelOf(std::uint32_t slot) { return Operation(CommandKind::kCancel, slot); }

void ExpectIs(const DeviceReply& reply, ReplyKind kind, std::uint32_t slot, ReplyStatus status) {
  EXPECT_EQ(reply.kind, kind) << slot;
  EXPECT_EQ(reply.plan, (PlanId{slot, kind == ReplyKind::kStepDone ? 1u : 7u}));
  EXPECT_EQ(reply.status, status) << slot;
  EXPECT_LE(reply.start, reply.end) << slot;
}

// ---- Order, aborts and cancellations ----

// Steps and loads go on until they are stopped or the gate is open.
class GatedRunner final : public StepRunner {
 public:
  struct Gate {
    std::atomic<bool> open = false;
    std::atomic<int> begun = 0;
    void AwaitBegun(int count) const {
      while (begun < count) Nap();
    }
  };
  explicit GatedRunner(Gate* gate) : gate_(gate) {}

  DeviceInfo info() const override { return TinyDecoderInfo(); }
  bool Load(StopCheck stop) override { return Pass(stop); }
  void Unload() override {}
  void Take(const DeviceCommand&) override {}
  bool RunStep(const DeviceCommand&, StopCheck stop) override { return Pass(stop); }

 private:
  bool Pass(StopCheck stop) const {
    ++gate_->begun;
    for (; !gate_->open; Nap()) {
      if (stop()) return false;
    }
    return !stop();
  }
  Gate* gate_;
};

class ExecDevice : public testing::Test {
 protected:
  GatedRunner::Gate gate;
  Seam seam{{[this] { return std::make_unique<GatedRunner>(&gate); }}, 1, /*loaded=*/0};
};

TEST_F(ExecDevice, DoesOperationsInTheirOrderAfterTheStepThatRuns) {
  seam.Send(StepOf(0));
  gate.AwaitBegun(1);
  seam.Send(Operation(CommandKind::kLoad, 1));
  seam.Send(Operation(CommandKind::kUnload, 2));
  seam.Send({.kind = CommandKind::kCopy, .context_tokens = 0, .plan = {3, 7}});
  seam.Send(Operation(CommandKind::kLoad, 4));
  gate.open = true;
  DeviceReply last = seam.Await();
  ExpectIs(last, ReplyKind::kStepDone, 0, ReplyStatus::kOk);
  for (std::uint32_t slot = 1; slot <= 4; ++slot) {
    const DeviceReply reply = seam.Await();
    ExpectIs(reply, ReplyKind::kOperationDone, slot, ReplyStatus::kOk);
    EXPECT_GE(reply.start, last.end);
    EXPECT_GE(reply.compute_ns, 0);
    last = reply;
  }
  EXPECT_TRUE(seam.Quiet());
}

TEST_F(ExecDevice, AbortsTheStepThatRuns) {
  seam.Send(StepOf(0));
  gate.AwaitBegun(1);
  seam.Send(AbortOf(0));
  ExpectIs(seam.Await(), ReplyKind::kStepDone, 0, ReplyStatus::kAborted);
  gate.open = true;
  ExpectIs(seam.Do(StepOf(1)), ReplyKind::kStepDone, 1, ReplyStatus::kOk);
  EXPECT_TRUE(seam.Quiet());
}

TEST_F(ExecDevice, AbortsAStepThatWaitsBehindAnOperation) {
  seam.Send(Operation(CommandKind::kLoad, 1));
  gate.AwaitBegun(1);
  seam.Send(StepOf(1));  // an operation's handle is another thing than a plan's
  seam.Send(AbortOf(1));
  gate.open = true;
  ExpectIs(seam.Await(), ReplyKind::kOperationDone, 1, ReplyStatus::kOk);
  ExpectIs(seam.Await(), ReplyKind::kStepDone, 1, ReplyStatus::kAborted);
  EXPECT_TRUE(seam.Quiet());
}

TEST_F(ExecDevice, IgnoresAnAbortThatNamesNothingThatRuns) {
  seam.Send(StepOf(3));
  gate.AwaitBegun(1);
  seam.Send(AbortOf(2));
  seam.Send(AbortOf(3, /*step=*/1));
  seam.Send(CancelOf(3));
  gate.open = true;
  ExpectIs(seam.Await(), ReplyKind::kStepDone, 3, ReplyStatus::kOk);
  seam.Send(AbortOf(3));
  ExpectIs(seam.Do(StepOf(4)), ReplyKind::kStepDone, 4, ReplyStatus::kOk);
  EXPECT_TRUE(seam.Quiet());
}

TEST_F(ExecDevice, CancelsOperationsThatWaitOrRunAndNoOthers) {
  seam.Send(Operation(CommandKind::kLoad, 1));
  gate.AwaitBegun(1);
  seam.Send(Operation(CommandKind::kUnload, 2));
  seam.Send({.kind = CommandKind::kCopy, .context_tokens = 0, .plan = {3, 7}});
  seam.Send(Operation(CommandKind::kUnload, 4));
  seam.Send(CancelOf(2));
  seam.Send(CancelOf(3));
  seam.Send(CancelOf(9));
  seam.Send(CancelOf(1));
  for (std::uint32_t slot = 1; slot <= 3; ++slot) {
    ExpectIs(seam.Await(), ReplyKind::kOperationDone, slot, ReplyStatus::kAborted);
  }
  ExpectIs(seam.Await(), ReplyKind::kOperationDone, 4, ReplyStatus::kOk);
  seam.Send(CancelOf(4));
  EXPECT_TRUE(seam.Quiet());
}

TEST_F(ExecDevice, IsStoppedInTheMiddleOfAStep) {
  seam.Send(StepOf(0));
  seam.Send(Operation(CommandKind::kLoad, 1));
  gate.AwaitBegun(1);
  seam.device(0).Stop();  // the gate is shut: only this ends it
  EXPECT_EQ(gate.begun, 1) << "what waited is not begun";
}

TEST(ExecDeviceFailure, OfAnOperationIsTheDevices) {
  class Broken final : public StepRunner {
   public:
    DeviceInfo info() const override { return TinyDecoderInfo(); }
    bool Load(StopCheck) override { throw std::bad_alloc(); }
    void Unload() override {}
    void Take(const DeviceCommand&) override {}
    bool RunStep(const DeviceCommand&, StopCheck) override { return true; }
  };
  Seam seam({[] { return std::make_unique<Broken>(); }}, 1, /*loaded=*/0);
  ExpectIs(seam.Do(StepOf(0)), ReplyKind::kStepDone, 0, ReplyStatus::kOk);
  EXPECT_EQ(seam.device(0).failure(), "");
  ExpectIs(seam.Do(Operation(CommandKind::kLoad, 1)), ReplyKind::kOperationDone, 1,
           ReplyStatus::kFailed);
  EXPECT_EQ(seam.device(0).failure(), "out of memory");
  ExpectIs(seam.Do(StepOf(2)), ReplyKind::kStepDone, 2, ReplyStatus::kFailed);
  EXPECT_TRUE(seam.Quiet());
}

// ---- With a decoder ----

// Deep and of many words, so that what it says hangs on the whole text.
constexpr ModelShape kTalker = {.name = "talker",
                                .decoder = true,
                                .dim = 32,
                                .layers = 8,
                                .heads = 4,
                                .kv_heads = 2,
                                .ffn = 48,
                                .vocab = 3000};
constexpr std::uint32_t kPrompt = 37;
const Blocks kHome = {3, 200, 17, 9};  // four blocks of 16 tokens

/// Small decoders with the plain loops, whose tokens depend on nothing but the text; says what each
/// has made. A model's weights are those of its number.
class Decoders {
 public:
  explicit Decoders(std::uint32_t devices = 1, std::uint32_t models = 1,
                    std::uint64_t loaded = ~std::uint64_t{0})
      : models_(models), seam(Makers(models), devices, loaded) {}

  void SetBlocks(std::uint32_t request, const Blocks& blocks, std::uint32_t device = 0) {
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      seam.Tell({.kind = CommandKind::kBlock,
                 .request = request,
                 .tokens = blocks[i],
                 .context_tokens = i},
                device);
    }
  }
  /// One step: the prompt, or a token more.
  DeviceReply Run(std::uint32_t request, std::uint32_t context_tokens, std::uint32_t device = 0,
                  std::uint32_t model = 0) {
    Entry(request, context_tokens, device);
    return seam.Do(StepOf(steps_++, model), device);
  }
  void Entry(std::uint32_t request, std::uint32_t context_tokens, std::uint32_t device) {
    seam.Tell({.kind = CommandKind::kEntry,
               .decode = context_tokens > 0,
               .samples = true,
               .request = request,
               .tokens = context_tokens == 0 ? kPrompt : 1,
               .context_tokens = context_tokens},
              device);
  }
  void Decode(std::uint32_t request, std::uint32_t from, std::uint32_t to, std::uint32_t device = 0,
              std::uint32_t model = 0) {
    for (std::uint32_t i = from; i < to; ++i) {
      EXPECT_EQ(Run(request, i, device, model).status, ReplyStatus::kOk);
    }
  }
  void Copy(std::uint32_t request, std::pair<std::uint32_t, Tier> from, const Blocks& from_blocks,
            std::pair<std::uint32_t, Tier> to, const Blocks& to_blocks) {
    for (std::uint32_t i = 0; i < from_blocks.size(); ++i) {
      seam.Tell({.kind = CommandKind::kFrom,
                 .request = request,
                 .tokens = from_blocks[i],
                 .context_tokens = i},
                to.first);
      seam.Tell({.kind = CommandKind::kTo,
                 .request = request,
                 .tokens = to_blocks[i],
                 .context_tokens = i},
                to.first);
    }
    seam.Send({.kind = CommandKind::kCopy,
               .request = request,
               .tokens = static_cast<std::uint32_t>(from_blocks.size()),
               .context_tokens = from.first,
               .plan = {90, 7},
               .step = static_cast<std::uint32_t>(to.second),
               .entries = static_cast<std::uint32_t>(from.second)},
              to.first);
  }
  /// REQUIRES: the device's worker has nothing to do.
  Tokens Made(std::uint32_t request, std::uint32_t device = 0, std::uint32_t model = 0) {
    return runners_[device * models_ + model]->made(request);
  }

 private:
  std::vector<MakeStepRunner> Makers(std::uint32_t models) {
    std::vector<MakeStepRunner> makers;
    for (std::uint32_t i = 0; i < models; ++i) {
      makers.push_back([this, i] {
        auto runner = std::make_unique<DecoderRunner>(kTalker, TinyDecoderInfo(), i + 1,
                                                      LinearBackendKind::kPlain);
        runners_.push_back(runner.get());
        return runner;
      });
    }
    return makers;
  }

  std::uint32_t models_;
  std::uint32_t steps_ = 0;
  std::vector<DecoderRunner*> runners_;  ///< in the order of their making: by device, then model

 public:
  Seam seam;  ///< last: its devices' making fills runners_
};

constexpr std::uint32_t kEnd = kPrompt + 20;

/// What request 1 makes when nobody disturbs it.
Tokens Undisturbed(std::uint32_t model = 0) {
  Decoders alone(1, model + 1);
  alone.SetBlocks(1, kHome);
  alone.Decode(1, 0, 1, 0, model);
  alone.Decode(1, kPrompt, kEnd, 0, model);
  return alone.Made(1, 0, model);
}

TEST(ExecDeviceCopy, ARequestSwappedOutAndInGoesOnAsIfItHadStayed) {
  Decoders run;
  const Blocks host = {255, 0, 100}, other = {1, 2, 4, 5};
  run.SetBlocks(1, kHome);
  run.Decode(1, 0, 1);
  run.Decode(1, kPrompt, kPrompt + 8);
  run.Copy(1, {0, Tier::kDevice}, {3, 200, 17}, {0, Tier::kHost}, host);
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kOk);
  run.SetBlocks(2, kHome);  // its blocks are another's now
  run.Decode(2, 0, 1);
  run.Copy(1, {0, Tier::kHost}, host, {0, Tier::kDevice}, {1, 2, 4});
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kOk);
  run.SetBlocks(1, other);
  run.Decode(1, kPrompt + 8, kEnd);
  EXPECT_EQ(run.Made(1), Undisturbed());
}

TEST(ExecDeviceCopy, ARequestMovedToAnotherDeviceGoesOnAsIfItHadStayed) {
  Decoders run(2);
  for (const std::uint32_t request : {1u, 2u}) {
    run.SetBlocks(request, request == 1 ? kHome : Blocks{50, 51, 52, 53});
    run.Decode(request, 0, 1);
  }
  run.Decode(1, kPrompt, kPrompt + 8);
  // Device 0 computes meanwhile, and forgets and learns of requests.
  run.Copy(1, {0, Tier::kDevice}, {3, 200, 17}, {1, Tier::kDevice}, {8, 7, 6});
  std::uint32_t steps = 0;
  for (bool copied = false; !copied || steps < 10; ++steps) {
    run.SetBlocks(100 + steps, {90});
    run.seam.Tell({.kind = CommandKind::kEnd, .request = 100 + steps});
    run.Entry(2, kPrompt + steps % 16, 0);
    run.seam.Send(StepOf(1000 + steps));
    for (bool stepped = false; !stepped;) {
      const DeviceReply reply = run.seam.Await();
      EXPECT_EQ(reply.status, ReplyStatus::kOk);
      stepped = reply.kind == ReplyKind::kStepDone;
      copied = copied || !stepped;
    }
  }
  run.SetBlocks(1, {8, 7, 6, 5}, 1);
  run.Decode(1, kPrompt + 8, kEnd, 1);
  EXPECT_EQ(run.Made(1, 1), Undisturbed());
  // And back again, by way of the other's host tier.
  run.Copy(1, {1, Tier::kDevice}, {8, 7, 6, 5}, {1, Tier::kHost}, {0, 1, 2, 3});
  run.seam.Await();
  run.Copy(1, {1, Tier::kHost}, {0, 1, 2, 3}, {0, Tier::kDevice}, {60, 61, 62, 63});
  run.seam.Await();
  EXPECT_EQ(run.Made(1, 0), Undisturbed());
}

TEST(ExecDeviceCopy, TakesTheTextAlongThatADeviceAloneWouldNotKnow) {
  Decoders run(2);
  run.SetBlocks(1, kHome);
  run.Decode(1, 0, 1);
  run.Decode(1, kPrompt, kPrompt + 8);
  run.Copy(1, {0, Tier::kDevice}, {}, {1, Tier::kDevice}, {});  // of its KV nothing
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kOk);
  EXPECT_EQ(run.Made(1, 1), run.Made(1, 0));
}

TEST(ExecDeviceCopy, OfBlocksThatDoNotExistFailsTheDevice) {
  Decoders run;
  run.Copy(1, {0, Tier::kDevice}, {256}, {0, Tier::kHost}, {0});
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kFailed);
  EXPECT_EQ(run.seam.device(0).failure(), "a block lies outside the KV pool");
}

TEST(ExecDeviceCopy, FromWhereNothingHasBeenFailsTheDevice) {
  Decoders run(1, 1, /*loaded=*/0);
  run.Copy(1, {0, Tier::kDevice}, {1}, {0, Tier::kHost}, {0});
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kFailed);
  EXPECT_THAT(run.seam.device(0).failure(), testing::HasSubstr("no KV"));
}

TEST(ExecDeviceModels, AreLoadedAndUnloadedAndKeepWhatTheirRequestsHave) {
  Decoders run(1, 2, /*loaded=*/0);
  run.SetBlocks(1, kHome);  // told before there is a model that could use them
  run.SetBlocks(2, {20, 21, 22, 23});
  ExpectIs(run.seam.Do(Operation(CommandKind::kLoad, 1, /*model=*/1)), ReplyKind::kOperationDone, 1,
           ReplyStatus::kOk);
  run.Decode(1, 0, 1, 0, 1);
  run.Decode(1, kPrompt, kPrompt + 8, 0, 1);
  run.seam.Send(Operation(CommandKind::kUnload, 2, 1));
  run.seam.Send(Operation(CommandKind::kLoad, 3, 0));
  for (const std::uint32_t slot : {2u, 3u}) {
    ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, slot, ReplyStatus::kOk);
  }
  run.Decode(2, 0, 1, 0, 0);
  ExpectIs(run.seam.Do(Operation(CommandKind::kLoad, 4, 1)), ReplyKind::kOperationDone, 4,
           ReplyStatus::kOk);
  run.Decode(1, kPrompt + 8, kEnd, 0, 1);
  EXPECT_EQ(run.Made(1, 0, 1), Undisturbed(1));
  EXPECT_TRUE(run.Made(1, 0, 0).empty()) << "a step is one model's";
  EXPECT_NE(Undisturbed(0), Undisturbed(1));
}

TEST(ExecDeviceModels, MoveWithTheirRequestsToADeviceThatHasNotLoadedThem) {
  Decoders run(2, 2, /*loaded=*/0);
  run.seam.Do(Operation(CommandKind::kLoad, 1, 1));
  run.SetBlocks(1, kHome);
  run.Decode(1, 0, 1, 0, 1);
  run.Decode(1, kPrompt, kPrompt + 8, 0, 1);
  run.Copy(1, {0, Tier::kDevice}, {3, 200, 17}, {1, Tier::kDevice}, {8, 7, 6});
  ExpectIs(run.seam.Await(), ReplyKind::kOperationDone, 90, ReplyStatus::kOk);
  run.seam.Do(Operation(CommandKind::kLoad, 2, 1), 1);
  run.SetBlocks(1, {8, 7, 6, 5}, 1);
  run.Decode(1, kPrompt + 8, kEnd, 1, 1);
  EXPECT_EQ(run.Made(1, 1, 1), Undisturbed(1));
}

// ---- An abort's time ----

constexpr ModelShape kDeep = {.name = "deep",
                              .decoder = true,
                              .dim = 256,
                              .layers = 12,
                              .heads = 8,
                              .kv_heads = 8,
                              .ffn = 1024,
                              .vocab = 64};

TEST(ExecDeviceAbort, TakesLessThanALayerLonger) {
  constexpr std::uint32_t kTokens = 64;
  DeviceInfo info = TinyDecoderInfo();
  info.layers = kDeep.layers;
  DecoderRunner* runner = nullptr;
  Seam seam({[&] {
    auto made = std::make_unique<DecoderRunner>(kDeep, info, 1);
    runner = made.get();
    return made;
  }});
  for (std::uint32_t i = 0; i < kTokens / 16; ++i) {
    seam.Tell({.kind = CommandKind::kBlock, .request = 1, .tokens = i, .context_tokens = i});
  }
  const auto start = [&](std::uint32_t plan) {
    seam.Tell({.kind = CommandKind::kEntry, .samples = true, .request = 1, .tokens = kTokens});
    seam.Send(StepOf(plan));
  };
  // The machine may stop any of the threads at any time: the best of some attempts is the device's.
  Duration step = Duration::Infinite(), least = Duration::Infinite();
  for (std::uint32_t attempt = 0; attempt < 3; ++attempt) {
    start(attempt);
    const DeviceReply whole = seam.Await();
    step = std::min(step, whole.end - whole.start);
  }
  const Tokens made = runner->made(1);
  ASSERT_EQ(made.size(), 1u);
  for (std::uint32_t attempt = 3; attempt < 13; ++attempt) {
    start(attempt);
    const Time from = seam.Now();
    while ((seam.Now() - from).ns() < step.ns() / 3) Nap();
    const Time aborted = seam.Now();
    seam.Send(AbortOf(attempt));
    const DeviceReply reply = seam.Await();
    if (reply.status != ReplyStatus::kAborted) continue;  // it was over before it could be cut
    EXPECT_GE(reply.compute_ns, 0);
    if (reply.start < aborted) least = std::min(least, reply.end - aborted);
  }
  EXPECT_LT(least.ns(), step.ns() / static_cast<std::int64_t>(kDeep.layers))
      << "the whole step takes " << step.ns() << " ns";
  RecordProperty("abort_us", static_cast<int>(least.ns() / 1000));
  RecordProperty("layer_us", static_cast<int>(step.ns() / kDeep.layers / 1000));
  start(20);
  EXPECT_EQ(seam.Await().status, ReplyStatus::kOk);
  EXPECT_EQ(runner->made(1).back(), made.back()) << "as if the cut ones had not been";
}

// ---- The start of a run ----

TEST(ExecDeviceStart, LoadsTheModelsOfTheDevicesThatAreThere) {
  class Counting final : public StepRunner {
   public:
    explicit Counting(std::atomic<int>* loads) : loads_(loads) {}
    DeviceInfo info() const override { return TinyDecoderInfo(); }
    bool Load(StopCheck) override { return ++*loads_ > 0; }
    void Unload() override {}
    void Take(const DeviceCommand&) override {}
    bool RunStep(const DeviceCommand&, StopCheck) override { return true; }

   private:
    std::atomic<int>* loads_;
  };
  std::atomic<int> first = 0, second = 0;
  ExecSetup setup;
  setup.make_models = {[&] { return std::make_unique<Counting>(&first); },
                       [&] { return std::make_unique<Counting>(&second); }};
  setup.devices = 3;
  setup.loaded_models = 1;
  setup.world.devices_at_start = 2;
  const std::unique_ptr<Policy> policy = policy_testing::MakePolicy("vllm_v1", {});
  ListSource source({TokenRequest(0, 8, 2)});
  RequestSource* const sources[] = {&source};
  RecordingRecorder recorder;
  const auto result = Execute(setup, policy.get(), sources, &recorder, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 0);
}

TEST(ExecDeviceStart, ManyModelsShareTheNarrowestLimits) {
  const std::string_view both[] = {"llama-15m", "llama-110m"};
  const DeviceInfo small = *CpuDeviceInfo(both[0]), large = *CpuDeviceInfo(both[1]);
  const auto info = CpuDeviceInfo(both);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LT(large.total_blocks, small.total_blocks);
  EXPECT_EQ(info->total_blocks, large.total_blocks);
  EXPECT_EQ(info->host_blocks, large.total_blocks);
  EXPECT_EQ(info->block_bytes, large.block_bytes);
  EXPECT_EQ(info->layers, small.layers);
  const std::string_view mixed[] = {"llama-15m", "bert-base"};
  EXPECT_TRUE(absl::IsInvalidArgument(CpuDeviceInfo(mixed).status()));
  const std::string_view unknown[] = {"llama-15m", "llama-9000b"};
  EXPECT_TRUE(absl::IsNotFound(CpuDeviceInfo(unknown).status()));
}

}  // namespace
}  // namespace schedtwin
