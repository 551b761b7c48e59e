// EventQueue and OrderWord: the order in which everything happens, against a sorted list, under
// every mix of operations; stale handles; what a late wake makes simultaneous.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/event_queue.h"
#include "policies/runtime/order.h"

namespace schedtwin {
namespace {

using Key = std::pair<std::int64_t, std::uint64_t>;

/// An event queue next to the plainest thing that does the same.
class TwinQueue {
 public:
  explicit TwinQueue(std::uint64_t seed) : rng_(seed, "event queue test") {}

  void Push() {
    const Key key = NextKey();
    const std::uint32_t index = static_cast<std::uint32_t>(handles_.size());
    handles_.push_back(
        queue_.Push(Time::Nanos(key.first), key.second, {EventKind::kTimer, index, 0}));
    reference_[key] = index;
    keys_.push_back(key);
  }
  void Move() {
    if (handles_.empty()) return;
    const std::uint32_t index = rng_.Below(static_cast<std::uint32_t>(handles_.size()));
    const Key key = NextKey();
    const bool pending = reference_.erase(keys_[index]) > 0;
    ASSERT_EQ(queue_.Move(handles_[index], Time::Nanos(key.first), key.second), pending);
    if (!pending) return;
    reference_[key] = index;
    keys_[index] = key;
  }
  void Cancel() {
    if (handles_.empty()) return;
    const std::uint32_t index = rng_.Below(static_cast<std::uint32_t>(handles_.size()));
    const bool pending = reference_.erase(keys_[index]) > 0;
    ASSERT_EQ(queue_.Cancel(handles_[index]), pending);
  }
  void Pop() {
    if (reference_.empty()) return;
    const auto first = reference_.begin();
    ASSERT_EQ(queue_.NextTime().ns(), first->first.first);
    ASSERT_EQ(queue_.Pop().index, first->second);
    reference_.erase(first);
  }
  void Latch() {
    const std::int64_t now = rng_.Below(kTimes);
    queue_.Latch(Time::Nanos(now));
    std::map<Key, std::uint32_t> latched;
    for (const auto& [key, index] : reference_) {
      keys_[index] = {std::max(key.first, now), key.second};
      latched[keys_[index]] = index;
    }
    reference_.swap(latched);
  }
  void Check() const {
    ASSERT_EQ(queue_.size(), reference_.size());
    ASSERT_EQ(queue_.empty(), reference_.empty());
    const Time next =
        reference_.empty() ? Time::Infinite() : Time::Nanos(reference_.begin()->first.first);
    ASSERT_EQ(queue_.NextTime(), next);
  }
  std::uint32_t Draw(std::uint32_t below) { return rng_.Below(below); }
  bool empty() const { return reference_.empty(); }

 private:
  static constexpr std::uint32_t kTimes = 50;  // few, so that ties are common

  Key NextKey() {
    const auto event_class = static_cast<EventClass>(rng_.Below(8));
    return {rng_.Below(kTimes), OrderWord(event_class, rng_.Below(3), sequence_++, 0)};
  }

  Rng rng_;
  EventQueue queue_;
  std::map<Key, std::uint32_t> reference_;
  std::vector<TimerId> handles_;
  std::vector<Key> keys_;
  std::uint64_t sequence_ = 0;
};

// `growth`: of 10 operations, how many push. Fewer than pops: mostly empty, where the ends are.
void RunOperations(std::uint64_t seed, std::uint32_t growth) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", growth " << growth);
  TwinQueue twin(seed);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint32_t draw = twin.Draw(10);
    if (draw < growth) {
      twin.Push();
    } else if (twin.Draw(100) == 0) {
      twin.Latch();
    } else {
      const std::uint32_t what = twin.Draw(3);
      if (what == 0) twin.Move();
      if (what == 1) twin.Cancel();
      if (what == 2) twin.Pop();
    }
    twin.Check();
    if (testing::Test::HasFatalFailure()) return;
  }
  while (!twin.empty()) {
    twin.Pop();
    if (testing::Test::HasFatalFailure()) return;
  }
  twin.Check();
}

TEST(EventQueue, PopsInOrderUnderAnyOperations) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const std::uint32_t growth : {2u, 4u, 7u}) RunOperations(seed, growth);
  }
}

