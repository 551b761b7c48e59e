#include "policies/clockwork/model_queue.h"

#include <algorithm>

namespace schedtwin::clockwork {

ModelQueue::ModelQueue(std::span<const std::uint32_t> sizes, std::size_t window) {
  for (const std::uint32_t size : sizes) {
    sizes_.push_back({.size = size, .estimate = {}, .window = DurationWindow(window)});
  }
}

void ModelQueue::AddMeasurement(std::uint32_t size, Duration measured) {
  for (Size& some : sizes_) {
    if (some.size != size) continue;
    some.window.Add(measured);
    some.estimate = some.window.Percentile99();
  }
}

void ModelQueue::Add(const Waiting& request) {
  const auto at = std::upper_bound(
      waiting_.begin(), waiting_.end(), request, [](const Waiting& a, const Waiting& b) {
        return a.deadline != b.deadline ? a.deadline < b.deadline : a.id < b.id;
      });
  const auto place = static_cast<std::size_t>(at - waiting_.begin());
  for (Size& size : sizes_) size.skip += size.skip > place;
  waiting_.insert(at, request);
}

bool ModelQueue::Remove(RequestId id) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                               [id](const Waiting& request) { return request.id == id; });
  if (at == waiting_.end()) return false;
  const auto place = static_cast<std::size_t>(at - waiting_.begin());
  for (Size& size : sizes_) size.skip -= size.skip > place;
  waiting_.erase(at);
  return true;
}

Strategy ModelQueue::First(std::uint32_t max_size) const {
  Strategy first;
  for (const Size& size : sizes_) {
    if (size.size > max_size || size.skip == waiting_.size()) continue;
    const Time latest_start = waiting_[size.skip].deadline - size.estimate;
    if (first.size == 0 || latest_start < first.latest_start) first = {latest_start, size.size};
  }
  return first;
}

std::size_t ModelQueue::Filled(std::size_t index) const {
  const Size& size = sizes_[index];
  if (size.skip == waiting_.size()) return 0;
  std::size_t count = 0;
  std::uint64_t there = 0;  // units of those looked at, the first that does not fit included
  for (std::size_t i = size.skip; i < waiting_.size() && there < size.size; ++i) {
    there += waiting_[i].units;
    if (there > size.size) break;
    ++count;
  }
  const bool smallest = index == 0 || waiting_[size.skip].units > sizes_[index - 1].size;
  return there >= size.size || smallest ? count : 0;
}

void ModelQueue::Dequeue(Time free_at, std::uint32_t min_size, Batch* batch) {
  batch->size = 0;
  batch->requests.clear();
  batch->dropped.clear();
  std::size_t in_no_queue = waiting_.size();
  for (Size& size : sizes_) {
    while (size.skip < waiting_.size() && waiting_[size.skip].deadline < free_at + size.estimate) {
      ++size.skip;
    }
    in_no_queue = std::min(in_no_queue, size.skip);
  }
  std::size_t largest = sizes_.size();
  while (largest > 0 && Filled(largest - 1) == 0) --largest;
  std::size_t gone = in_no_queue;
  if (largest > 0 && sizes_[largest - 1].size >= min_size) {
    const Size& size = sizes_[largest - 1];
    const std::size_t count = Filled(largest - 1);
    batch->size = size.size;
    batch->estimate = size.estimate;
    const auto first = waiting_.begin() + static_cast<std::ptrdiff_t>(size.skip);
    batch->requests.assign(first, first + static_cast<std::ptrdiff_t>(count));
    in_no_queue = size.skip;  // who was too late for this batch is behind it in every queue now
    gone = size.skip + count;
  }
  for (std::size_t i = 0; i < in_no_queue; ++i) batch->dropped.push_back(waiting_[i].id);
  EraseHead(gone);
}

void ModelQueue::TakeOverdue(Time now, std::vector<RequestId>* overdue) {
  std::size_t count = 0;
  for (; count < waiting_.size() && waiting_[count].deadline <= now; ++count) {
    overdue->push_back(waiting_[count].id);
  }
  EraseHead(count);
}

void ModelQueue::EraseHead(std::size_t count) {
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  for (Size& size : sizes_) size.skip -= std::min(size.skip, count);
}

}  // namespace schedtwin::clockwork
