// WaitingQueue: who waits for an engine, in the order in which it asks: first come first served, or
// by priority. The two differ in where a preempted request comes back: in front of all others under
// fcfs; by priority where its own key puts it, behind whoever is more urgent or came earlier
// (vllm#41951 would change that, and was not followed). Owned by one engine of vllm_v1; one thread.
#ifndef SCHEDTWIN_POLICIES_VLLM_V1_WAITING_QUEUE_H_
#define SCHEDTWIN_POLICIES_VLLM_V1_WAITING_QUEUE_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "policies/api/context.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

class WaitingQueue {
 public:
  explicit WaitingQueue(bool by_priority) : by_priority_(by_priority) {}

  bool empty() const { return by_priority_ ? heap_.empty() : queue_.empty(); }
  /// REQUIRES: !empty().
  RequestId front() const { return by_priority_ ? heap_.front().request() : queue_.front(); }

  void Add(const Context& context, RequestId request) {
    if (by_priority_) return Push(context, request);
    queue_.PushBack(request);
  }
  /// Takes back one that was running.
  void PutBack(const Context& context, RequestId request) {
    if (by_priority_) return Push(context, request);
    queue_.PushFront(request);
  }
  void PopFront() {
    if (!by_priority_) return queue_.PopFront();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
  }
  /// False if it is not here. Linear: for cancellations.
  bool Remove(RequestId request) {
    if (!by_priority_) return queue_.Remove(request);
    const auto gone = std::erase_if(heap_, [&](const Key& key) { return key.id == request.value; });
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    return gone > 0;
  }

 private:
  /// The smallest is the first: the most urgent, then the earliest, then the lowest number.
  struct Key {
    std::int32_t priority;
    std::int64_t arrival_ns;
    std::uint32_t id;

    auto operator<=>(const Key&) const = default;
    RequestId request() const { return {id}; }
  };

  void Push(const Context& context, RequestId request) {
    const RequestView view = context.request(request);
    heap_.push_back({view.priority(), view.arrival().ns(), request.value});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  bool by_priority_;
  RequestQueue queue_;     ///< fcfs
  std::vector<Key> heap_;  ///< by priority
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_VLLM_V1_WAITING_QUEUE_H_
