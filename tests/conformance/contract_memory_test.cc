// The contract, in each world: memory. Transactions, the prefix cache, preemption, and the copies
// that move a request's KV: swaps, transfers, stages of a live migration, and their cancellation.
#include <string>
#include <tuple>

#include "tests/conformance/contract_testing.h"
#include "tests/support/texts.h"

namespace schedtwin {
namespace {

class ContractMemory : public testing::TestWithParam<TestWorld> {};

/// Lets request 0 be served until it has made two tokens, and then, between two plans, calls
/// Disturb. It is held back from there on, until ServeAgain.
class Disturbing : public Server {
 public:
  void OnPlanDone(Context& context, const PlanDone&) override {
    if (disturbed || !context.live(kIt) || context.request(kIt).output_tokens() < 2) return;
    disturbed = true;
    HoldBack(kIt);
    Disturb(context);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    EXPECT_TRUE(done.ok);
    EXPECT_LE(done.start, done.end);
    EXPECT_LE(done.end, context.now());
    ended.push_back(done.kind);
    Next(context, done);
  }
  virtual void Disturb(Context& context) = 0;
  virtual void Next(Context& context, const OperationDone&) { ServeAgain(context, kIt); }

  static constexpr RequestId kIt = {0};
  bool disturbed = false;
  std::vector<OperationKind> ended;
};

const std::vector<RequestSpec> kPair = {TokenRequest(0, 40, 12), TokenRequest(0, 9, 20)};

constexpr RequestId kA = {0}, kB = {1};

TEST_P(ContractMemory, ATransactionIsTriedRolledBackCommittedOrLeftOpen) {
  struct Scenario final : Server {
    void OnSlotFree(Context& context, DeviceId device) override {
      if (!tried) {
        tried = true;
        At(context, 1);
        return Try(context, context.memory(device));
      }
      Serve(context, device);
    }
    void Try(Context& context, Memory& memory) {
      const DeviceView& view = context.device(kFirst);
      memory.Rollback({});  // of nothing: refused
      EXPECT_FALSE(memory.Release(kNoRequest));
      EXPECT_TRUE(memory.Reserve(kA, 64));
      MemoryMark mark = memory.Begin();
      EXPECT_FALSE(memory.Reserve(kB, 80));
      EXPECT_TRUE(memory.Release(kA)) << "what if it were gone?";
      EXPECT_TRUE(memory.Reserve(kB, 80));
      EXPECT_EQ(view.free_blocks, 3u);
      const Entry entry = {kB, 70};
      EXPECT_EQ(context.actions().Launch({.device = kFirst, .entries = {&entry, 1}}).refusal,
                Refusal::kBadArgument);
      memory.Rollback(mark);
      EXPECT_EQ(view.free_blocks, 4u);
      EXPECT_EQ(context.request(kA).owned_blocks(), 4u);
      EXPECT_EQ(context.request(kB).owned_blocks(), 0u);
      mark = memory.Begin();
      EXPECT_TRUE(memory.Release(kA));
      EXPECT_TRUE(memory.Reserve(kB, 80));
      memory.Commit(mark);
      EXPECT_EQ(context.request(kA).owned_blocks(), 0u);
      EXPECT_EQ(context.request(kB).owned_blocks(), 5u);
      memory.Begin();
      EXPECT_TRUE(memory.Reserve(kA, 16));  // and is left open
    }
    void OnTimer(Context& context, std::uint64_t) override {
      EXPECT_EQ(context.request(kA).owned_blocks(), 0u) << "rolled back when the callback returned";
      EXPECT_EQ(context.device(kFirst).free_blocks, 3u);
      PokeAll(context);
    }
    bool tried = false;
  };
  TwoWorlds run;
  run.device.total_blocks = 8;
  PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 60, 4), TokenRequest(0, 70, 4)});
}

