// Freeness: how many KV blocks an instance has to spare for each of its requests, as the artifact
// of Llumnix computes it (there the load, its negative). Exact: fractions of integers, infinite
// where there are no requests, negative where more is asked for than there is. Plain functions of
// what is known of an instance: from the policy's own books, or from a report.
#ifndef SCHEDTWIN_POLICIES_LLUMNIX_FREENESS_H_
#define SCHEDTWIN_POLICIES_LLUMNIX_FREENESS_H_

#include <cstdint>
#include <limits>

namespace schedtwin {

/// What is known of an instance.
struct InstanceState {
  std::int64_t total_blocks = 0;
  std::int64_t free_blocks = 0;
  std::int64_t running = 0;         ///< requests
  std::int64_t waiting = 0;         ///< requests
  std::int64_t waiting_blocks = 0;  ///< that all who wait will take
  std::int64_t killed = 0;          ///< of the waiting: those that were preempted
  std::int64_t priority_requests = 0;
  bool draining = false;
};

/// blocks / requests.
class Freeness {
 public:
  Freeness(std::int64_t blocks, std::int64_t requests) : blocks_(blocks), requests_(requests) {}

  bool infinite() const { return requests_ == 0; }
  double value() const {
    if (infinite()) return std::numeric_limits<double>::infinity();
    return static_cast<double>(blocks_) / static_cast<double>(requests_);
  }
  /// With so many requests more (or, negative, fewer) on the same blocks.
  Freeness With(std::int64_t requests) const { return {blocks_, requests_ + requests}; }

  friend bool operator>(const Freeness& a, const Freeness& b) {
    if (a.infinite() || b.infinite()) return a.infinite() && !b.infinite();
    return a.blocks_ * b.requests_ > b.blocks_ * a.requests_;
  }

 private:
  std::int64_t blocks_;
  std::int64_t requests_;
};

struct FreenessRules {
  bool defragmentation;             ///< migration looks at who waits, too
  std::int64_t watermark_permille;  ///< of all blocks: not counted as available
  std::int64_t
      priority_target_blocks;  ///< an instance with a high-priority request is to use these

  std::int64_t Available(const InstanceState& at) const {
    return at.free_blocks - at.total_blocks * watermark_permille / 1000;
  }
  /// Kept clear of others where a high-priority request is to have the instance nearly to itself.
  std::int64_t Headroom(const InstanceState& at) const {
    return at.total_blocks - priority_target_blocks;
  }

  /// By which instances are paired for migration.
  Freeness ForMigration(const InstanceState& at) const {
    if (at.draining) return {-1000, 1};
    if (!defragmentation) return {Available(at), at.running};
    const std::int64_t headroom = at.priority_requests > 0 ? Headroom(at) : 0;
    return {Available(at) - at.waiting_blocks - headroom, at.running + (at.waiting > 0 ? 1 : 0)};
  }

  /// By which an arrival is dispatched. Headroom counts where either the instance or the arrival
  /// has high priority, but not both: that packs high-priority requests together.
  Freeness ForDispatch(const InstanceState& at, bool high_priority) const {
    const bool mixes = (at.priority_requests > 0) != high_priority;
    const std::int64_t headroom = mixes ? Headroom(at) : 0;
    return {Available(at) - at.waiting_blocks - headroom, at.running + at.waiting};
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_LLUMNIX_FREENESS_H_
