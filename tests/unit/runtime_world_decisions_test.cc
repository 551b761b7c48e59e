// World, decisions: every refusal that there is a way to provoke, and that a refused decision
// changes nothing.
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

struct RefusalCase {
  const char* what;
  Refusal expect;
  std::function<Refusal(const Middle&)> ask;
};

/// Asks each in the same world: none may change anything, or the next would tell.
void ExpectRefused(const std::vector<RefusalCase>& cases) {
  int asked = 0;
  MiddleRun world([&](const Middle& middle) {
    EXPECT_FALSE(middle.context->live(kGone));
    EXPECT_EQ(middle.context->device(kBusy).queued, 2u);
    for (const RefusalCase& c : cases) {
      const std::string before = Readable(*middle.context, 7);
      EXPECT_EQ(static_cast<int>(c.ask(middle)), static_cast<int>(c.expect)) << c.what;
      EXPECT_EQ(Readable(*middle.context, 7), before) << c.what;
      ++asked;
    }
  });
  const RunSummary summary = world.Run();
  EXPECT_EQ(asked, static_cast<int>(cases.size()));
  // Each was counted under its reason.
  std::vector<std::uint64_t> expected(static_cast<std::size_t>(Refusal::kCount), 0);
  for (const RefusalCase& c : cases) ++expected[static_cast<std::size_t>(c.expect)];
  for (std::size_t i = 1; i < expected.size(); ++i) {
    EXPECT_EQ(summary.refusals[i], expected[i]) << "reason " << i;
  }
}

TEST(WorldRefusal, UnknownDevicesRequestsAndPlans) {
  ExpectRefused({
      {"launch", Refusal::kUnknownDevice,
       [](M m) {
         return m.LaunchEntry(kNoDevice, {kNew, 1});
       }},
      {"route", Refusal::kUnknownDevice, [](M m) { return m.actions().Route(kNew, kNoDevice); }},
      {"join", Refusal::kUnknownDevice, [](M m) { return m.actions().Join(kNoDevice, kReady); }},
      {"leave", Refusal::kUnknownDevice, [](M m) { return m.actions().Leave(kNoDevice, kMember); }},
      {"poke", Refusal::kUnknownDevice, [](M m) { return m.actions().Poke(DeviceId{}); }},
      {"launch", Refusal::kUnknownRequest,
       [](M m) {
         return m.LaunchEntry(kIdle, {kNever, 1});
       }},
      {"ended", Refusal::kUnknownRequest,
       [](M m) {
         return m.LaunchEntry(kIdle, {kGone, 1});
       }},
      {"none", Refusal::kUnknownRequest,
       [](M m) {
         return m.LaunchEntry(kIdle, {RequestId{}, 1});
       }},
      {"join", Refusal::kUnknownRequest, [](M m) { return m.actions().Join(kIdle, kNever); }},
      {"leave", Refusal::kUnknownRequest, [](M m) { return m.actions().Leave(kIdle, kNever); }},
      {"route", Refusal::kUnknownRequest, [](M m) { return m.actions().Route(kGone, kIdle); }},
      {"finish", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Finish(kGone, EndReason::kRejected); }},
      {"finish", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Finish(kNever, EndReason::kRejected); }},
      {"preempt", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Preempt(kNever, PreemptMode::kRecompute); }},
      {"withdraw", Refusal::kUnknownPlan, [](M m) { return m.actions().Withdraw(PlanId{}); }},
      {"withdraw", Refusal::kUnknownPlan, [](M m) { return m.actions().Withdraw(m.ended); }},
      {"abort", Refusal::kUnknownPlan,
       [](M m) { return m.actions().Abort(m.ended, AbortAt::kStep); }},
      {"abort", Refusal::kUnknownPlan,
       [](M m) { return m.actions().Abort(m.queued, AbortAt::kStep); }},
      {"amend", Refusal::kUnknownPlan, [](M m) { return m.actions().Amend(m.ended, {}).refusal; }},
  });
}

