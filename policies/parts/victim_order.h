// VictimOrder: who gives up its memory when decoding requests need more than is free. What the
// orders are in the systems they come from:
//
//   last_admitted      vLLM v0 and v1 (fcfs): the last of the running list
//   lowest_priority    vLLM's priority policy: the greatest (priority, arrival)
//   fewest_generated   SGLang's retraction: fewest output tokens, of equals the longest prompt
//   longest_remaining  the longest to go, by the run's length predictor or else by what it may make
//                      at most
//
// Equals in all that: the last admitted. A function of what is there; linear in the running.
#ifndef SCHEDTWIN_POLICIES_PARTS_VICTIM_ORDER_H_
#define SCHEDTWIN_POLICIES_PARTS_VICTIM_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "policies/api/context.h"

namespace schedtwin {

enum class VictimOrder : std::uint8_t {
  kLastAdmitted,
  kLowestPriority,
  kFewestGenerated,
  kLongestRemaining,
};

/// As parameters name them, in the order of VictimOrder.
inline constexpr std::array<std::string_view, 4> kVictimOrderNames = {
    "last_admitted", "lowest_priority", "fewest_generated", "longest_remaining"};

/// The greater goes first.
inline std::pair<std::int64_t, std::int64_t> VictimKey(VictimOrder order, const Context& context,
                                                       RequestId request) {
  const RequestView view = context.request(request);
  switch (order) {
    case VictimOrder::kLastAdmitted:
      return {0, 0};
    case VictimOrder::kLowestPriority:
      return {view.priority(), view.arrival().ns()};
    case VictimOrder::kFewestGenerated:
      return {-std::int64_t{view.output_tokens()}, view.prompt_tokens()};
    case VictimOrder::kLongestRemaining: {
      const std::int64_t length =
          context.services().OutputLength(request).value_or(view.max_new_tokens());
      return {length - view.output_tokens(), 0};
    }
  }
  return {0, 0};
}

/// The place in `running`, which is in order of admission. REQUIRES: it is not empty.
inline std::size_t PickVictim(VictimOrder order, const Context& context,
                              std::span<const RequestId> running) {
  std::size_t victim = running.size() - 1;
  if (order == VictimOrder::kLastAdmitted) return victim;
  auto greatest = VictimKey(order, context, running[victim]);
  for (std::size_t i = victim; i-- > 0;) {
    const auto key = VictimKey(order, context, running[i]);
    if (key <= greatest) continue;
    greatest = key;
    victim = i;
  }
  return victim;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_VICTIM_ORDER_H_
