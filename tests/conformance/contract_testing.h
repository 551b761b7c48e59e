// What the contract's scenarios have in common: Server, a policy that serves all that it is not
// told to hold back, one listed step at a time; a scenario derives from it and does one thing
// besides, whose results it keeps for the test to look at. Play runs a scenario; on the processor
// it also holds what requests have made against a run of the bare Server, alone on one device.
#ifndef SCHEDTWIN_TESTS_CONFORMANCE_CONTRACT_TESTING_H_
#define SCHEDTWIN_TESTS_CONFORMANCE_CONTRACT_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/two_worlds.h"

namespace schedtwin {

inline constexpr DeviceId kFirst = {0};
inline constexpr DeviceId kSecond = {1};
inline constexpr DeviceId kNoDevice = {9};
inline constexpr RequestId kNoRequest = {99};

class Server : public Policy {
 public:
  void OnArrival(Context& context, RequestId request) override {
    EXPECT_EQ(context.actions().Route(request, kFirst), Refusal::kNone);
    Accept(context, request);
  }
  void OnSlotFree(Context& context, DeviceId device) override { Serve(context, device); }

 protected:
  void Accept(Context& context, RequestId request) {
    requests_.push_back(request);
    PokeAll(context);
  }
  void HoldBack(RequestId request) { held_back_.insert(request.value); }
  void ServeAgain(Context& context, RequestId request) {
    held_back_.erase(request.value);
    PokeAll(context);
  }
  static void PokeAll(Context& context) {
    for (const DeviceView& device : context.devices()) context.actions().Poke(device.id);
  }
  /// A callback of its own at this very instant: what is launched here has been started by then.
  static void At(Context& context, std::uint64_t tag) { context.clock().Arm(context.now(), tag); }
  static bool CanRun(Context& context, RequestId request, DeviceId device) {
    if (!context.live(request)) return false;
    const RequestView view = context.request(request);
    return view.device() == device && view.state() == RequestState::kWaiting &&
           view.tier() == Tier::kDevice && !view.in_flight() && view.next_tokens() > 0;
  }
  /// Launches the next step of one request. REQUIRES: it can run.
  static PlanId LaunchOne(Context& context, DeviceId device, RequestId request) {
    const RequestView view = context.request(request);
    const Entry entry = {request, view.next_tokens()};
    EXPECT_TRUE(context.memory(device).Reserve(request, view.scheduled_tokens() + entry.tokens));
    const Launched launched = context.actions().Launch({.device = device, .entries = {&entry, 1}});
    EXPECT_EQ(launched.refusal, Refusal::kNone);
    return launched.id;
  }
  void Serve(Context& context, DeviceId device) {
    if (!context.device(device).up() || context.device(device).depth_left() == 0) return;
    std::vector<Entry> entries;
    for (const RequestId request : requests_) {
      if (held_back_.count(request.value) > 0 || !CanRun(context, request, device)) continue;
      const RequestView view = context.request(request);
      const Entry entry = {request, view.next_tokens()};
      if (!context.memory(device).Reserve(request, view.scheduled_tokens() + entry.tokens)) {
        continue;
      }
      entries.push_back(entry);
    }
    if (entries.empty()) return;
    EXPECT_EQ(context.actions().Launch({.device = device, .entries = entries}).refusal,
              Refusal::kNone);
  }

 private:
  std::vector<RequestId> requests_;
  std::set<std::uint32_t> held_back_;
};

/// What the requests make when nothing disturbs them.
inline MadeByRequest MadeUndisturbed(const std::vector<RequestSpec>& requests) {
  TwoWorlds alone;
  const RunSummary summary = alone.Run(
      TestWorld::kCpu, [] { return std::make_unique<Server>(); }, requests);
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  return alone.tokens.made();
}

template <class Scenario>
struct Played {
  RunSummary summary;
  const Scenario* policy;
};

/// Runs the scenario to its end. `run` keeps it.
template <class Scenario, class... Arguments>
Played<Scenario> Play(TwoWorlds& run, TestWorld world, const std::vector<RequestSpec>& requests,
                      const Arguments&... arguments) {
  Played<Scenario> played;
  played.summary = run.Run(
      world, [&] { return std::make_unique<Scenario>(arguments...); }, requests);
  played.policy = static_cast<const Scenario*>(run.policy.get());
  EXPECT_EQ(played.summary.result, RunResult::kFinished) << played.summary.detail;
  return played;
}

/// The same, of requests that must all be served, and say what they say when they run alone.
template <class Scenario, class... Arguments>
Played<Scenario> PlayThrough(TwoWorlds& run, TestWorld world,
                             const std::vector<RequestSpec>& requests,
                             const Arguments&... arguments) {
  const Played<Scenario> played = Play<Scenario>(run, world, requests, arguments...);
  EXPECT_EQ(played.summary.ended[static_cast<int>(EndReason::kCompleted)], requests.size());
  if (world == TestWorld::kCpu) {
    EXPECT_EQ(run.tokens.made(), MadeUndisturbed(requests));
  }
  return played;
}

inline std::string WorldName(const testing::TestParamInfo<TestWorld>& info) {
  return testing::PrintToString(info.param);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_CONFORMANCE_CONTRACT_TESTING_H_
