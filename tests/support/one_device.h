// One device and the requests on it, for tests of plans. Header-only; one thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_ONE_DEVICE_H_
#define SCHEDTWIN_TESTS_SUPPORT_ONE_DEVICE_H_

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "policies/api/policy.h"
#include "tests/support/scripted_policy.h"

namespace schedtwin {

inline constexpr DeviceId kDevice = {0};

/// What the request has to compute, blocks reserved for it.
inline Entry ReservedEntry(Context& context, RequestId request) {
  const RequestView view = context.request(request);
  context.memory(kDevice).Reserve(request, view.scheduled_tokens() + view.next_tokens());
  return {request, view.next_tokens()};
}

/// Launches one request as `plan` says otherwise.
inline PlanId LaunchOne(Context& context, RequestId request, Plan plan = {}) {
  const Entry entry = ReservedEntry(context, request);
  plan.device = kDevice;
  plan.entries = {&entry, 1};
  const Launched launched = context.actions().Launch(plan);
  EXPECT_TRUE(launched.ok()) << static_cast<int>(launched.refusal);
  return launched.id;
}

/// Prefills each request when it arrives, then launches `decode` whenever the plan ends.
inline void ServeFirst(ScriptedPolicy* policy, std::function<void(Context&)> decode) {
  policy->on_arrival = [](Context& context, RequestId request) {
    if (request.value == 0) LaunchOne(context, request);
  };
  policy->on_slot_free = [decode = std::move(decode)](Context& context, DeviceId) {
    if (context.live({0}) && context.request({0}).state() != RequestState::kEnded) decode(context);
  };
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_ONE_DEVICE_H_