TEST_P(ContractMemory, WhatIsReleasedIsFencedUntilTheStepInFlightHasEnded) {
  struct Scenario final : Server {
    void OnSlotFree(Context& context, DeviceId device) override {
      if (launched) return Serve(context, device);
      launched = true;
      LaunchOne(context, device, {0});
      EXPECT_TRUE(context.memory(device).Reserve({1}, 32));
      At(context, 1);
    }
    void OnTimer(Context& context, std::uint64_t) override {
      EXPECT_FALSE(context.memory(kFirst).Release({0})) << "its step runs";
      EXPECT_TRUE(context.memory(kFirst).Release({1}));
      EXPECT_EQ(context.device(kFirst).fenced_blocks, 2u);
    }
    void OnPlanDone(Context& context, const PlanDone&) override {
      EXPECT_EQ(context.device(kFirst).fenced_blocks, 0u);
    }
    bool launched = false;
  };
  TwoWorlds run;
  run.layer_pause = Duration::Millis(10);
  PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 40, 2), TokenRequest(0, 20, 2)});
}

TEST_P(ContractMemory, CachedBlocksAreAdoptedPinnedAndEvicted) {
  struct Scenario final : Server {
    void OnArrival(Context& context, RequestId request) override {
      Actions& actions = context.actions();
      Server::OnArrival(context, request);
      Cache& cache = context.cache(kFirst);
      if (request.value == 0) {
        EXPECT_EQ(cache.Adopt(request, 100), 0u) << "nothing is cached yet";
        EXPECT_EQ(actions.Pin(request, true), Refusal::kBadArgument);
        EXPECT_EQ(actions.Evict(kFirst, 1), Refusal::kBadArgument);
        return;
      }
      EXPECT_EQ(cache.HitTokens(request), 32u);
      EXPECT_EQ(actions.Pin(request, true), Refusal::kNone);
      EXPECT_EQ(cache.HitFreeBlocks(request), 0u) << "pinned";
      EXPECT_EQ(context.device(kFirst).cached_blocks, 1u) << "the other's third";
      EXPECT_EQ(actions.Evict(kFirst, 1), Refusal::kNone);
      EXPECT_EQ(actions.Evict(kFirst, 1), Refusal::kBadArgument) << "what is pinned stays";
      EXPECT_EQ(actions.Pin(request, false), Refusal::kNone);
      const MemoryMark mark = context.memory(kFirst).Begin();
      EXPECT_EQ(cache.Adopt(request, 100), 32u);
      context.memory(kFirst).Commit(mark);
      EXPECT_EQ(context.request(request).scheduled_tokens(), 32u);
    }
    void OnCacheChange(Context&, const CacheChange& change) override {
      EXPECT_EQ(change.device, kFirst);
      EXPECT_EQ(change.tier, Tier::kDevice);
      stored += change.stored_blocks;
      evicted += change.evicted_blocks;
    }
    std::uint32_t stored = 0, evicted = 0;
  };
  Texts texts;
  TwoWorlds run;
  run.options.prefix_cache = true;
  const std::vector<RequestSpec> requests = {texts.Request(0, {{1, 40}, {2, 9}}, 4),
                                             texts.Request(100'000'000, {{1, 40}, {3, 5}}, 4)};
  const auto played = PlayThrough<Scenario>(run, GetParam(), requests);
  EXPECT_EQ(run.recorder.Find(1)->cached_tokens, 32u);
  EXPECT_EQ(played.policy->stored, 3u) << "the full blocks of the first prompt";
  EXPECT_EQ(played.policy->evicted, 1u);
}

TEST_P(ContractMemory, PreemptedByRecomputeItIsComputedAgain) {
  struct Scenario final : Disturbing {
    void Disturb(Context& context) override {
      EXPECT_EQ(context.actions().Preempt(kIt, PreemptMode::kRecompute), Refusal::kNone);
      EXPECT_EQ(context.actions().Preempt(kIt, PreemptMode::kRecompute), Refusal::kBadArgument);
      EXPECT_EQ(context.request(kIt).owned_blocks(), 0u);
      EXPECT_EQ(context.request(kIt).next_tokens(), 42u);
      ServeAgain(context, kIt);
    }
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kPair);
  EXPECT_EQ(played.summary.preemptions, 1u);
  EXPECT_EQ(run.recorder.Find(0)->recomputed_tokens, 41u);
}

