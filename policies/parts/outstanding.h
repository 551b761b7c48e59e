// Outstanding: how much each device was sent and has not finished, in whatever is counted: a
// router's own bookkeeping, exact where reports are late. Owned by one router; grows with the
// devices only.
#ifndef SCHEDTWIN_POLICIES_PARTS_OUTSTANDING_H_
#define SCHEDTWIN_POLICIES_PARTS_OUTSTANDING_H_

#include <cstdint>
#include <vector>

#include "policies/api/ids.h"

namespace schedtwin {

class Outstanding {
 public:
  void Add(DeviceId device, std::uint64_t amount = 1) {
    if (device.value >= of_.size()) of_.resize(device.value + 1);
    of_[device.value] += amount;
    total_ += amount;
  }
  /// REQUIRES: at least as much was added.
  void Remove(DeviceId device, std::uint64_t amount = 1) {
    of_[device.value] -= amount;
    total_ -= amount;
  }
  std::uint64_t of(DeviceId device) const {
    return device.value < of_.size() ? of_[device.value] : 0;
  }
  std::uint64_t total() const { return total_; }

 private:
  std::vector<std::uint64_t> of_;  // by device
  std::uint64_t total_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_OUTSTANDING_H_
