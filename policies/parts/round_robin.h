// RoundRobin: gives arrivals to devices in turn. The simplest router: it looks at nothing.
#ifndef SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_
#define SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_

#include <cstddef>

#include "policies/api/context.h"

namespace schedtwin {

class RoundRobin {
 public:
  DeviceId Next(const Context& context) {
    const DeviceId device = context.devices()[next_].id;
    next_ = next_ + 1 == context.devices().size() ? 0 : next_ + 1;
    return device;
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_