/// Swaps it out, and in again.
class Swapping : public Disturbing {
 public:
  explicit Swapping(PreemptMode mode) : mode_(mode) {}
  void Disturb(Context& context) override {
    const DeviceView& view = context.device(kFirst);
    const std::uint32_t free = view.free_blocks;
    EXPECT_EQ(context.actions().Preempt(kIt, mode_), Refusal::kNone);
    EXPECT_EQ(context.actions().Preempt(kIt, mode_), Refusal::kMoving);
    EXPECT_EQ(context.request(kIt).state(), RequestState::kMoving);
    const bool at_once = mode_ == PreemptMode::kSwapBlocking;
    EXPECT_EQ(view.free_blocks + view.fenced_blocks, free + (at_once ? 3 : 0));
    EXPECT_EQ(view.host_free_blocks, view.host_blocks - 3);
  }
  void Next(Context& context, const OperationDone& done) override {
    if (done.kind != OperationKind::kSwapOut) return Disturbing::Next(context, done);
    EXPECT_EQ(context.request(kIt).tier(), Tier::kHost);
    const Entry entry = {kIt, 1};
    EXPECT_FALSE(context.memory(kFirst).Reserve(kIt, 64));
    const auto run_it = [&](DeviceId device) {
      return context.actions().Launch({.device = device, .entries = {&entry, 1}}).refusal;
    };
    if (context.device(kFirst).depth_left() > 0) {
      EXPECT_EQ(run_it(kFirst), Refusal::kOnHost);
    }
    MoveIn(context);
  }
  virtual void MoveIn(Context& context) { Move(context, kFirst); }

 protected:
  static void Move(Context& context, DeviceId to) {
    TransferSpec in;
    in.request = kIt;
    in.from = kFirst;
    in.to = to;
    in.from_tier = Tier::kHost;
    EXPECT_EQ(context.actions().Transfer(in).refusal, Refusal::kNone);
  }

 private:
  PreemptMode mode_;
};

TEST_P(ContractMemory, SwappedOutAndInItGoesOn) {
  for (const PreemptMode mode : {PreemptMode::kSwap, PreemptMode::kSwapBlocking}) {
    TwoWorlds run;
    const auto played = PlayThrough<Swapping>(run, GetParam(), kPair, mode);
    EXPECT_THAT(played.policy->ended,
                testing::ElementsAre(OperationKind::kSwapOut, OperationKind::kSwapIn));
    EXPECT_EQ(played.summary.preemptions, 1u);
    EXPECT_EQ(run.recorder.Find(0)->recomputed_tokens, 0u);
  }
}

TEST_P(ContractMemory, FromTheHostItGoesToAnotherDevice) {
  struct Scenario final : Swapping {
    Scenario() : Swapping(PreemptMode::kSwap) {}
    void MoveIn(Context& context) override { Move(context, kSecond); }
  };
  TwoWorlds run;
  run.devices = 2;
  const auto played = PlayThrough<Scenario>(run, GetParam(), kPair);
  EXPECT_THAT(played.policy->ended,
              testing::ElementsAre(OperationKind::kSwapOut, OperationKind::kTransfer));
  EXPECT_EQ(run.recorder.Find(0)->device, kSecond);
}

TEST_P(ContractMemory, FromDeviceToDeviceItGoesOnThere) {
  struct Scenario final : Disturbing {
    explicit Scenario(bool blocks) : blocking(blocks) {}
    void Disturb(Context& context) override {
      TransferSpec move;
      move.request = kIt;
      move.from = kFirst;
      move.to = kNoDevice;
      move.blocking = blocking;
      EXPECT_EQ(context.actions().Transfer(move).refusal, Refusal::kUnknownDevice);
      move.to = kFirst;
      EXPECT_EQ(context.actions().Transfer(move).refusal, Refusal::kBadArgument);
      move.to = kSecond;
      EXPECT_EQ(context.actions().Transfer(move).refusal, Refusal::kNone);
      EXPECT_EQ(context.actions().Transfer(move).refusal, Refusal::kMoving);
      EXPECT_EQ(context.request(kIt).device(), kFirst) << "until all has arrived";
    }
    void Next(Context& context, const OperationDone& done) override {
      EXPECT_EQ(done.device, kSecond);
      EXPECT_EQ(context.request(kIt).device(), kSecond);
      EXPECT_EQ(context.request(kIt).scheduled_tokens(), 41u);
      Disturbing::Next(context, done);
    }
    bool blocking;
  };
  for (const bool blocking : {false, true}) {
    TwoWorlds run;
    run.devices = 2;
    const auto played = PlayThrough<Scenario>(run, GetParam(), kPair, blocking);
    EXPECT_THAT(played.policy->ended, testing::ElementsAre(OperationKind::kTransfer));
    EXPECT_EQ(run.recorder.Find(0)->recomputed_tokens, 0u);
  }
}

