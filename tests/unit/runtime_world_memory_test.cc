// World, memory: transactions, and what a preemption keeps and gives back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "policies/runtime/journal.h"
#include "policies/runtime/world.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"
#include "tests/support/world_middle.h"

namespace schedtwin {
namespace {

// ---- Memory transactions ----

TEST(WorldMemory, RollbackRestoresAndCommitKeeps) {
  for (const bool identify : {false, true}) {
    MiddleRun world([](M m) {
      Memory& memory = m.context->memory(kBusy);
      const std::string before = Readable(*m.context, 7);
      const MemoryMark outer = memory.Begin();
      EXPECT_TRUE(memory.Reserve(kNew, 30));
      EXPECT_TRUE(memory.Release(kReady));
      EXPECT_EQ(m.context->request(kReady).scheduled_tokens(), 0u);
      const std::string middle = Readable(*m.context, 7);
      const MemoryMark inner = memory.Begin();
      EXPECT_TRUE(memory.Reserve(kReady, 60));
      EXPECT_TRUE(memory.Release(kNew));
      memory.Rollback(inner);
      EXPECT_EQ(Readable(*m.context, 7), middle);
      memory.Rollback(outer);
      EXPECT_EQ(Readable(*m.context, 7), before);
      const MemoryMark kept = memory.Begin();
      EXPECT_TRUE(memory.Reserve(kNew, 30));
      memory.Commit(kept);
      EXPECT_EQ(m.context->request(kNew).owned_blocks(), 8u);
      memory.Rollback(kept);
      EXPECT_EQ(m.context->request(kNew).owned_blocks(), 8u) << "nothing is open";
    });
    world.run.options.identify_blocks = identify;
    const RunSummary summary = world.Run();
    EXPECT_EQ(summary.refusals[static_cast<int>(Refusal::kBadArgument)], 1u);
  }
}

TEST(WorldMemory, OneLeftOpenIsRolledBackAndCounted) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    context.memory({0}).Begin();
    EXPECT_TRUE(context.memory({0}).Reserve(request, 40));
    context.clock().Arm(context.now(), 1);
  };
  policy.on_timer = [](Context& context, std::uint64_t) {
    EXPECT_EQ(context.request({0}).owned_blocks(), 0u);
    EXPECT_FALSE(context.request({0}).device().valid()) << "nor is it bound to the device";
    EXPECT_EQ(context.device({0}).free_blocks, 100u);
    context.actions().Finish({0}, EndReason::kTimedOut);
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1)});
  EXPECT_EQ(summary.refusals[static_cast<int>(Refusal::kBadArgument)], 1u);
}

// What was committed once is not undone by a later transaction that is left open.
TEST(WorldMemory, AMisusedMarkDoesNotReachIntoALaterTransaction) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    Memory& memory = context.memory({0});
    const MemoryMark outer = memory.Begin();
    EXPECT_TRUE(memory.Reserve(request, 4));
    const MemoryMark inner = memory.Begin();
    EXPECT_TRUE(memory.Reserve(request, 8));
    memory.Commit(outer);  // in the wrong order
    memory.Rollback(inner);
    EXPECT_EQ(context.request(request).owned_blocks(), 1u);
    context.clock().Arm(context.now(), 1);
  };
  policy.on_timer = [](Context& context, std::uint64_t tag) {
    if (tag == 1) {
      context.memory({0}).Begin();  // left open
      context.clock().Arm(context.now(), 2);
      return;
    }
    EXPECT_EQ(context.request({0}).owned_blocks(), 1u);
    context.actions().Finish({0}, EndReason::kTimedOut);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
}

TEST(WorldMemory, NothingButMemoryMovesInsideATransaction) {
  MiddleRun world([](M m) {
    Memory& memory = m.context->memory(kBusy);
    const MemoryMark mark = memory.Begin();
    const std::string before = Readable(*m.context, 7);
    const Entry entry{kInQueue, 4};
    EXPECT_EQ(m.actions().Amend(m.queued, {.device = kBusy, .entries = {&entry, 1}}).refusal,
              Refusal::kBadArgument);
    EXPECT_EQ(m.actions().Withdraw(m.queued), Refusal::kBadArgument);
    EXPECT_EQ(m.actions().Join(kBusy, kReady), Refusal::kBadArgument);
    EXPECT_EQ(m.actions().Leave(kBusy, kMember), Refusal::kBadArgument);
    EXPECT_EQ(m.actions().Finish(kReady, EndReason::kTimedOut), Refusal::kBadArgument);
    EXPECT_EQ(m.actions().Preempt(kReady, PreemptMode::kRecompute), Refusal::kBadArgument);
    EXPECT_EQ(Readable(*m.context, 7), before);
    memory.Rollback(mark);
  });
  world.Run();
}

