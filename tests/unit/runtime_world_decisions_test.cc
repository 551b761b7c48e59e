// World, decisions: every refusal that there is a way to provoke, and that a refused decision
// changes nothing; memory transactions; preemption; what a run tells of itself (log, digests,
// counts).
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

namespace schedtwin {
namespace {

using testing::ElementsAre;

/// All that a policy can read, as one text.
std::string Readable(const Context& context, std::uint32_t requests) {
  std::string text;
  const auto add = [&](std::uint64_t word) { text += std::to_string(word) + " "; };
  for (std::uint32_t id = 0; id < requests; ++id) {
    if (!context.live({id})) {
      text += "| gone ";
      continue;
    }
    const RequestView view = context.request({id});
    text += "| r" + std::to_string(id) + " ";
    add(static_cast<std::uint64_t>(view.state()));
    add(view.device().value);
    add(view.known_tokens());
    add(view.scheduled_tokens());
    add(view.output_tokens());
    add(view.owned_blocks());
    add(view.in_flight());
    add(view.preemptions());
  }
  for (const DeviceView& device : context.devices()) {
    text += "| d" + std::to_string(device.id.value) + " ";
    add(device.queued);
    add(device.free_blocks);
    add(device.fenced_blocks);
    add(device.standing);
  }
  return text;
}

Entry ReservedEntry(Context& context, DeviceId device, RequestId request) {
  const RequestView view = context.request(request);
  context.memory(device).Reserve(request, view.scheduled_tokens() + view.next_tokens());
  return {request, view.next_tokens()};
}

PlanId LaunchOne(Context& context, DeviceId device, RequestId request, Plan plan = {}) {
  const Entry entry = ReservedEntry(context, device, request);
  plan.device = device;
  plan.entries = {&entry, 1};
  const Launched launched = context.actions().Launch(plan);
  EXPECT_TRUE(launched.ok()) << static_cast<int>(launched.refusal);
  return launched.id;
}

// ---- Refusals ----

/// A world in the middle of its work. At 25 ns:
///   device 0 runs `running` (request 0 decodes, several steps) with `queued` (the prompt of 2)
///   behind it; its standing set has request 1; request 3 has been prefilled on it; device 1 has
///   blocks of request 4, prefilled too, and runs nothing; request 5 has just arrived, request 6
///   has ended, `ended` is a plan of the past.
struct Middle {
  Context* context = nullptr;
  PlanId running, queued, ended;

  Refusal Launch(const Plan& plan) const { return context->actions().Launch(plan).refusal; }
  Refusal LaunchEntry(DeviceId device, Entry entry, Plan plan = {}) const {
    plan.device = device;
    plan.entries = {&entry, 1};
    return Launch(plan);
  }
  Actions& actions() const { return context->actions(); }
};

constexpr DeviceId kBusy = {0}, kIdle = {1}, kNoDevice = {9};
constexpr RequestId kDecoding = {0}, kMember = {1}, kInQueue = {2}, kReady = {3}, kAway = {4},
                    kNew = {5}, kGone = {6}, kNever = {99};

struct MiddleRun {
  TestRun run;
  ScriptedPolicy policy;
  Middle middle;

  explicit MiddleRun(std::function<void(const Middle&)> ask) {
    run.devices = 2;
    run.device.queue_depth = 2;
    run.device.max_step_tokens = 64;
    policy.on_arrival = [this](Context& context, RequestId request) {
      if (request != kGone && request != kNew) return;
      if (request == kNew) return;
      Entry entries[] = {
          ReservedEntry(context, kBusy, kDecoding), ReservedEntry(context, kBusy, kMember),
          ReservedEntry(context, kBusy, kReady), ReservedEntry(context, kBusy, kGone)};
      middle.ended = context.actions().Launch({.device = kBusy, .entries = entries}).id;
      LaunchOne(context, kIdle, kAway);
      context.memory(kIdle).Reserve(kAway, 8);
      context.clock().Arm(Time::Nanos(25), 1);
    };
    policy.on_plan_done = [this](Context& context, const PlanDone& done) {
      if (done.device != kBusy || done.end != Time::Nanos(10)) return;
      EXPECT_EQ(context.actions().Join(kBusy, kMember), Refusal::kNone);
      middle.running = LaunchOne(context, kBusy, kDecoding, {.max_steps = 50});
      middle.queued = LaunchOne(context, kBusy, kInQueue);
    };
    policy.on_timer = [this, ask = std::move(ask)](Context& context, std::uint64_t) {
      middle.context = &context;
      ask(middle);
      for (std::uint32_t id = 0; id < 7; ++id) {
        if (context.live({id})) context.actions().Finish({id}, EndReason::kTimedOut);
      }
    };
  }

