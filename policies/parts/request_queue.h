// RequestQueue: a double-ended queue of requests for policies: a ring that allocates only while it
// grows. Owned by one policy; one thread.
#ifndef SCHEDTWIN_POLICIES_PARTS_REQUEST_QUEUE_H_
#define SCHEDTWIN_POLICIES_PARTS_REQUEST_QUEUE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/plan.h"

namespace schedtwin {

class RequestQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// REQUIRES: !empty(), or i < size().
  RequestId front() const { return ring_[head_]; }
  RequestId operator[](std::size_t i) const { return ring_[(head_ + i) & mask()]; }

  void PushBack(RequestId id) {
    if (size_ == ring_.size()) Grow();
    ring_[(head_ + size_++) & mask()] = id;
  }
  void PushFront(RequestId id) {
    if (size_ == ring_.size()) Grow();
    head_ = (head_ + mask()) & mask();
    ring_[head_] = id;
    ++size_;
  }
  /// Takes back what was at work, in front and in its order.
  void PutBack(std::vector<RequestId>* requests) {
    for (; !requests->empty(); requests->pop_back()) PushFront(requests->back());
  }
  void PutBack(std::span<const Entry> entries) {
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) PushFront(entry->request);
  }
  void PopFront() {
    head_ = (head_ + 1) & mask();
    --size_;
  }
  /// Linear, as is Remove.
  bool Contains(RequestId id) const { return Find(id) < size_; }
  /// Takes out a request wherever it stands; false if it is not here. Linear: for cancellations.
  bool Remove(RequestId id) {
    std::size_t i = Find(id);
    if (i == size_) return false;
    for (; i + 1 < size_; ++i) ring_[(head_ + i) & mask()] = (*this)[i + 1];
    --size_;
    return true;
  }

 private:
  std::size_t mask() const { return ring_.size() - 1; }
  std::size_t Find(RequestId id) const {
    std::size_t i = 0;
    while (i < size_ && (*this)[i] != id) ++i;
    return i;
  }
  void Grow() {
    std::vector<RequestId> larger(ring_.empty() ? 64 : 2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    ring_.swap(larger);
    head_ = 0;
  }

  std::vector<RequestId> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_REQUEST_QUEUE_H_
