// Requests, plans and a world in the middle of its work, for tests of what a policy may decide.
// Header-only; one thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_WORLD_MIDDLE_H_
#define SCHEDTWIN_TESTS_SUPPORT_WORLD_MIDDLE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/policy.h"
#include "policies/runtime/world.h"
#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"

namespace schedtwin {

/// All that a policy can read, as one text.
inline std::string Readable(const Context& context, std::uint32_t requests) {
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

inline Entry ReservedEntry(Context& context, DeviceId device, RequestId request) {
  const RequestView view = context.request(request);
  context.memory(device).Reserve(request, view.scheduled_tokens() + view.next_tokens());
  return {request, view.next_tokens()};
}

inline PlanId LaunchOne(Context& context, DeviceId device, RequestId request, Plan plan = {}) {
  const Entry entry = ReservedEntry(context, device, request);
  plan.device = device;
  plan.entries = {&entry, 1};
  const Launched launched = context.actions().Launch(plan);
  EXPECT_TRUE(launched.ok()) << static_cast<int>(launched.refusal);
  return launched.id;
}

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

using M = const Middle&;

inline constexpr DeviceId kBusy = {0}, kIdle = {1}, kNoDevice = {9};
inline constexpr RequestId kDecoding = {0}, kMember = {1}, kInQueue = {2}, kReady = {3},
                           kAway = {4}, kNew = {5}, kGone = {6}, kNever = {99};

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

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_WORLD_MIDDLE_H_
