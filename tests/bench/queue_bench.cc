// The event queue against the obvious alternatives, in the same run and on the same draws.
//   hold     pop the earliest, push it back a random time later: a queue of constant size
//   timeouts arm one far ahead, cancel the oldest: timers that hardly ever fire
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/event_queue.h"
#include "policies/runtime/order.h"

namespace schedtwin {
namespace {

/// Gaps drawn beforehand, so that drawing is not measured.
std::vector<std::int64_t> Gaps() {
  std::vector<std::int64_t> gaps(1 << 16);
  Rng rng(1, "gaps");
  for (std::int64_t& gap : gaps) gap = 1 + rng.Below(1'000'000);
  return gaps;
}

/// What std containers hold: the same key and payload as EventQueue.
struct Entry {
  std::int64_t time_ns;
  std::uint64_t order;
  Event event;

  bool operator<(const Entry& o) const {
    return time_ns != o.time_ns ? time_ns < o.time_ns : order < o.order;
  }
  bool operator>(const Entry& o) const { return o < *this; }
};

std::uint64_t Order(std::uint64_t sequence) {
  return OrderWord(EventClass::kTimer, 0, sequence, 0);
}

class OurQueue {
 public:
  using Ref = TimerId;
  Ref Push(const Entry& e) { return queue_.Push(Time::Nanos(e.time_ns), e.order, e.event); }
  std::int64_t PopTime() {
    const std::int64_t time_ns = queue_.NextTime().ns();
    benchmark::DoNotOptimize(queue_.Pop());
    return time_ns;
  }
  bool Cancel(Ref ref) { return queue_.Cancel(ref); }

 private:
  EventQueue queue_;
};

class BinaryHeap {
 public:
  void Push(const Entry& e) { queue_.push(e); }
  std::int64_t PopTime() {
    const std::int64_t time_ns = queue_.top().time_ns;
    queue_.pop();
    return time_ns;
  }

 private:
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// A binary heap that cancels by tombstones: the cancelled stay until they come to the top.
class TombstoneHeap {
 public:
  using Ref = std::uint64_t;
  Ref Push(const Entry& e) {
    queue_.push(e);
    return e.order;
  }
  bool Cancel(Ref ref) {
    cancelled_.insert(ref);
    while (!queue_.empty() && cancelled_.erase(queue_.top().order) > 0) queue_.pop();
    return true;
  }

 private:
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::unordered_set<std::uint64_t> cancelled_;
};

class Tree {
 public:
  using Ref = std::set<Entry>::iterator;
  Ref Push(const Entry& e) { return set_.insert(e).first; }
  std::int64_t PopTime() {
    const std::int64_t time_ns = set_.begin()->time_ns;
    set_.erase(set_.begin());
    return time_ns;
  }
  bool Cancel(Ref ref) {
    set_.erase(ref);
    return true;
  }

 private:
  std::set<Entry> set_;
};

template <class Queue>
void BM_EventQueueHold(benchmark::State& state) {
  const std::vector<std::int64_t> gaps = Gaps();
  Queue queue;
  std::uint64_t sequence = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i, ++sequence) {
    queue.Push({gaps[sequence & 0xffff], Order(sequence), {}});
  }
  for (auto _ : state) {
    const std::int64_t now_ns = queue.PopTime();
    queue.Push({now_ns + gaps[sequence & 0xffff], Order(sequence), {}});
    ++sequence;
  }
}
BENCHMARK_TEMPLATE(BM_EventQueueHold, OurQueue)->RangeMultiplier(10)->Range(100, 100'000);
BENCHMARK_TEMPLATE(BM_EventQueueHold, BinaryHeap)->RangeMultiplier(10)->Range(100, 100'000);
BENCHMARK_TEMPLATE(BM_EventQueueHold, Tree)->RangeMultiplier(10)->Range(100, 100'000);

template <class Queue>
void BM_Timers(benchmark::State& state) {
  const std::vector<std::int64_t> gaps = Gaps();
  const auto pending = static_cast<std::uint64_t>(state.range(0));
  Queue queue;
  std::vector<typename Queue::Ref> refs(pending);
  std::uint64_t sequence = 0;
  std::int64_t now_ns = 0;
  const auto arm = [&] {
    refs[sequence % pending] =
        queue.Push({now_ns + 10'000'000 + gaps[sequence & 0xffff], Order(sequence), {}});
    ++sequence;
    now_ns += 100;
  };
  while (sequence < pending) arm();
  for (auto _ : state) {
    benchmark::DoNotOptimize(queue.Cancel(refs[sequence % pending]));
    arm();
  }
}
BENCHMARK_TEMPLATE(BM_Timers, OurQueue)->RangeMultiplier(100)->Range(100, 10'000);
BENCHMARK_TEMPLATE(BM_Timers, TombstoneHeap)->RangeMultiplier(100)->Range(100, 10'000);
BENCHMARK_TEMPLATE(BM_Timers, Tree)->RangeMultiplier(100)->Range(100, 10'000);

}  // namespace
}  // namespace schedtwin
