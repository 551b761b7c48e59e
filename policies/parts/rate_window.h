// Rates of events over a sliding window, in two forms with one way to ask, PerSecond(now):
//
//   RateWindow   exact: the events of the last `window`, each with its weight; O(1) a call on
//                average; memory grows with the events in the window
//   BucketRate   counts in buckets of `granularity`, as Knative's autoscaler keeps its metrics
//                (knative/serving pkg/autoscaler/aggregation): fixed memory; the mean is over the
//                buckets there have been since the first event, so that a young rate is no lower
//
// Instants must not go back. Owned by one policy; nothing is allocated per event once warm.
// An exponentially weighted rate is in ewma_rate.h.
#ifndef SCHEDTWIN_POLICIES_PARTS_RATE_WINDOW_H_
#define SCHEDTWIN_POLICIES_PARTS_RATE_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin {

class RateWindow {
 public:
  /// REQUIRES: window > 0. An event counts at its own instant, and no more `window` later.
  explicit RateWindow(Duration window) : window_(window), ring_(64) {}

  void Add(Time now, std::uint64_t weight = 1) {
    Expire(now);
    if (size_ == ring_.size()) Grow();
    ring_[(head_ + size_++) & (ring_.size() - 1)] = {now, weight};
    total_ += weight;
  }
  /// Weight of the events in the window.
  std::uint64_t Total(Time now) {
    Expire(now);
    return total_;
  }
  double PerSecond(Time now) {
    return static_cast<double>(Total(now)) * 1e9 / static_cast<double>(window_.ns());
  }

 private:
  struct Event {
    Time at;
    std::uint64_t weight = 0;
  };

  void Expire(Time now) {
    while (size_ > 0 && now - ring_[head_].at >= window_) {
      total_ -= ring_[head_].weight;
      head_ = (head_ + 1) & (ring_.size() - 1);
      --size_;
    }
  }
  void Grow() {
    std::vector<Event> larger(2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
    ring_.swap(larger);
    head_ = 0;
  }

  Duration window_;
  std::vector<Event> ring_;
  std::size_t head_ = 0, size_ = 0;
  std::uint64_t total_ = 0;
};

class BucketRate {
 public:
  /// REQUIRES: granularity > 0 divides `window`.
  BucketRate(Duration window, Duration granularity)
      : granularity_(granularity),
        buckets_(static_cast<std::size_t>(window.ns() / granularity.ns())) {}

  void Add(Time now, std::uint64_t weight = 1) {
    MoveTo(now);
    if (first_ == kNever) first_ = last_;
    At(last_) += weight;
    total_ += weight;
  }
  /// Weight in the bucket of `now` and those before it, as many as the window has.
  std::uint64_t Total(Time now) {
    MoveTo(now);
    return total_;
  }
  double PerSecond(Time now) {
    const std::uint64_t total = Total(now);
    if (first_ == kNever) return 0;
    const auto all = static_cast<std::int64_t>(buckets_.size());
    const std::int64_t valid = std::min(all, last_ - first_ + 1);
    return static_cast<double>(total) * 1e9 / static_cast<double>(valid * granularity_.ns());
  }

 private:
  static constexpr std::int64_t kNever = -1;

  std::uint64_t& At(std::int64_t bucket) {
    return buckets_[static_cast<std::size_t>(bucket) % buckets_.size()];
  }
  void MoveTo(Time now) {
    const std::int64_t bucket = now.ns() / granularity_.ns();
    const auto all = static_cast<std::int64_t>(buckets_.size());
    for (std::int64_t i = std::max(last_ + 1, bucket - all + 1); i <= bucket; ++i) {
      total_ -= At(i);
      At(i) = 0;
    }
    last_ = std::max(last_, bucket);
  }

  Duration granularity_;
  std::vector<std::uint64_t> buckets_;
  std::int64_t first_ = kNever;  ///< bucket of the first event
  std::int64_t last_ = kNever;   ///< the newest bucket; those before it are in the ring
  std::uint64_t total_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_RATE_WINDOW_H_
