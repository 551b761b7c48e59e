// EventQueue: everything that is still to happen, in one implicit 4-ary heap with handles and eager cancel
// (tombstones inflate a queue of timeouts; node-based heaps and calendar queues lose or collapse on ties).
// Keys are (time, order word), so equal times pop in the total order of order.h. Handles are {slot,
// generation}: a stale one is a harmless miss. One thread; no allocation once it has grown.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_

#include <cstdint>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class EventKind : std::uint8_t {
  kReply,         ///< a device's message; `index` in the reply slab
  kTimer,         ///< `word` is the policy's tag
  kArrival,       ///< `index` of the source
  kPlanStarting,  ///< late binding; `word` is the plan
  kPlanRetry,     ///< the window of the plan at a device's head opens; `index` of the device
  kPlanDropped,   ///< missed or empty; `word` is the plan
};

struct Event {
  EventKind kind = EventKind::kTimer;
  std::uint32_t index = 0;
  std::uint64_t word = 0;
};

class EventQueue {
 public:
  /// Adds an event; the handle stays good until it is popped or cancelled.
  TimerId Push(Time when, std::uint64_t order, const Event& event);
  /// Moves a pending event; false if it has gone.
  bool Move(TimerId id, Time when, std::uint64_t order);
  /// Removes a pending event; false if it has gone.
  bool Cancel(TimerId id);

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Time NextTime() const { return heap_.empty() ? Time::Infinite() : Time::Nanos(heap_[0].time_ns); }
  /// REQUIRES: !empty().
  Event Pop();

  /// Makes everything due by `now` simultaneous at `now`: what one wake of a real clock has collected is
  /// ordered by class, not by how late each part is.
  void Latch(Time now);

 private:
  struct Node {
    std::int64_t time_ns;
    std::uint64_t order;
    std::uint32_t slot;

    bool Before(const Node& o) const {
      return time_ns != o.time_ns ? time_ns < o.time_ns : order < o.order;
    }
  };
  struct Slot {
    Event event;
    std::uint32_t position = 0;  ///< in the heap; of a free slot: the next free one
    std::uint32_t generation = 0;
  };

  bool Pending(TimerId id) const;
  void Remove(std::size_t position);
  void SiftUp(std::size_t position, Node node);
  void SiftDown(std::size_t position, Node node);
  void Place(std::size_t position, const Node& node) {
    heap_[position] = node;
    slots_[node.slot].position = static_cast<std::uint32_t>(position);
  }

  static constexpr std::uint32_t kNoSlot = 0xffffffffu;
  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::uint32_t free_slot_ = kNoSlot;
  std::vector<std::size_t> latched_;  ///< scratch of Latch
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_
