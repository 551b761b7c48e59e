// PowerOfTwo: of two different devices drawn at random, the one with fewer requests outstanding; of
// equals the first drawn. Source: Mitzenmacher 2001; SGLang's router. The draw is the request's
// own, so that one more request shifts nobody else's.
#ifndef SCHEDTWIN_POLICIES_PARTS_POWER_OF_TWO_H_
#define SCHEDTWIN_POLICIES_PARTS_POWER_OF_TWO_H_

#include <algorithm>
#include <cstdint>

#include "policies/parts/outstanding.h"
#include "policies/parts/router.h"

namespace schedtwin {

class PowerOfTwo final : public Router {
 public:
  DeviceId Pick(const Context& context, RequestId request) override {
    const auto devices = context.devices();
    const auto up =
        static_cast<std::uint32_t>(std::count_if(devices.begin(), devices.end(), TakesRequests));
    if (up == 0) return {};
    if (up == 1) return NthUp(context, 0);
    Rng rng = context.rng("power_of_two", request.value);
    const std::uint32_t first = rng.Below(up);
    const std::uint32_t other = rng.Below(up - 1);
    const DeviceId a = NthUp(context, first);
    const DeviceId b = NthUp(context, other < first ? other : other + 1);
    return requests_.of(b) < requests_.of(a) ? b : a;
  }
  void OnSent(const Context&, RequestId, DeviceId device) override { requests_.Add(device); }
  void OnEnd(const Context&, RequestId, DeviceId device) override { requests_.Remove(device); }

 private:
  static DeviceId NthUp(const Context& context, std::uint32_t n) {
    for (const DeviceView& device : context.devices()) {
      if (TakesRequests(device) && n-- == 0) return device.id;
    }
    return {};
  }

  Outstanding requests_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_POWER_OF_TWO_H_
