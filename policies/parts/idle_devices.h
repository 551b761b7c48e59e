// IdleDevices: which devices of a pool wait for work, for policies with one central queue. An
// arrival wakes the lowest idle device with a poke; the device goes back when its slot is free and
// nothing waits. So every waiting request wakes one device, and simultaneous arrivals are all there
// when the first one is served. A device that is not up is passed over, and comes back by the slot
// that is free when it is.
#ifndef SCHEDTWIN_POLICIES_PARTS_IDLE_DEVICES_H_
#define SCHEDTWIN_POLICIES_PARTS_IDLE_DEVICES_H_

#include <algorithm>
#include <functional>
#include <vector>

#include "policies/api/context.h"

namespace schedtwin {

class IdleDevices {
 public:
  void AddAll(const Context& context) {
    for (const DeviceView& device : context.devices()) {
      if (device.up()) heap_.push_back(device.id);
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  /// Pokes the lowest idle device, if there is one; it is idle no more.
  void WakeOne(Context& context) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const DeviceId device = heap_.back();
      heap_.pop_back();
      if (!context.device(device).up()) continue;
      context.actions().Poke(device);
      return;
    }
  }
  void Add(DeviceId device) {
    if (std::find(heap_.begin(), heap_.end(), device) != heap_.end()) return;
    heap_.push_back(device);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  bool empty() const { return heap_.empty(); }

 private:
  std::vector<DeviceId> heap_;  // lowest id first
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_IDLE_DEVICES_H_
