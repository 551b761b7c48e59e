// PeakMemory: LightLLM's test for admission, which S-LoRA and VTC's artifact took over: the most KV
// tokens that a batch can come to hold if each makes all that it may, those with the least left
// ending first. Keeps a scratch list, and allocates while that grows. One thread.
#ifndef SCHEDTWIN_POLICIES_VTC_PEAK_MEMORY_H_
#define SCHEDTWIN_POLICIES_VTC_PEAK_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policies/api/context.h"

namespace schedtwin::vtc {

class PeakMemory {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  /// True if the peak of `running` and the candidate is below `limit_tokens`.
  bool Fits(const Context& context, std::span<const RequestId> running, RequestId candidate,
            std::uint64_t limit_tokens) {
    batch_.clear();
    for (const RequestId request : running) batch_.push_back(UseOf(context.request(request)));
    batch_.push_back(UseOf(context.request(candidate)));
    std::sort(batch_.begin(), batch_.end(),
              [](const Use& a, const Use& b) { return a.left_tokens > b.left_tokens; });
    std::uint64_t held = 0, peak = 0, count = 0;
    for (const Use& use : batch_) {
      held += use.held_tokens;
      peak = std::max(peak, use.left_tokens * ++count + held);
    }
    return peak < limit_tokens;
  }

 private:
  struct Use {
    std::uint64_t held_tokens;
    std::uint64_t left_tokens;
  };

  /// One whose prompt is not done counts with the token that this will make.
  static Use UseOf(const RequestView& request) {
    const std::uint32_t made = request.output_tokens();
    const std::uint32_t left = request.max_new_tokens() - made;
    const std::uint32_t next = request.phase() == Phase::kPrefill ? 1 : 0;
    return {request.prompt_tokens() + made + next, left > 0 ? left - 1 : 0};
  }

  std::vector<Use> batch_;
};

}  // namespace schedtwin::vtc

#endif  // SCHEDTWIN_POLICIES_VTC_PEAK_MEMORY_H_
