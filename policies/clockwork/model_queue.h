// ModelQueue: the requests that wait for one model, as a queue for each batch size: every request
// is in all of them until it is too late for a size or is taken. They are one list, in the order of
// deadlines, and for each size the number of requests at its head that its queue has dropped
// already. Owned by the policy; one thread; allocates only while it grows.
#ifndef SCHEDTWIN_POLICIES_CLOCKWORK_MODEL_QUEUE_H_
#define SCHEDTWIN_POLICIES_CLOCKWORK_MODEL_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policies/api/ids.h"
#include "policies/api/time.h"
#include "policies/clockwork/duration_window.h"

namespace schedtwin::clockwork {

struct Waiting {
  RequestId id;
  std::uint32_t units = 1;
  Time deadline;           ///< aimed at: before that of the client
  Time load_by;            ///< until then it is a reason to load its model
  double exec_demand = 0;  ///< shares of the time there is for it (load_priority.h)
  double load_demand = 0;
};

/// A batch size that could be run next, and when it must start at the latest.
struct Strategy {
  Time latest_start = Time::Infinite();
  std::uint32_t size = 0;  ///< 0: none
};

struct Batch {
  std::uint32_t size = 0;  ///< 0: none was formed
  Duration estimate;
  std::vector<Waiting> requests;
  std::vector<RequestId> dropped;  ///< in no queue any more
};

class ModelQueue {
 public:
  static constexpr std::uint32_t kAnySize = std::numeric_limits<std::uint32_t>::max();

  /// `sizes` rise from 1.
  ModelQueue(std::span<const std::uint32_t> sizes, std::size_t window);

  bool empty() const { return waiting_.empty(); }
  const std::vector<Waiting>& waiting() const { return waiting_; }

  /// What a size takes before anything was measured.
  void SetEstimate(std::size_t index, Duration estimate) { sizes_[index].estimate = estimate; }
  void AddMeasurement(std::uint32_t size, Duration measured);
  /// REQUIRES: index counts the sizes.
  Duration estimate(std::size_t index) const { return sizes_[index].estimate; }

  void Add(const Waiting& request);
  bool Remove(RequestId id);
  /// Of the sizes up to `max_size` whose queues hold anybody, the one that must start first; the
  /// smallest of equals.
  Strategy First(std::uint32_t max_size) const;
  /// Drops who cannot be through in time if the device is free at `free_at`, then takes the largest
  /// batch that the queues fill, if it is at least `min_size`, off all queues.
  void Dequeue(Time free_at, std::uint32_t min_size, Batch* batch);
  /// Takes out whose deadline has come.
  void TakeOverdue(Time now, std::vector<RequestId>* overdue);

 private:
  struct Size {
    std::uint32_t size;
    Duration estimate;
    DurationWindow window;
    std::size_t skip = 0;  ///< requests at the head of the list that are not in its queue
  };

  /// Requests that a batch of this size would take; 0 if it is not to be run.
  std::size_t Filled(std::size_t index) const;
  void EraseHead(std::size_t count);

  std::vector<Size> sizes_;
  std::vector<Waiting> waiting_;
};

}  // namespace schedtwin::clockwork

#endif  // SCHEDTWIN_POLICIES_CLOCKWORK_MODEL_QUEUE_H_