// A request freed on one device and taken in on another inside two transactions: undone, it is
// where it was.
TEST(WorldMemory, TransactionsOfTwoDevicesDoNotTearARequestApart) {
  MiddleRun world([](M m) {
    const std::string before = Readable(*m.context, 7);
    const MemoryMark mark = m.context->memory(kBusy).Begin();
    m.context->memory(kBusy).Release(kReady);
    const bool moved = m.context->memory(kIdle).Reserve(kReady, 8);
    m.context->memory(kBusy).Rollback(mark);
    if (!moved) {
      EXPECT_EQ(Readable(*m.context, 7), before);
    }
  });
  // World::CheckInvariants at the end of the run finds blocks that nobody owns.
  EXPECT_EQ(world.Run().result, RunResult::kFinished);
}

// ---- Preemption ----

TEST(WorldPreempt, RecomputeInFlightKeepsTheTokenAndFencesTheBlocks) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(15), 1); };
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (context.live({0})) LaunchOne(context, {0}, {0});
  };
  policy.on_timer = [](Context& context, std::uint64_t) {
    EXPECT_EQ(context.device({0}).free_blocks, 98u);
    EXPECT_EQ(context.actions().Preempt({0}, PreemptMode::kRecompute), Refusal::kNone);
    const RequestView view = context.request({0});
    EXPECT_EQ(view.owned_blocks(), 0u);
    EXPECT_EQ(view.scheduled_tokens(), 0u);
    EXPECT_EQ(view.known_tokens(), 6u) << "four of the prompt, one made, one in flight";
    EXPECT_EQ(view.preemptions(), 1u);
    EXPECT_EQ(context.device({0}).free_blocks, 98u);
    EXPECT_EQ(context.device({0}).fenced_blocks, 2u);
  };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.end != Time::Nanos(20)) return;
    EXPECT_EQ(context.request({0}).output_tokens(), 2u) << "the token still counts";
    EXPECT_EQ(context.device({0}).free_blocks, 100u);
    EXPECT_EQ(context.request({0}).next_tokens(), 6u) << "all of it again";
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 3)});
  EXPECT_EQ(summary.preemptions, 1u);
  EXPECT_EQ(run.recorder.Find(0)->recomputed_tokens, 5u);
  EXPECT_EQ(run.recorder.Find(0)->preemptions, 1u);
  EXPECT_EQ(run.recorder.Find(0)->end, Time::Nanos(30));
  EXPECT_EQ(run.fakes[0].steps.at(2).entries.at(0).tokens, 6u);
}

TEST(WorldPreempt, TakesBackWhatQueuedPlansPromised) {
  MiddleRun world([](M m) {
    EXPECT_EQ(m.context->request(kInQueue).known_tokens(), 5u);
    EXPECT_EQ(m.actions().Preempt(kInQueue, PreemptMode::kRecompute), Refusal::kNone);
    const RequestView view = m.context->request(kInQueue);
    EXPECT_EQ(view.known_tokens(), 4u) << "that token will not be made";
    EXPECT_EQ(view.next_tokens(), 4u);
    EXPECT_FALSE(view.in_flight());
  });
  world.Run();
  EXPECT_EQ(world.run.recorder.Find(kInQueue.value)->recomputed_tokens, 0u)
      << "nothing had been computed";
}

// Recomputed in a plan behind the one that was to make a token: the counters stay whole.
TEST(WorldPreempt, RelaunchedBehindTheQueuedPlanThatNamedIt) {
  TestRun run;
  run.device.queue_depth = 3;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    LaunchOne(context, {0}, request);
    if (request.value == 0) return;
    EXPECT_EQ(context.actions().Preempt({1}, PreemptMode::kRecompute), Refusal::kNone);
    LaunchOne(context, {0}, {1});
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished);
  EXPECT_EQ(run.recorder.Find(1)->output_tokens, 1u);
  EXPECT_EQ(run.recorder.Find(1)->end, Time::Nanos(20));
}

TEST(WorldPreempt, PauseKeepsTheBlocksAndLeavesTheSet) {
  MiddleRun world([](M m) {
    const std::uint32_t free = m.context->device(kBusy).free_blocks;
    EXPECT_EQ(m.actions().Preempt(kMember, PreemptMode::kPause), Refusal::kNone);
    const RequestView view = m.context->request(kMember);
    EXPECT_EQ(view.state(), RequestState::kWaiting);
    EXPECT_EQ(view.owned_blocks(), 1u);
    EXPECT_EQ(view.scheduled_tokens(), 4u);
    EXPECT_EQ(view.preemptions(), 1u);
    EXPECT_EQ(m.context->device(kBusy).free_blocks, free);
    EXPECT_EQ(m.context->device(kBusy).standing, 0u);
    EXPECT_EQ(m.actions().Join(kBusy, kMember), Refusal::kNone) << "and goes on without a prefill";
  });
  EXPECT_EQ(world.Run().preemptions, 1u);
}

TEST(WorldPreempt, NothingToPreemptIsRefused) {
  MiddleRun world([](M m) {
    EXPECT_EQ(m.actions().Preempt(kReady, PreemptMode::kRecompute), Refusal::kNone);
    const std::string before = Readable(*m.context, 7);
    EXPECT_EQ(m.actions().Preempt(kReady, PreemptMode::kRecompute), Refusal::kBadArgument);
    EXPECT_EQ(Readable(*m.context, 7), before);
  });
  EXPECT_EQ(world.Run().preemptions, 1u);
}

}  // namespace
}  // namespace schedtwin