  RunSummary Run() {
    std::vector<RequestSpec> requests(5, TokenRequest(0, 4, 40));
    requests.push_back(TokenRequest(0, 8, 40));
    requests.push_back(TokenRequest(0, 4, 1));
    return run.Run(&policy, requests);
  }
};

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

using M = const Middle&;

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
      {"two devices", Refusal::kUnsupported,
       [](M m) { return m.actions().Route(kNew, kIdle, kBusy); }},
      {"another model", Refusal::kUnsupported,
       [](M m) { return m.actions().Route(kNew, kIdle, {}, {7}); }},
  });
}

TEST(WorldRefusal, WhatThisWorldHasNoMechanicsFor) {
  ExpectRefused({
      {"swap", Refusal::kUnsupported,
       [](M m) { return m.actions().Preempt(kReady, PreemptMode::kSwap); }},
      {"abort now", Refusal::kUnsupported,
       [](M m) { return m.actions().Abort(m.running, AbortAt::kNow); }},
      {"abort at a layer", Refusal::kUnsupported,
       [](M m) { return m.actions().Abort(m.running, AbortAt::kLayer); }},
      {"hold", Refusal::kUnsupported, [](M m) { return m.actions().HoldResponse(kReady); }},
      {"release", Refusal::kUnsupported, [](M m) { return m.actions().ReleaseResponse(kReady); }},
      {"transfer", Refusal::kUnsupported,
       [](M m) {
         return m.actions().Transfer({.request = kReady, .from = kBusy, .to = kIdle}).refusal;
       }},
      {"cancel", Refusal::kUnsupported, [](M m) { return m.actions().CancelOperation({}); }},
      {"pin", Refusal::kUnsupported, [](M m) { return m.actions().Pin(kReady, true); }},
      {"evict", Refusal::kUnsupported, [](M m) { return m.actions().Evict(kBusy, 3); }},
      {"load", Refusal::kUnsupported, [](M m) { return m.actions().Load(kIdle, {0}).refusal; }},
      {"unload", Refusal::kUnsupported, [](M m) { return m.actions().Unload(kIdle, {0}).refusal; }},
      {"scale", Refusal::kUnsupported, [](M m) { return m.actions().Scale(3); }},
      {"role", Refusal::kUnsupported,
       [](M m) { return m.actions().SetRole(kIdle, DeviceRole::kPrefill); }},
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

// ---- Admission and oracle ----

TEST(WorldArrival, LongerThanTheModelIsRejectedUnseen) {
  TestRun run;
  run.device.max_model_len_tokens = 10;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    EXPECT_EQ(context.request(request).max_new_tokens(), 1u) << "what the model's length leaves";
    LaunchOne(context, {0}, request);
  };
  const RunSummary summary =
      run.Run(&policy, {TokenRequest(0, 10, 1), TokenRequest(5, 9, 7), TokenRequest(6, 4000, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 2u);
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "5 arrival 1", "15 done 0 finish 1", "15 slot 0"));
  EXPECT_EQ(run.recorder.Find(1)->output_tokens, 1u) << "cut short by the model's length";
}

TEST(WorldArrival, LongerThanAllBlocksIsRejectedToo) {
  TestRun run;
  run.device.total_blocks = 2;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 8, 1), TokenRequest(5, 7, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kRejected)], 1u);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
}

// As good as endless memory: the product of blocks and their tokens exceeds 32 bits.
TEST(WorldArrival, EndlessMemoryHoldsEveryRequest) {
  TestRun run;
  run.device.total_blocks = (1u << 28) + 1;
  run.device.block_tokens = 16;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4000, 1)});
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], 1u);
}

