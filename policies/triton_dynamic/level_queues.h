// LevelQueues: requests that wait for the batcher: one queue for each priority level, 1 the most
// urgent, each with a policy of its own for its length and for timeouts. Timeouts are lazy: looked
// at where a batching pass looks, and by the poll. A level is its unexpired requests and, behind
// them, the delayed ones, whose timeout has passed. Owned by the policy; deterministic.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_LEVEL_QUEUES_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_LEVEL_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/time.h"
#include "policies/triton_dynamic/ring.h"
#include "policies/triton_dynamic/settings.h"

namespace schedtwin::triton {

struct Queued {
  RequestId request;
  std::uint32_t units = 0;
  std::uint32_t shape = 0;
  Time enqueued;
  Time timeout = Time::Infinite();
};

/// A request that left a queue because its timeout had passed.
struct Expired {
  RequestId request;
  std::uint32_t units = 0;
};

class LevelQueues {
 public:
  /// Where a pass has come to. A fresh one stands at the head of the most urgent level.
  struct Cursor {
    std::size_t level = 0;
    std::size_t index = 0;
  };

  explicit LevelQueues(const Settings& settings);

  bool empty() const { return size_ == 0; }
  /// Some request may be rejected because of its timeout.
  bool may_expire() const { return may_expire_; }

  /// Level 0, or one out of range, is the default level. `override_us` is the timeout that the
  /// request asks for; 0: none. False: the level is full. REQUIRES: `queued.timeout` is unset.
  bool Enqueue(std::int64_t level, Queued queued, std::int64_t override_us);

  /// The request at the cursor, or at the first place behind it that has one, once those at this
  /// place that have expired at `now` are gone: to the delayed ones, or into `expired`. None: the
  /// cursor is at the end.
  const Queued* Get(Cursor* cursor, Time now, std::vector<Expired>* expired);

  /// Takes the first request. REQUIRES: !empty().
  Queued PopFront();
  /// The poll: every request that is to be rejected at `now`, wherever it stands.
  void RejectExpired(Time now, std::vector<Expired>* expired);
  /// Takes out a request wherever it stands, and gives its units; 0: it is not here.
  std::uint32_t Remove(RequestId request);

 private:
  struct Level {
    QueuePolicy policy;
    Ring<Queued> unexpired;
    Ring<Queued> delayed;

    std::size_t size() const { return unexpired.size() + delayed.size(); }
  };

  std::vector<Level> levels_;  // [0] is level 1, or all there is where there are no levels
  std::size_t default_level_ = 0;
  std::size_t size_ = 0;
  bool may_expire_ = false;
};

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_LEVEL_QUEUES_H_