TEST_P(ContractMemory, ALiveMigrationCopiesInStagesWhileItRuns) {
  struct Scenario final : Disturbing {
    TransferSpec Stage(bool live) const {
      TransferSpec stage;
      stage.request = kIt;
      stage.from = kFirst;
      stage.to = kSecond;
      stage.live = live;
      return stage;
    }
    void Disturb(Context& context) override {
      EXPECT_EQ(context.actions().Transfer(Stage(true)).refusal, Refusal::kNone);
      EXPECT_EQ(context.request(kIt).state(), RequestState::kWaiting) << "it may run";
      ServeAgain(context, kIt);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Disturbing::OnPlanDone(context, done);
      if (!staged || moving || !context.live(kIt) || context.request(kIt).in_flight()) return;
      made_meanwhile = context.request(kIt).output_tokens();
      moving = context.actions().Transfer(Stage(false)).refusal == Refusal::kNone;
      EXPECT_TRUE(moving);
    }
    void Next(Context& context, const OperationDone& done) override {
      staged |= done.kind == OperationKind::kStage;
      if (done.kind == OperationKind::kTransfer) Disturbing::Next(context, done);
    }
    bool staged = false, moving = false;
    std::uint32_t made_meanwhile = 0;
  };
  TwoWorlds run;
  run.devices = 2;
  run.layer_pause = Duration::Millis(1);
  const auto played =
      PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 40, 30), TokenRequest(0, 9, 20)});
  EXPECT_THAT(played.policy->ended,
              testing::ElementsAre(OperationKind::kStage, OperationKind::kTransfer));
  EXPECT_GT(played.policy->made_meanwhile, 2u);
  EXPECT_EQ(run.recorder.Find(0)->device, kSecond);
}

TEST_P(ContractMemory, ACheckpointCopiesToTheHostWhileItRunsAndIsKept) {
  struct Scenario final : Disturbing {
    static TransferSpec Between(Tier from, Tier to) {
      TransferSpec spec;
      spec.request = kIt;
      spec.from = spec.to = kFirst;
      spec.from_tier = from;
      spec.to_tier = to;
      return spec;
    }
    void Disturb(Context& context) override {
      TransferSpec checkpoint = Between(Tier::kDevice, Tier::kHost);
      checkpoint.live = true;
      EXPECT_EQ(context.actions().Transfer(checkpoint).refusal, Refusal::kNone);
      EXPECT_EQ(context.request(kIt).state(), RequestState::kWaiting) << "it may run";
      ServeAgain(context, kIt);
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      Disturbing::OnPlanDone(context, done);
      if (!staged || swaps == 2 || moving || !context.live(kIt)) return;
      if (context.request(kIt).state() != RequestState::kWaiting) return;
      moving = context.actions().Preempt(kIt, PreemptMode::kSwapBlocking) == Refusal::kNone;
      EXPECT_TRUE(moving);
      ++swaps;
    }
    void Next(Context& context, const OperationDone& done) override {
      staged |= done.kind == OperationKind::kStage;
      if (done.kind == OperationKind::kSwapOut) {
        TransferSpec back = Between(Tier::kHost, Tier::kDevice);
        back.keep = true;
        EXPECT_EQ(context.actions().Transfer(back).refusal, Refusal::kNone);
      }
      if (done.kind != OperationKind::kSwapIn) return;
      moving = false;
      Disturbing::Next(context, done);
    }
    bool staged = false, moving = false;
    int swaps = 0;
  };
  TwoWorlds run;
  run.layer_pause = Duration::Millis(1);
  const auto played =
      PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 40, 30), TokenRequest(0, 9, 20)});
  using enum OperationKind;
  EXPECT_THAT(played.policy->ended,
              testing::ElementsAre(kStage, kSwapOut, kSwapIn, kSwapOut, kSwapIn));
  const std::uint64_t block = run.device.block_bytes;
  EXPECT_LE(run.recorder.operations[3].bytes, block) << "only the last block may be missing";
  EXPECT_EQ(run.recorder.Find(0)->recomputed_tokens, 0u);
}

/// Cancels a copy of request 0 that stands behind a slow step of request 1 where it is to arrive.
class Cancelling : public Server {
 public:
  explicit Cancelling(OperationKind which) : kind(which) {}

