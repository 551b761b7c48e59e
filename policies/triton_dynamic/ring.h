// Ring: a double-ended queue of plain values that allocates only while it grows. Owned by one part
// of this policy; one thread.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RING_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RING_H_

#include <cstddef>
#include <vector>

namespace schedtwin::triton {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// REQUIRES, here and below: i < size(), or !empty().
  const T& operator[](std::size_t i) const { return values_[At(i)]; }
  const T& front() const { return values_[head_]; }

  void PushBack(const T& value) {
    if (size_ == values_.size()) Grow();
    values_[At(size_++)] = value;
  }
  void PushFront(const T& value) {
    if (size_ == values_.size()) Grow();
    head_ = At(values_.size() - 1);
    values_[head_] = value;
    ++size_;
  }
  T PopFront() {
    const T value = values_[head_];
    head_ = At(1);
    --size_;
    return value;
  }
  /// Linear in what stands behind, but for the first.
  void Erase(std::size_t i) {
    if (i == 0) {
      PopFront();
      return;
    }
    for (; i + 1 < size_; ++i) values_[At(i)] = values_[At(i + 1)];
    --size_;
  }

 private:
  std::size_t At(std::size_t i) const { return (head_ + i) & (values_.size() - 1); }
  void Grow() {
    std::vector<T> larger(values_.empty() ? 16 : 2 * values_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = values_[At(i)];
    values_.swap(larger);
    head_ = 0;
  }

  std::vector<T> values_;  // a power of two of them
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RING_H_
