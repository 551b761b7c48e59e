// Names of things: strong 32-bit identifiers, and {slot, generation} handles for things that end
// (timers, plans, operations), so that a stale handle is a harmless miss and never another thing.
#ifndef SCHEDTWIN_POLICIES_API_IDS_H_
#define SCHEDTWIN_POLICIES_API_IDS_H_

#include <compare>
#include <cstdint>

namespace schedtwin {

/// A 32-bit identifier that converts to nothing else. `Tag` only tells one kind from another.
template <class Tag>
struct Id {
  std::uint32_t value = kNone;

  static constexpr std::uint32_t kNone = 0xffffffffu;
  constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

/// A handle to something in a slab: the slot may be used again, the generation then differs.
template <class Tag>
struct Handle {
  std::uint32_t slot = 0xffffffffu;
  std::uint32_t generation = 0;

  constexpr bool valid() const { return slot != 0xffffffffu; }
  constexpr bool operator==(const Handle&) const = default;
  /// Both halves in one word, for logs and digests.
  constexpr std::uint64_t word() const {
    return (static_cast<std::uint64_t>(generation) << 32) | slot;
  }
  static constexpr Handle FromWord(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
};

using RequestId = Id<struct RequestTag>;  ///< numbered from 0 in order of arrival
using DeviceId = Id<struct DeviceTag>;    ///< numbered from 0
using ModelId = Id<struct ModelTag>;  ///< numbered from 0, in the order the run lists its models
using TimerId = Handle<struct TimerTag>;
using PlanId = Handle<struct PlanTag>;
using OpId = Handle<struct OpTag>;

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_IDS_H_
