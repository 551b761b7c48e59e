// RoundRobin: gives arrivals to devices in turn. The simplest router: it looks at nothing but
// whether a device is up.
#ifndef SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_
#define SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_

#include <cstddef>

#include "policies/parts/router.h"

namespace schedtwin {

class RoundRobin final : public Router {
 public:
  /// The next in turn of those that are up; of all, if none is.
  DeviceId Next(const Context& context) {
    for (std::size_t tried = 0; tried < context.devices().size(); ++tried) {
      const DeviceView& device = Advance(context);
      if (TakesRequests(device)) return device.id;
    }
    return Advance(context).id;
  }
  DeviceId Pick(const Context& context, RequestId) override {
    const DeviceId device = Next(context);
    return TakesRequests(context.device(device)) ? device : DeviceId{};
  }

 private:
  const DeviceView& Advance(const Context& context) {
    const DeviceView& device = context.devices()[next_];
    next_ = next_ + 1 == context.devices().size() ? 0 : next_ + 1;
    return device;
  }

  std::size_t next_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ROUND_ROBIN_H_