// The id of no request must not be found in an empty slot of the table.
TEST(WorldRefusal, NoRequestIsNoRequest) {
  ExpectRefused({
      {"finish", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Finish(RequestId{}, EndReason::kRejected); }},
      {"preempt", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Preempt(RequestId{}, PreemptMode::kRecompute); }},
      {"route", Refusal::kUnknownRequest,
       [](M m) { return m.actions().Route(RequestId{}, kIdle); }},
      {"join", Refusal::kUnknownRequest, [](M m) { return m.actions().Join(kIdle, RequestId{}); }},
  });
  MiddleRun world([](M m) { EXPECT_FALSE(m.context->live(RequestId{})); });
  world.Run();
}

TEST(WorldRefusal, PlansThatCannotBe) {
  ExpectRefused({
      {"full", Refusal::kQueueFull,
       [](M m) {
         return m.LaunchEntry(kBusy, {kReady, 1});
       }},
      {"nothing", Refusal::kEmptyPlan, [](M m) { return m.Launch({.device = kIdle}); }},
      {"empty set", Refusal::kEmptyPlan,
       [](M m) { return m.Launch({.device = kIdle, .standing = true}); }},
      {"twice", Refusal::kDuplicateEntry,
       [](M m) {
         const Entry twice[] = {{kAway, 1}, {kAway, 1}};
         return m.Launch({.device = kIdle, .entries = twice});
       }},
      {"no tokens", Refusal::kWrongTokens,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 0});
       }},
      {"too many", Refusal::kWrongTokens,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 2});
       }},
      {"no blocks", Refusal::kNoCapacity,
       [](M m) {
         return m.LaunchEntry(kIdle, {kNew, 8});
       }},
      {"padding", Refusal::kBatchTooLarge,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 1}, {.padding_tokens = 64});
       }},
      {"elsewhere", Refusal::kWrongDevice,
       [](M m) {
         return m.LaunchEntry(kIdle, {kReady, 1});
       }},
      {"in flight elsewhere", Refusal::kWrongDevice,
       [](M m) {
         return m.LaunchEntry(kIdle, {kDecoding, 1});
       }},
      {"no steps", Refusal::kBadArgument,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 1}, {.max_steps = 0});
       }},
      {"upside down", Refusal::kBadWindow,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 1},
                              {.earliest = Time::Nanos(50), .latest = Time::Nanos(40)});
       }},
      {"over", Refusal::kBadWindow,
       [](M m) {
         return m.LaunchEntry(kIdle, {kAway, 1}, {.latest = Time::Nanos(24)});
       }},
  });
}

TEST(WorldRefusal, AmendmentsThatCannotBe) {
  ExpectRefused({
      {"member", Refusal::kDuplicateEntry,
       [](M m) {
         const Entry entry{kMember, 1};
         return m.actions().Amend(m.queued, {.device = kBusy, .entries = {&entry, 1}}).refusal;
       }},
      {"prefill of many steps", Refusal::kNotDecoding,
       [](M m) {
         const Entry entry{kInQueue, 4};
         const Plan plan{.device = kBusy, .entries = {&entry, 1}, .max_steps = 2};
         return m.actions().Amend(m.queued, plan).refusal;
       }},
      {"of another device", Refusal::kWrongDevice,
       [](M m) {
         const Entry entry{kInQueue, 4};
         return m.actions().Amend(m.queued, {.device = kIdle, .entries = {&entry, 1}}).refusal;
       }},
      {"running", Refusal::kAlreadyStarted,
       [](M m) { return m.actions().Amend(m.running, {.device = kBusy}).refusal; }},
      {"running", Refusal::kAlreadyStarted, [](M m) { return m.actions().Withdraw(m.running); }},
  });
}

