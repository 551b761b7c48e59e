// StepAhead: what async scheduling remembers of the step it has decided while the one before still
// runs. Two things are known only when that one has ended. Who has stopped by then (or was
// cancelled) stays in the step: the engine has sent it already, so its tokens are computed for
// nothing. And blocks that were given back meanwhile are handed out again, in the order of the
// steps, while the runtime fences them till then: entries that count on them are owed. Owned by one
// engine of vllm_v1; one thread.
#ifndef SCHEDTWIN_POLICIES_VLLM_V1_STEP_AHEAD_H_
#define SCHEDTWIN_POLICIES_VLLM_V1_STEP_AHEAD_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/api/plan.h"

namespace schedtwin {

struct StepAhead {
  PlanId plan;                    ///< launched and not started; none if all of it is owed
  std::vector<Entry> entries;     ///< launched
  std::vector<Entry> owed;        ///< decided, but their blocks are fenced
  std::uint32_t owed_blocks = 0;  ///< for these
  std::uint32_t wasted_tokens = 0;

  bool complete() const { return owed.empty() && wasted_tokens == 0; }
  /// The request has ended, but not its tokens.
  void Waste(RequestId request) {
    for (std::vector<Entry>* part : {&entries, &owed}) {
      const auto at = std::find_if(part->begin(), part->end(),
                                   [&](const Entry& entry) { return entry.request == request; });
      if (at == part->end()) continue;
      wasted_tokens += at->tokens;
      part->erase(at);
      return;
    }
  }
  void Clear() {
    plan = PlanId{};
    entries.clear();
    owed.clear();
    owed_blocks = wasted_tokens = 0;
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_VLLM_V1_STEP_AHEAD_H_
