// LevelQueues: a multi-level feedback queue of requests, without a bound on its levels: level 0 is
// served first, and the quantum of each level is a multiple of the one above. A job is known by its
// index from Add to Remove, queued or not, so that whoever is in a batch keeps its account. Owned
// by one engine of fastserve; one thread; allocates only while it grows.
#ifndef SCHEDTWIN_POLICIES_FASTSERVE_LEVEL_QUEUES_H_
#define SCHEDTWIN_POLICIES_FASTSERVE_LEVEL_QUEUES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

class LevelQueues {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = 0xffffffffu;

  struct Job {
    RequestId request;
    std::uint32_t level = 0;
    Duration served;   ///< at this level
    Time last_served;  ///< the end of its last step
    bool was_served = false;
  };

  /// REQUIRES: base_quantum > 0, growth > 1.
  LevelQueues(Duration base_quantum, std::int64_t growth)
      : growth_(growth), levels_(1, {.quantum = base_quantum}) {}

  Job& job(Index job) { return nodes_[job].job; }
  const Job& job(Index job) const { return nodes_[job].job; }
  bool empty() const { return queued_ == 0; }

  Duration Quantum(std::uint32_t level) {
    Reach(level);
    return levels_[level].quantum;
  }
  /// The first level whose quantum is no less than `time`.
  std::uint32_t LevelFor(Duration time) {
    std::uint32_t level = 0;
    while (Quantum(level) < time) ++level;
    return level;
  }

  /// A new job, at the back of its level.
  Index Add(RequestId request, std::uint32_t level) {
    if (unused_.empty()) {
      unused_.push_back(static_cast<Index>(nodes_.size()));
      nodes_.emplace_back();
    }
    const Index added = unused_.back();
    unused_.pop_back();
    nodes_[added] = {.job = {.request = request, .level = level}};
    Link(added, LevelOf(added).last, kNone);
    return added;
  }
  /// REQUIRES: it is not queued.
  void Remove(Index job) { unused_.push_back(job); }

  /// REQUIRES, here and below: it is not queued.
  void PushFront(Index job) { Link(job, kNone, LevelOf(job).first); }
  /// REQUIRES: it is queued.
  void Unqueue(Index job) {
    const Node& node = nodes_[job];
    Level& level = levels_[node.job.level];
    (node.previous == kNone ? level.first : nodes_[node.previous].next) = node.next;
    (node.next == kNone ? level.last : nodes_[node.next].previous) = node.previous;
    --queued_;
  }

  // The queued jobs in the order in which they are served, and back; kNone after the last.
  Index First() const { return FirstFrom(0); }
  Index Next(Index job) const {
    const Node& node = nodes_[job];
    return node.next != kNone ? node.next : FirstFrom(node.job.level + 1);
  }
  Index Last() const { return LastBelow(levels_.size()); }
  Index Previous(Index job) const {
    const Node& node = nodes_[job];
    return node.previous != kNone ? node.previous : LastBelow(node.job.level);
  }

  /// The queued job of a request; kNone if there is none. Linear: for cancellations.
  Index Find(RequestId request) const {
    Index at = First();
    while (at != kNone && nodes_[at].job.request != request) at = Next(at);
    return at;
  }

  /// Every queued job that was not served for so long goes to the front of level 0, one after
  /// another, so that the last in order comes to stand first. Who was never served goes, too.
  void PromoteIdle(Time now, Duration idle) {
    for (Index at = First(); at != kNone; at = Next(at)) {
      const Job& job = nodes_[at].job;
      if (!job.was_served || now - job.last_served >= idle) promoted_.push_back(at);
    }
    for (const Index job : promoted_) {
      Unqueue(job);
      nodes_[job].job.level = 0;
    }
    for (const Index job : promoted_) PushFront(job);
    promoted_.clear();
  }

 private:
  struct Node {
    Job job;
    Index previous = kNone;
    Index next = kNone;
  };
  struct Level {
    Duration quantum;
    Index first = kNone;
    Index last = kNone;
  };

  void Reach(std::uint32_t level) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    while (levels_.size() <= level) {
      const std::int64_t quantum_ns = levels_.back().quantum.ns();
      const bool fits = quantum_ns <= kMost / growth_;
      levels_.push_back({.quantum = Duration::Nanos(fits ? quantum_ns * growth_ : kMost)});
    }
  }
  Level& LevelOf(Index job) {
    Reach(nodes_[job].job.level);
    return levels_[nodes_[job].job.level];
  }
  Index FirstFrom(std::size_t level) const {
    while (level < levels_.size() && levels_[level].first == kNone) ++level;
    return level < levels_.size() ? levels_[level].first : kNone;
  }
  Index LastBelow(std::size_t level) const {
    while (level > 0 && levels_[level - 1].last == kNone) --level;
    return level > 0 ? levels_[level - 1].last : kNone;
  }
  void Link(Index job, Index previous, Index next) {
    Level& level = LevelOf(job);
    nodes_[job].previous = previous;
    nodes_[job].next = next;
    (previous == kNone ? level.first : nodes_[previous].next) = job;
    (next == kNone ? level.last : nodes_[next].previous) = job;
    ++queued_;
  }

  std::int64_t growth_;
  std::vector<Level> levels_;
  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  std::vector<Index> promoted_;  ///< scratch of PromoteIdle
  std::size_t queued_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_FASTSERVE_LEVEL_QUEUES_H_
