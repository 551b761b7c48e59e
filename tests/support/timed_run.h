// TimedRun: a TestRun whose decisions the test gives by the instant at which they are made. A
// decision of an instant comes after what ends at it and before what arrives at it. One thread;
// used once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_TIMED_RUN_H_
#define SCHEDTWIN_TESTS_SUPPORT_TIMED_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scripted_policy.h"
#include "tests/support/test_run.h"
#include "tests/support/world_middle.h"

namespace schedtwin {

struct TimedRun {
  TestRun run;
  ScriptedPolicy policy;

  void At(std::int64_t ns, std::function<void(Context&)> decide) {
    decisions.push_back({Time::Nanos(ns), std::move(decide)});
  }
  /// Reserves and launches what the request has to compute, which must be accepted.
  void LaunchAt(std::int64_t ns, std::uint32_t request, std::uint32_t device = 0, Plan plan = {}) {
    At(ns, [=](Context& context) { LaunchOne(context, {device}, {request}, plan); });
  }

  /// Gives up whoever lives, so that the run ends.
  void EndAllAt(std::int64_t ns, std::uint32_t requests) {
    At(ns, [=](Context& context) {
      for (std::uint32_t id = 0; id < requests; ++id) {
        if (context.live({id})) context.actions().Finish({id}, EndReason::kTimedOut);
      }
    });
  }

  RunSummary Run(std::vector<RequestSpec> requests) {
    ListSource source(std::move(requests));
    return Run(std::vector<RequestSource*>{&source});
  }
  RunSummary Run(const std::vector<RequestSource*>& sources) {
    policy.on_start = [this](Context& context) {
      for (std::size_t i = 0; i < decisions.size(); ++i) context.clock().Arm(decisions[i].first, i);
    };
    policy.on_timer = [this](Context& context, std::uint64_t tag) {
      ++decided;
      decisions[tag].second(context);
    };
    const RunSummary summary = run.Run(&policy, sources);
    EXPECT_EQ(decided, decisions.size()) << "the run ended before the last decision";
    return summary;
  }

  /// What the policy was told, but for its own timers, slots and the start.
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const std::string& line : policy.seen) {
      const std::string what = line.substr(line.find(' ') + 1);
      if (what != "start" && what.rfind("timer", 0) != 0 && what.rfind("slot", 0) != 0) {
        told.push_back(line);
      }
    }
    return told;
  }

  std::vector<std::pair<Time, std::function<void(Context&)>>> decisions;
  std::size_t decided = 0;
};

/// What is free and fenced on a device, and free on its host.
struct Books {
  std::uint32_t free = 0, fenced = 0, host = 0;
  bool operator==(const Books&) const = default;
  friend void PrintTo(const Books& books, std::ostream* out) {
    *out << books.free << " free, " << books.fenced << " fenced, " << books.host << " on the host";
  }
};
inline Books BooksOf(const Context& context, std::uint32_t device) {
  const DeviceView& view = context.device({device});
  return {view.free_blocks, view.fenced_blocks, view.host_free_blocks};
}

/// What is known of a request: its state, what is computed of it, what it owns.
struct Progress {
  RequestState state = RequestState::kWaiting;
  std::uint32_t known = 0, scheduled = 0, output = 0, owned = 0;
  bool operator==(const Progress&) const = default;
  friend void PrintTo(const Progress& at, std::ostream* out) {
    *out << "state " << static_cast<int>(at.state) << ", " << at.known << " known, " << at.scheduled
         << " scheduled, " << at.output << " made, " << at.owned << " blocks";
  }
};
inline Progress ProgressOf(const Context& context, std::uint32_t request) {
  const RequestView view = context.request({request});
  return {view.state(), view.known_tokens(), view.scheduled_tokens(), view.output_tokens(),
          view.owned_blocks()};
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_TIMED_RUN_H_