TEST(WorldRefusal, JoinsOfWhomTheSetCannotTake) {
  ExpectRefused({
      {"a member", Refusal::kDuplicateEntry, [](M m) { return m.actions().Join(kBusy, kMember); }},
      {"in a plan that goes on", Refusal::kDuplicateEntry,
       [](M m) { return m.actions().Join(kBusy, kDecoding); }},
      {"in a queued plan", Refusal::kDuplicateEntry,
       [](M m) { return m.actions().Join(kBusy, kInQueue); }},
  });
  MiddleRun world([](M m) {
    EXPECT_EQ(m.actions().Route(kNew, kIdle), Refusal::kNone);
    EXPECT_EQ(m.actions().Join(kIdle, kNew), Refusal::kNotDecoding) << "its prompt is to be done";
  });
  world.Run();
}

TEST(WorldRefusal, WhereTheRequestIsNotOrDoesNotStand) {
  ExpectRefused({
      {"joins elsewhere", Refusal::kWrongDevice,
       [](M m) { return m.actions().Join(kIdle, kReady); }},
      {"routed away from its blocks", Refusal::kWrongDevice,
       [](M m) { return m.actions().Route(kReady, kIdle); }},
      {"leaves elsewhere", Refusal::kWrongDevice,
       [](M m) { return m.actions().Leave(kIdle, kMember); }},
      {"on no device", Refusal::kWrongDevice,
       [](M m) { return m.actions().Preempt(kNew, PreemptMode::kRecompute); }},
      {"no member", Refusal::kNotStanding, [](M m) { return m.actions().Leave(kBusy, kReady); }},
      {"no member", Refusal::kNotStanding,
       [](M m) { return m.actions().Preempt(kReady, PreemptMode::kPause); }},
      {"completes", Refusal::kBadArgument,
       [](M m) { return m.actions().Finish(kReady, EndReason::kCompleted); }},
      {"to decode nowhere", Refusal::kUnknownDevice,
       [](M m) { return m.actions().Route(kNew, kIdle, kNoDevice); }},
      {"as a model that is not in the run", Refusal::kBadArgument,
       [](M m) { return m.actions().Route(kNew, kIdle, {}, {7}); }},
  });
}

TEST(WorldRefusal, WhatCannotBeMovedKeptLoadedOrScaled) {
  ExpectRefused({
      {"swap without a link", Refusal::kNoLink,
       [](M m) { return m.actions().Preempt(kReady, PreemptMode::kSwap); }},
      {"swap of one in the queue", Refusal::kDuplicateEntry,
       [](M m) { return m.actions().Preempt(kInQueue, PreemptMode::kSwapBlocking); }},
      {"transfer without a link", Refusal::kNoLink,
       [](M m) {
         return m.actions().Transfer({.request = kReady, .from = kBusy, .to = kIdle}).refusal;
       }},
      {"transfer to nowhere", Refusal::kUnknownDevice,
       [](M m) {
         return m.actions().Transfer({.request = kReady, .from = kBusy, .to = kNoDevice}).refusal;
       }},
      {"transfer from elsewhere", Refusal::kWrongDevice,
       [](M m) {
         return m.actions().Transfer({.request = kReady, .from = kIdle, .to = kBusy}).refusal;
       }},
      {"transfer of one gone", Refusal::kUnknownRequest,
       [](M m) {
         return m.actions().Transfer({.request = kGone, .from = kBusy, .to = kIdle}).refusal;
       }},
      {"cancel nothing", Refusal::kUnknownOperation,
       [](M m) { return m.actions().CancelOperation({}); }},
      {"release what is not held", Refusal::kBadArgument,
       [](M m) { return m.actions().ReleaseResponse(kReady); }},
      {"hold one gone", Refusal::kUnknownRequest,
       [](M m) { return m.actions().HoldResponse(kGone); }},
      {"pin without a cache", Refusal::kUnsupported,
       [](M m) { return m.actions().Pin(kReady, true); }},
      {"evict without a cache", Refusal::kUnsupported,
       [](M m) { return m.actions().Evict(kBusy, 3); }},
      {"load what is loaded", Refusal::kBadArgument,
       [](M m) { return m.actions().Load(kIdle, {0}).refusal; }},
      {"load what is not in the run", Refusal::kBadArgument,
       [](M m) { return m.actions().Load(kIdle, {7}).refusal; }},
      {"unload under its requests", Refusal::kModelInUse,
       [](M m) { return m.actions().Unload(kIdle, {0}).refusal; }},
      {"more devices than there are", Refusal::kBadArgument,
       [](M m) { return m.actions().Scale(3); }},
      {"no device", Refusal::kBadArgument, [](M m) { return m.actions().Scale(0); }},
      {"a role for nobody", Refusal::kUnknownDevice,
       [](M m) { return m.actions().SetRole(kNoDevice, DeviceRole::kPrefill); }},
  });
}