  void OnArrival(Context& context, RequestId request) override {
    EXPECT_EQ(context.actions().Route(request, request == kIt ? kFirst : Arrives()),
              Refusal::kNone);
    if (request != kIt) HoldBack(request);
    Accept(context, request);
  }
  void OnPlanDone(Context& context, const PlanDone&) override {
    if (op.valid() || !context.live(kIt) || context.request(kIt).output_tokens() != 2) return;
    HoldBack(kIt);
    if (kind != OperationKind::kSwapIn) return At(context, 1);
    EXPECT_EQ(context.actions().Preempt(kIt, PreemptMode::kSwap), Refusal::kNone);
  }
  void OnTimer(Context& context, std::uint64_t stage) override {
    if (stage == 1) {
      LaunchOne(context, Arrives(), kOther);
    } else if (stage == 2) {
      const Started started = context.actions().Transfer(Copy());
      EXPECT_EQ(started.refusal, Refusal::kNone);
      op = started.id;
    } else {
      EXPECT_EQ(context.actions().CancelOperation({}), Refusal::kUnknownOperation);
      EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kNone);
      return;
    }
    At(context, stage + 1);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    const bool out_first = kind == OperationKind::kSwapIn && !op.valid();
    if (out_first) return At(context, 1);
    const RequestView view = context.request(kIt);
    if (done.id == op) {
      EXPECT_EQ(done.kind, kind);
      EXPECT_FALSE(done.ok);
      EXPECT_EQ(context.actions().CancelOperation(op), Refusal::kUnknownOperation);
      EXPECT_EQ(view.device(), kFirst) << "all is as it was before";
      EXPECT_EQ(view.owned_blocks(), 3u);
      EXPECT_EQ(view.state(), RequestState::kWaiting);
      cancelled = true;
      if (view.tier() == Tier::kHost) {  // once more, to go on
        EXPECT_EQ(context.actions().Transfer(Copy()).refusal, Refusal::kNone);
        return;
      }
    }
    EXPECT_EQ(context.device(kSecond).free_blocks + context.device(kSecond).fenced_blocks +
                  context.request(kOther).owned_blocks() * (Arrives() == kSecond),
              context.device(kSecond).total_blocks);
    ServeAgain(context, kIt);
    ServeAgain(context, kOther);
  }

  static constexpr RequestId kIt = {0}, kOther = {1};
  OperationKind kind;
  OpId op;
  bool cancelled = false;

 private:
  DeviceId Arrives() const {
    return kind == OperationKind::kTransfer || kind == OperationKind::kStage ? kSecond : kFirst;
  }
  TransferSpec Copy() const {
    TransferSpec copy;
    copy.request = kIt;
    copy.from = kFirst;
    copy.to = Arrives();
    if (kind == OperationKind::kSwapOut) copy.to_tier = Tier::kHost;
    if (kind == OperationKind::kSwapIn) copy.from_tier = Tier::kHost;
    copy.live = kind == OperationKind::kStage;
    return copy;
  }
};

class ContractCancel : public testing::TestWithParam<std::tuple<TestWorld, OperationKind>> {};

TEST_P(ContractCancel, ACancelledCopyHasChangedNothing) {
  TwoWorlds run;
  run.devices = 2;
  run.layer_pause = Duration::Millis(10);
  const auto [world, kind] = GetParam();
  const auto played =
      PlayThrough<Cancelling>(run, world, {TokenRequest(0, 40, 4), TokenRequest(0, 9, 3)}, kind);
  EXPECT_TRUE(played.policy->cancelled);
}

std::string CancelName(const testing::TestParamInfo<ContractCancel::ParamType>& info) {
  const auto [world, kind] = info.param;
  const char* const names[] = {"swap_out", "swap_in", "transfer", "stage"};
  return testing::PrintToString(world) + "_" + names[static_cast<int>(kind)];
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContractMemory, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         WorldName);
INSTANTIATE_TEST_SUITE_P(
    Worlds, ContractCancel,
    testing::Combine(testing::Values(TestWorld::kSim, TestWorld::kCpu),
                     testing::Values(OperationKind::kSwapOut, OperationKind::kSwapIn,
                                     OperationKind::kTransfer, OperationKind::kStage)),
    CancelName);

}  // namespace
}  // namespace schedtwin
