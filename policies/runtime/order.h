// The total order of events: (time, class, entity, sequence). Written once, used by every world.
// Releases come before what may want the released, decisions come last: plan done = operation done
// < cache change < device change < report < cancel < timer < arrival < plan starting < slot free.
// Slot free is kept outside the queue (World), since it comes after everything else at its instant.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_ORDER_H_
#define SCHEDTWIN_POLICIES_RUNTIME_ORDER_H_

#include <cstdint>

namespace schedtwin {

enum class EventClass : std::uint8_t {
  kDone = 0,  ///< plan done, operation done
  kCacheChange = 1,
  kDeviceChange = 2,
  kReport = 3,
  kCancel = 4,
  kTimer = 5,
  kArrival = 6,
  kPlanStarting = 7,
};

/// Entities of a class (devices, sources) are fewer than this.
inline constexpr std::uint32_t kMaxEntities = 1u << 20;

/// Scrambles what orders ties, for the test mode that looks for policies which depend on them.
inline std::uint64_t ShuffleTie(std::uint64_t tie, std::uint64_t tie_seed) {
  tie ^= tie_seed * 0x9e3779b97f4a7c15ull;
  tie = (tie ^ (tie >> 30)) * 0xbf58476d1ce4e5b9ull;
  tie = (tie ^ (tie >> 27)) * 0x94d049bb133111ebull;
  return tie >> 4;
}

/// Packs class, entity and sequence into one word that compares in that order. Sequences beyond
/// 2^40 would wrap: that takes months. A tie seed other than 0 shuffles entities and sequences
/// inside each class, to expose policies that depend on them.
inline std::uint64_t OrderWord(EventClass event_class, std::uint32_t entity, std::uint64_t sequence,
                               std::uint64_t tie_seed) {
  std::uint64_t low =
      (static_cast<std::uint64_t>(entity & 0xfffffu) << 40) | (sequence & 0xffffffffffull);
  if (tie_seed != 0) [[unlikely]]
    low = ShuffleTie(low, tie_seed);
  return (static_cast<std::uint64_t>(event_class) << 60) | (low & 0x0fffffffffffffffull);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_ORDER_H_
