// WorkTracker: when an executor (a device's steps, or its loads) will be through with what it was
// given, by the estimates of it. The executor works one by one, in the order of Add. Owned by the
// policy; one thread.
#ifndef SCHEDTWIN_POLICIES_CLOCKWORK_WORK_TRACKER_H_
#define SCHEDTWIN_POLICIES_CLOCKWORK_WORK_TRACKER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin::clockwork {

class WorkTracker {
 public:
  /// `key` names the work: the word of its handle.
  void Add(std::uint64_t key, Duration estimate, Time now) {
    if (work_.empty()) begin_ = now;
    work_.push_back({key, estimate});
    total_ += estimate;
  }
  /// The work has ended, done or not.
  void End(std::uint64_t key, Time at) {
    const auto work = std::find_if(work_.begin(), work_.end(),
                                   [key](const Work& some) { return some.key == key; });
    if (work == work_.end()) return;
    if (work == work_.begin()) begin_ = at;
    total_ = total_ - work->estimate;
    work_.erase(work);
  }
  /// When all of it will have ended, and no earlier than an action sent now arrives. Work that is
  /// overdue counts as about to end, until it is so by more than `lag`: then it moves the rest.
  Time Available(Time now, Duration lag, Duration network_delay) const {
    Time begin = begin_;
    if (!work_.empty()) begin = std::max(begin, now - lag - work_.front().estimate);
    return std::max(begin + total_, now + network_delay);
  }

 private:
  struct Work {
    std::uint64_t key;
    Duration estimate;
  };
  std::vector<Work> work_;
  Time begin_;  ///< of the first
  Duration total_;
};

}  // namespace schedtwin::clockwork

#endif  // SCHEDTWIN_POLICIES_CLOCKWORK_WORK_TRACKER_H_