TEST(WorldOracle, TellsTrueLengthsToWhomItIsGranted) {
  for (const bool granted : {false, true}) {
    TestRun run;
    run.options.oracle_lengths = granted;
    ScriptedPolicy policy;
    policy.on_arrival = [&](Context& context, RequestId request) {
      const std::optional<std::uint32_t> length = context.services().OutputLength(request);
      EXPECT_EQ(length.has_value(), granted);
      if (granted) {
        EXPECT_EQ(*length, request.value == 0 ? 17u : 5u);
      }
      EXPECT_FALSE(context.services().OutputLength(kNever).has_value());
      context.actions().Finish(request, EndReason::kRejected);
    };
    std::vector<RequestSpec> requests = {TokenRequest(0, 4, 17), TokenRequest(0, 4, 17)};
    requests[1].max_new_tokens = 5;
    run.Run(&policy, requests);
  }
}

// ---- What a run tells of itself ----

/// Serves two requests; `twist` is one decision more, at 15 ns.
struct Told {
  RunSummary summary;
  RecordingRecorder recorder;
};

Told TellRun(const std::function<void(Context&)>& twist, RecordWants wants = {true, true}) {
  TestRun run;
  run.wants = wants;
  run.device.queue_depth = 2;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(15), 1); };
  policy.on_arrival = [](Context& context, RequestId request) { LaunchOne(context, {0}, request); };
  policy.on_plan_done = [](Context& context, const PlanDone& done) {
    for (const Entry& entry : done.entries) {
      if (context.request(entry.request).state() != RequestState::kEnded) {
        LaunchOne(context, {0}, entry.request);
      }
    }
  };
  policy.on_timer = [&](Context& context, std::uint64_t tag) {
    if (tag == 1) twist(context);
  };
  const RunSummary summary = run.Run(&policy, {TokenRequest(0, 4, 3), TokenRequest(3, 4, 3)});
  return {summary, run.recorder};
}

void NoTwist(Context&) {}

TEST(WorldDigest, SameDecisionsSameDigests) {
  const Told first = TellRun(NoTwist), second = TellRun(NoTwist);
  EXPECT_EQ(first.summary.decision_digest, second.summary.decision_digest);
  EXPECT_EQ(first.summary.outcome_digest, second.summary.outcome_digest);
  EXPECT_EQ(first.summary.events, second.summary.events);
}

TEST(WorldDigest, RecordingChangesNothing) {
  const Told full = TellRun(NoTwist), bare = TellRun(NoTwist, {});
  EXPECT_EQ(full.summary.decision_digest, bare.summary.decision_digest);
  EXPECT_EQ(full.summary.outcome_digest, bare.summary.outcome_digest);
  EXPECT_TRUE(bare.recorder.log.empty());
  EXPECT_TRUE(bare.recorder.steps.empty());
  EXPECT_EQ(bare.recorder.requests.size(), 2u);
}

TEST(WorldDigest, OneDecisionMoreIsAnotherDecisionDigest) {
  const std::uint64_t plain = TellRun(NoTwist).summary.decision_digest;
  const std::vector<std::function<void(Context&)>> twists = {
      [](Context& context) { context.clock().Arm(Time::Nanos(16), 5); },
      [](Context& context) { context.clock().Cancel({}); },
      [](Context& context) { context.actions().Poke({7}); },
      [](Context& context) { context.actions().Route(kNever, {0}); },
      [](Context& context) { context.memory({0}).Reserve({0}, 4); },
      [](Context& context) { context.memory({0}).Commit(context.memory({0}).Begin()); },
      [](Context& context) { context.actions().Launch({.device = {0}}); },
  };
  std::vector<std::uint64_t> digests = {plain};
  for (const auto& twist : twists) {
    const Told told = TellRun(twist);
    EXPECT_THAT(digests, testing::Not(testing::Contains(told.summary.decision_digest)));
    digests.push_back(told.summary.decision_digest);
    EXPECT_EQ(told.summary.outcome_digest, TellRun(NoTwist).summary.outcome_digest);
  }
}

TEST(WorldDigest, EveryPartOfAPlanIsPartOfTheDecision) {
  std::vector<std::uint64_t> digests;
  // A refused plan, so that nothing but the decision itself can differ.
  const Plan plans[] = {{.device = {9}},
                        {.device = {8}},
                        {.device = {9}, .standing = true},
                        {.device = {9}, .max_steps = 2},
                        {.device = {9}, .max_steps = (1u << 24) + 1},
                        {.device = {9}, .padding_tokens = 1},
                        {.device = {9}, .earliest = Time::Nanos(1)},
                        {.device = {9}, .latest = Time::Nanos(1)},
                        {.device = {9}, .late_binding = true}};
  for (const Plan& plan : plans) {
    const Told told = TellRun([&](Context& context) { context.actions().Launch(plan); });
    EXPECT_THAT(digests, testing::Not(testing::Contains(told.summary.decision_digest)))
        << "plan " << digests.size();
    digests.push_back(told.summary.decision_digest);
  }
}