/// A refusal of Memory is a `false`; its reason is in the counts.
RefusalCase MemoryCase(const char* what, Refusal expect,
                       const std::function<bool(const Middle&)>& ask) {
  return {what, expect, [=](M m) { return ask(m) ? Refusal::kNone : expect; }};
}

TEST(WorldRefusal, Memory) {
  ExpectRefused({
      MemoryCase("too much", Refusal::kNoMemory,
                 [](M m) { return m.context->memory(kIdle).Reserve(kNew, 401); }),
      MemoryCase("far too much", Refusal::kNoMemory,
                 [](M m) { return m.context->memory(kIdle).Reserve(kNew, 0xffffffffu); }),
      MemoryCase("elsewhere", Refusal::kWrongDevice,
                 [](M m) { return m.context->memory(kIdle).Reserve(kReady, 9); }),
      MemoryCase("a member's", Refusal::kDuplicateEntry,
                 [](M m) { return m.context->memory(kBusy).Reserve(kMember, 40); }),
      MemoryCase("of nobody", Refusal::kUnknownRequest,
                 [](M m) { return m.context->memory(kIdle).Reserve(kNever, 4); }),
      MemoryCase("of nobody", Refusal::kUnknownRequest,
                 [](M m) { return m.context->memory(kIdle).Reserve(RequestId{}, 4); }),
      MemoryCase("a member's", Refusal::kBadArgument,
                 [](M m) { return m.context->memory(kBusy).Release(kMember); }),
      MemoryCase("elsewhere", Refusal::kBadArgument,
                 [](M m) { return m.context->memory(kIdle).Release(kReady); }),
      MemoryCase("of nobody", Refusal::kBadArgument,
                 [](M m) { return m.context->memory(kIdle).Release(kNever); }),
      MemoryCase("promised to a plan", Refusal::kBadArgument,
                 [](M m) { return m.context->memory(kBusy).Release(kInQueue); }),
  });
}

TEST(WorldRefusal, EndedEarlierInThisCallback) {
  MiddleRun world([](M m) {
    EXPECT_EQ(m.actions().Finish(kReady, EndReason::kTimedOut), Refusal::kNone);
    EXPECT_EQ(m.actions().Finish(kReady, EndReason::kTimedOut), Refusal::kEnded);
    EXPECT_EQ(m.LaunchEntry(kIdle, {kReady, 1}), Refusal::kUnknownRequest);
    EXPECT_EQ(m.actions().Join(kBusy, kReady), Refusal::kUnknownRequest);
    EXPECT_FALSE(m.context->memory(kBusy).Reserve(kReady, 20));
    EXPECT_TRUE(m.context->live(kReady)) << "readable until the callback returns";
    EXPECT_EQ(m.context->request(kReady).state(), RequestState::kEnded);
  });
  const RunSummary summary = world.Run();
  EXPECT_EQ(summary.refusals[static_cast<int>(Refusal::kEnded)], 2u)
      << "once above, once when the test ends what still can be read";
}

TEST(WorldRefusal, NoMemoryForTheGrowthOfTheSet) {
  TestRun run;
  run.device.total_blocks = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 1) {
      const Entry entries[] = {ReservedEntry(context, {0}, {0}), ReservedEntry(context, {0}, {1})};
      context.actions().Launch({.device = {0}, .entries = entries});
    }
  };
  policy.on_plan_done = [](Context& context, const PlanDone&) {
    context.actions().Join({0}, {0});
    EXPECT_EQ(context.memory({0}).StandingGrowth(), 1u);
    EXPECT_EQ(context.actions().Launch({.device = {0}, .standing = true}).refusal,
              Refusal::kNoMemory);
    context.actions().Finish({0}, EndReason::kTimedOut);
    context.actions().Finish({1}, EndReason::kTimedOut);
  };
  run.Run(&policy, {TokenRequest(0, 4, 9), TokenRequest(0, 4, 9)});
}

