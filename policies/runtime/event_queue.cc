#include "policies/runtime/event_queue.h"

#include <algorithm>

#include "policies/runtime/check.h"

namespace schedtwin {

std::uint32_t EventQueue::AddSlot() {
  slots_.emplace_back();
  return static_cast<std::uint32_t>(slots_.size() - 1);
}

void EventQueue::PushHeap(const Node& node) {
  heap_.emplace_back();
  SiftUp(heap_.size() - 1, node);
}

bool EventQueue::Pending(TimerId id) const {
  return id.slot < slots_.size() && slots_[id.slot].generation == id.generation;
}

bool EventQueue::Move(TimerId id, Time when, std::uint64_t order) {
  if (!Pending(id)) return false;
  const Node node{when.ns(), order, id.slot};
  const std::uint32_t position = slots_[id.slot].position;
  if (position == kFront) {
    has_front_ = false;
  } else {
    RemoveNode(position);
  }
  Insert(node);
  return true;
}

bool EventQueue::Cancel(TimerId id) {
  if (!Pending(id)) return false;
  const std::uint32_t position = slots_[id.slot].position;
  if (position == kFront) {
    has_front_ = false;
  } else {
    RemoveNode(position);
  }
  FreeSlot(id.slot);
  return true;
}

Event EventQueue::PopHeap() {
  SCHEDTWIN_CHECK(!heap_.empty());
  const std::uint32_t slot = heap_[0].slot;
  RemoveNode(0);
  FreeSlot(slot);
  return slots_[slot].event;
}

void EventQueue::RemoveNode(std::size_t position) {
  const Node last = heap_.back();
  heap_.pop_back();
  if (position == heap_.size()) return;
  if (position > 0 && last.Before(heap_[(position - 1) / 4])) {
    SiftUp(position, last);
  } else {
    SiftDown(position, last);
  }
}

void EventQueue::SiftUp(std::size_t position, Node node) {
  while (position > 0) {
    const std::size_t parent = (position - 1) / 4;
    if (!node.Before(heap_[parent])) break;
    Place(position, heap_[parent]);
    position = parent;
  }
  Place(position, node);
}

void EventQueue::SiftDown(std::size_t position, Node node) {
  const std::size_t size = heap_.size();
  for (;;) {
    const std::size_t first = 4 * position + 1;
    if (first >= size) break;
    std::size_t least = first;
    const std::size_t end = std::min(first + 4, size);
    for (std::size_t child = first + 1; child < end; ++child) {
      if (heap_[child].Before(heap_[least])) least = child;
    }
    if (!heap_[least].Before(node)) break;
    Place(position, heap_[least]);
    position = least;
  }
  Place(position, node);
}

void EventQueue::Latch(Time now) {
  // The due nodes are a subtree at the root. Their times become equal, and then only that subtree,
  // small, needs its order again: lift each due node in order of position, parents first; level by
  // level is that order.
  if (has_front_) {
    has_front_ = false;
    PushHeap(front_);
  }
  std::vector<std::size_t>& due = latched_;
  due.clear();
  if (!heap_.empty() && heap_[0].time_ns < now.ns()) due.push_back(0);
  for (std::size_t i = 0; i < due.size(); ++i) {
    for (std::size_t child = 4 * due[i] + 1; child < std::min(4 * due[i] + 5, heap_.size());
         ++child) {
      if (heap_[child].time_ns <= now.ns()) due.push_back(child);
    }
  }
  for (const std::size_t position : due) heap_[position].time_ns = now.ns();
  for (const std::size_t position : due) SiftUp(position, heap_[position]);
}

}  // namespace schedtwin