TEST(EventQueue, AStaleHandleIsAHarmlessMiss) {
  EventQueue queue;
  const TimerId first = queue.Push(Time::Nanos(1), 1, {EventKind::kTimer, 1, 0});
  EXPECT_TRUE(queue.Cancel(first));
  // The slot is used again; the old handle must not reach the new event.
  const TimerId second = queue.Push(Time::Nanos(2), 1, {EventKind::kTimer, 2, 0});
  ASSERT_EQ(second.slot, first.slot);
  EXPECT_FALSE(queue.Cancel(first));
  EXPECT_FALSE(queue.Move(first, Time::Nanos(9), 1));
  EXPECT_EQ(queue.NextTime(), Time::Nanos(2));
  EXPECT_EQ(queue.Pop().index, 2u);
  EXPECT_FALSE(queue.Cancel(second)) << "a popped event cannot be cancelled";
  EXPECT_FALSE(queue.Cancel(TimerId{}));
  EXPECT_FALSE(queue.Cancel(TimerId{77, 0}));
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, LatchOrdersWhatIsDueByClassNotByLateness) {
  EventQueue queue;
  const auto push = [&](std::int64_t at, EventClass event_class, std::uint32_t index) {
    return queue.Push(Time::Nanos(at), OrderWord(event_class, 0, index, 0),
                      {EventKind::kTimer, index, 0});
  };
  push(10, EventClass::kArrival, 1);
  push(20, EventClass::kTimer, 2);
  const TimerId withdrawn = push(25, EventClass::kTimer, 3);
  push(30, EventClass::kDone, 4);
  push(31, EventClass::kDone, 5);  // not due yet
  queue.Latch(Time::Nanos(30));
  EXPECT_EQ(queue.NextTime(), Time::Nanos(30));
  EXPECT_EQ(queue.Pop().index, 4u);
  // Collected in the same wake, not delivered yet: it can still be withdrawn.
  EXPECT_TRUE(queue.Cancel(withdrawn));
  EXPECT_EQ(queue.Pop().index, 2u);
  EXPECT_EQ(queue.Pop().index, 1u);
  EXPECT_EQ(queue.NextTime(), Time::Nanos(31));
  EXPECT_EQ(queue.Pop().index, 5u);
}

TEST(OrderWord, ClassBeforeEntityBeforeSequence) {
  const std::uint64_t base = OrderWord(EventClass::kTimer, 5, 5, 0);
  EXPECT_LT(OrderWord(EventClass::kCancel, 6, 6, 0), base);
  EXPECT_LT(OrderWord(EventClass::kTimer, 4, 6, 0), base);
  EXPECT_LT(OrderWord(EventClass::kTimer, 5, 4, 0), base);
  // At the ends of their ranges the parts do not run into each other.
  const std::uint64_t last_sequence = (std::uint64_t{1} << 40) - 1;
  const std::uint32_t last_entity = (1u << 20) - 1;
  EXPECT_LT(OrderWord(EventClass::kTimer, 4, last_sequence, 0),
            OrderWord(EventClass::kTimer, 5, 0, 0));
  EXPECT_LT(OrderWord(EventClass::kTimer, last_entity, last_sequence, 0),
            OrderWord(EventClass::kArrival, 0, 0, 0));
}

TEST(OrderWord, ClassesAreInTheOrderOfTheDesign) {
  const EventClass order[] = {EventClass::kDone,         EventClass::kCacheChange,
                              EventClass::kDeviceChange, EventClass::kReport,
                              EventClass::kCancel,       EventClass::kTimer,
                              EventClass::kArrival,      EventClass::kPlanStarting};
  for (std::size_t i = 1; i < std::size(order); ++i) {
    EXPECT_LT(OrderWord(order[i - 1], 0, 0, 0), OrderWord(order[i], 0, 0, 0)) << i;
  }
}

TEST(OrderWord, ATieSeedShufflesInsideEachClassOnly) {
  const auto shuffled = [](std::uint64_t tie_seed) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> words;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      words.push_back({OrderWord(EventClass::kTimer, i % 4, i, tie_seed), i});
    }
    std::sort(words.begin(), words.end());
    std::vector<std::uint32_t> order;
    for (const auto& [word, i] : words) order.push_back(i);
    return order;
  };
  EXPECT_NE(shuffled(1), shuffled(0));
  EXPECT_NE(shuffled(1), shuffled(2));
  EXPECT_EQ(shuffled(1), shuffled(1));
  std::set<std::uint64_t> words;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint64_t word = OrderWord(EventClass::kTimer, 0, i, 7);
    words.insert(word);
    EXPECT_GT(word, OrderWord(EventClass::kCancel, 0xfffff, ~0ull, 7));
    EXPECT_GT(word, OrderWord(EventClass::kCancel, i, i, 7));
    EXPECT_LT(word, OrderWord(EventClass::kArrival, i, i, 7));
  }
  EXPECT_EQ(words.size(), 1000u) << "two events share a word, their order would be undefined";
}

}  // namespace
}  // namespace schedtwin