TEST(WorldRefusal, OneShotLaunchesAreWhole) {
  TestRun run;
  run.device = SmallOneShot();
  run.device.queue_depth = 2;
  run.device.max_step_tokens = 8;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    const auto ask = [&](std::uint32_t tokens, bool standing = false) {
      const Entry entry{request, tokens};
      return context.actions()
          .Launch({.device = {0}, .entries = {&entry, 1}, .standing = standing})
          .refusal;
    };
    if (request.value > 0) return void(context.actions().Finish(request, EndReason::kRejected));
    EXPECT_EQ(ask(2), Refusal::kWrongTokens) << "a part of it";
    EXPECT_EQ(ask(4), Refusal::kWrongTokens);
    EXPECT_EQ(ask(3, true), Refusal::kNotDecoding);
    const Entry whole{request, 3};
    const Plan steps{.device = {0}, .entries = {&whole, 1}, .max_steps = 2};
    EXPECT_EQ(context.actions().Launch(steps).refusal, Refusal::kNotDecoding);
    EXPECT_EQ(context.actions().Join({0}, request), Refusal::kWrongDevice);
    EXPECT_EQ(context.actions().Route(request, {0}), Refusal::kNone);
    EXPECT_EQ(context.actions().Join({0}, request), Refusal::kNotDecoding);
    EXPECT_EQ(ask(3), Refusal::kNone);
    EXPECT_EQ(ask(0), Refusal::kWrongTokens) << "all of it is in flight already";
    EXPECT_EQ(ask(3), Refusal::kWrongTokens);
    EXPECT_EQ(context.actions().Preempt(request, PreemptMode::kRecompute), Refusal::kUnsupported);
  };
  const RunSummary summary =
      run.Run(&policy, {UnitRequest(0, 3), UnitRequest(0, 8), UnitRequest(0, 9)});
  EXPECT_EQ(run.fakes[0].steps.size(), 1u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
  EXPECT_EQ(policy.seen.size(), 5u) << "the third is larger than the device: rejected unseen";
  EXPECT_EQ(run.recorder.Find(2)->reason, EndReason::kRejected);
  EXPECT_TRUE(run.recorder.Find(0)->first_token.infinite()) << "it makes no tokens";
}

// A plan that has ended is unknown, even in the callback that tells of its end.
TEST(WorldRefusal, AnEndedPlanInItsOwnPlanDone) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    EXPECT_EQ(context.actions().Abort(done.id, AbortAt::kStep), Refusal::kUnknownPlan);
    EXPECT_EQ(context.actions().Withdraw(done.id), Refusal::kUnknownPlan);
    EXPECT_EQ(context.actions().Amend(done.id, {}).refusal, Refusal::kUnknownPlan);
  };
  run.Run(&policy, {TokenRequest(0, 4, 1)});
}

// A standing member of a model without KV owns no blocks; it is bound to its device all the same.
TEST(WorldRefusal, AMemberIsNotRoutedAway) {
  TestRun run;
  run.devices = 2;
  run.device.total_blocks = run.device.block_tokens = 0;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    if (done.why == PlanEnd::kFinish) return;
    EXPECT_EQ(context.actions().Join({0}, {0}), Refusal::kNone);
    EXPECT_EQ(context.actions().Route({0}, {1}), Refusal::kWrongDevice);
    context.actions().Launch({.device = {0}, .standing = true, .max_steps = 9});
  };
  EXPECT_EQ(run.Run(&policy, {TokenRequest(0, 4, 5)}).result, RunResult::kFinished);
}

}  // namespace
}  // namespace schedtwin
