// DurationWindow: the last few measurements of one thing, and a high percentile of them. Owned by
// the policy; one thread; allocates while it fills, never after.
#ifndef SCHEDTWIN_POLICIES_CLOCKWORK_DURATION_WINDOW_H_
#define SCHEDTWIN_POLICIES_CLOCKWORK_DURATION_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin::clockwork {

class DurationWindow {
 public:
  /// REQUIRES: length > 0.
  explicit DurationWindow(std::size_t length) : length_(length) {}

  void Add(Duration measured) {
    if (last_.size() < length_) {
      last_.push_back(measured);
      return;
    }
    last_[oldest_] = measured;
    oldest_ = (oldest_ + 1) % length_;
  }
  /// The 99th percentile, the next higher measurement where it lies between two: the largest of up
  /// to a hundred. REQUIRES: there is one.
  Duration Percentile99() {
    sorted_ = last_;
    const std::size_t rank = (99 * (sorted_.size() - 1) + 99) / 100;
    const auto at = sorted_.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(sorted_.begin(), at, sorted_.end());
    return *at;
  }

 private:
  std::size_t length_;
  std::size_t oldest_ = 0;
  std::vector<Duration> last_;
  std::vector<Duration> sorted_;
};

}  // namespace schedtwin::clockwork

#endif  // SCHEDTWIN_POLICIES_CLOCKWORK_DURATION_WINDOW_H_
