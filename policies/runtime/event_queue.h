// EventQueue: everything that is still to happen, in one implicit 4-ary heap with handles and eager
// cancel (tombstones inflate a queue of timeouts; node-based heaps and calendar queues lose or
// collapse on ties). The earliest event may be held in front of the heap: the end of a step, posted
// and popped next, never touches it. Keys are (time, order word), so equal times pop in the total
// order of order.h. Handles are {slot, generation}: a stale one is a harmless miss. One thread; no
// allocation once it has grown.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_

#include <cstdint>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class EventKind : std::uint8_t {
  kReply,         ///< the message in the inbox of device `index`
  kTimer,         ///< `word` is the policy's tag, `index` the timer's number in the journal
  kArrival,       ///< `index` of the source
  kPlanStarting,  ///< late binding; `word` is the plan
  kPlanRetry,     ///< the window of the plan `word` opens; `index` of the device
  kPlanDropped,   ///< missed, empty or failed; `word` is the plan
  kOperation,     ///< `word` is the operation that has ended
  kCacheChange,   ///< on device `index`
  kDeviceChange,  ///< of device `index`; `word` is the change
  kFault,         ///< `index` of the run's faults; `word`: 0 begins, 1 ends
  kReportTaken,   ///< device `index` writes a report
  kReport,        ///< and here it is, the oldest that is on its way
  kCancel,        ///< of request `word`; `index` is by whom
};

struct Event {
  EventKind kind = EventKind::kTimer;
  std::uint32_t index = 0;
  std::uint64_t word = 0;
};

class EventQueue {
 public:
  /// Adds an event; the handle stays good until it is popped or cancelled.
  TimerId Push(Time when, std::uint64_t order, const Event& event) {
    const std::uint32_t slot = TakeSlot();
    slots_[slot].event = event;
    Insert(Node{when.ns(), order, slot});
    return {slot, slots_[slot].generation};
  }
  /// Moves a pending event; false if it has gone.
  bool Move(TimerId id, Time when, std::uint64_t order);
  /// Removes a pending event; false if it has gone.
  bool Cancel(TimerId id);

  bool empty() const { return !has_front_ && heap_.empty(); }
  std::size_t size() const { return heap_.size() + (has_front_ ? 1 : 0); }
  Time NextTime() const {
    if (has_front_) return Time::Nanos(front_.time_ns);
    return heap_.empty() ? Time::Infinite() : Time::Nanos(heap_[0].time_ns);
  }
  /// REQUIRES: !empty().
  Event Pop() {
    if (has_front_) {
      has_front_ = false;
      FreeSlot(front_.slot);
      return slots_[front_.slot].event;
    }
    return PopHeap();
  }

  /// The pending event, or null if it has gone. Valid until the queue changes.
  const Event* Find(TimerId id) const { return Pending(id) ? &slots_[id.slot].event : nullptr; }
  /// True if the earliest event is held in front and is this one.
  bool FrontIs(EventKind kind, std::uint32_t index) const {
    return has_front_ && slots_[front_.slot].event.kind == kind &&
           slots_[front_.slot].event.index == index;
  }
  /// Pops the earliest event if it is held in front and is this one; else false.
  bool PopFrontIf(EventKind kind, std::uint32_t index) {
    if (!FrontIs(kind, index)) return false;
    has_front_ = false;
    FreeSlot(front_.slot);
    return true;
  }

  /// Makes everything due by `now` simultaneous at `now`: what one wake of a real clock has
  /// collected is ordered by class, not by how late each part is.
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

  /// Puts a node in front if it comes before all others, else into the heap.
  void Insert(const Node& node) {
    if (!has_front_) {
      if (heap_.empty() || node.Before(heap_[0])) {
        SetFront(node);
        return;
      }
    } else if (node.Before(front_)) {
      PushHeap(front_);
      SetFront(node);
      return;
    }
    PushHeap(node);
  }
  void SetFront(const Node& node) {
    front_ = node;
    has_front_ = true;
    slots_[node.slot].position = kFront;
  }
  std::uint32_t TakeSlot() {
    const std::uint32_t slot = free_slot_;
    if (slot == kNoSlot) return AddSlot();
    free_slot_ = slots_[slot].position;
    return slot;
  }
  void FreeSlot(std::uint32_t slot) {
    ++slots_[slot].generation;  // from now on every handle to it is stale
    slots_[slot].position = free_slot_;
    free_slot_ = slot;
  }
  std::uint32_t AddSlot();
  Event PopHeap();
  void PushHeap(const Node& node);
  bool Pending(TimerId id) const;
  void RemoveNode(std::size_t position);
  void SiftUp(std::size_t position, Node node);
  void SiftDown(std::size_t position, Node node);
  void Place(std::size_t position, const Node& node) {
    heap_[position] = node;
    slots_[node.slot].position = static_cast<std::uint32_t>(position);
  }

  static constexpr std::uint32_t kNoSlot = 0xffffffffu;
  static constexpr std::uint32_t kFront = 0xfffffffeu;  ///< position of the node held in front
  Node front_{};
  bool has_front_ = false;
  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::uint32_t free_slot_ = kNoSlot;
  std::vector<std::size_t> latched_;  ///< scratch of Latch
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_EVENT_QUEUE_H_