TEST(WorldDigest, NotesAreInNoDigest) {
  const Told plain = TellRun(NoTwist);
  const Told noted = TellRun([](Context& context) { context.actions().Note("because"); });
  EXPECT_EQ(noted.summary.decision_digest, plain.summary.decision_digest);
  EXPECT_EQ(noted.summary.outcome_digest, plain.summary.outcome_digest);
  EXPECT_THAT(noted.recorder.notes, ElementsAre("because"));
  EXPECT_EQ(noted.recorder.log.size(), plain.recorder.log.size());
}

TEST(WorldDigest, AnotherOutcomeIsAnotherOutcomeDigest) {
  const Told plain = TellRun(NoTwist);
  const Told preempted =
      TellRun([](Context& context) { context.actions().Preempt({0}, PreemptMode::kRecompute); });
  EXPECT_NE(preempted.summary.outcome_digest, plain.summary.outcome_digest);
}

TEST(WorldLog, LinesAreWhatTheDigestIsMadeOf) {
  const Told told = TellRun([](Context& context) { context.actions().Poke({7}); });
  Journal again;
  std::uint64_t events = 0, refused_pokes = 0;
  for (std::size_t i = 0; i < told.recorder.log.size(); ++i) {
    const LogRecord& line = told.recorder.log[i];
    EXPECT_EQ(line.sequence, i);
    if (line.kind == static_cast<std::uint8_t>(LineKind::kEvent)) {
      events += static_cast<EventCode>(line.code) != EventCode::kFinished;
      again.Event(line.time, static_cast<EventCode>(line.code), line.a, line.b, line.c);
    } else {
      again.Decision(line.time, static_cast<DecisionCode>(line.code), line.a, line.b, line.c);
      refused_pokes += static_cast<DecisionCode>(line.code) == DecisionCode::kPoke && line.c != 0;
    }
  }
  EXPECT_EQ(again.digest(), told.summary.decision_digest);
  EXPECT_EQ(events, told.summary.events);
  EXPECT_EQ(refused_pokes, 1u);
  EXPECT_EQ(told.summary.refusals[static_cast<int>(Refusal::kUnknownDevice)], 1u);
}

TEST(WorldRecord, StepsSayWhatWasRun) {
  TestRun run;
  ScriptedPolicy policy;
  policy.on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, {0}, request);
  };
  policy.on_slot_free = [](Context& context, DeviceId) {
    if (!context.live({0})) return;
    if (context.request({0}).output_tokens() == 1) {
      const Entry entries[] = {ReservedEntry(context, {0}, {0}), ReservedEntry(context, {0}, {1})};
      context.actions().Launch({.device = {0}, .entries = entries, .padding_tokens = 3});
      return;
    }
    context.actions().Join({0}, {0});
    context.actions().Join({0}, {1});
    context.actions().Launch({.device = {0}, .standing = true, .max_steps = 5});
  };
  run.Run(&policy, {TokenRequest(0, 5, 4), TokenRequest(0, 7, 3)});
  const std::vector<StepRecord>& steps = run.recorder.steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].prefill_tokens, 5u);
  EXPECT_EQ(steps[0].prefill_requests, 1u);
  EXPECT_EQ(steps[0].decode_tokens, 0u);
  EXPECT_EQ(steps[0].free_blocks, 98u);
  EXPECT_EQ(steps[1].prefill_tokens, 7u);
  EXPECT_EQ(steps[1].decode_tokens, 1u);
  EXPECT_EQ(steps[1].decode_context_tokens, 6u) << "five of the prompt and its own";
  EXPECT_EQ(run.fakes[0].steps[1].padding_tokens, 3u);
  EXPECT_EQ(steps[2].decode_tokens, 2u);
  EXPECT_EQ(steps[2].decode_context_tokens, 7u + 8u);
  EXPECT_EQ(steps[3].decode_context_tokens, 8u + 9u);
  EXPECT_EQ(steps[3].step, 1u) << "the second of its plan";
  EXPECT_EQ(steps[3].free_blocks, 100u) << "both have finished";
}

}  // namespace
}  // namespace schedtwin
