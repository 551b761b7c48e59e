// Router: which device an arrival goes to. Routers that keep counters of their own are told when a
// request was sent, when its prompt was computed and when it is over; those that go by reports are
// told of reports, which are older than now (routers that read a device's truth do not exist; what
// of a prompt is cached there they may ask, as if the devices told it by events without delay). A
// router never picks a device that is not up. Owned by one policy.
#ifndef SCHEDTWIN_POLICIES_PARTS_ROUTER_H_
#define SCHEDTWIN_POLICIES_PARTS_ROUTER_H_

#include <cstdint>
#include <limits>

#include "policies/api/context.h"

namespace schedtwin {

/// True if new requests may go there: a draining device takes none.
inline bool TakesRequests(const DeviceView& device) { return device.state == DeviceState::kUp; }

class Router {
 public:
  virtual ~Router() = default;
  /// The device for an arrival; none if no device is up. REQUIRES: the request lives.
  virtual DeviceId Pick(const Context& context, RequestId request) = 0;
  /// It was sent there: not every request that was picked for is.
  virtual void OnSent(const Context& context, RequestId request, DeviceId device) {
    (void)context, (void)request, (void)device;
  }
  /// Its prompt was computed for the first time. Told before OnEnd, and not at all if the request
  /// ended without an output token.
  virtual void OnPrefilled(const Context& context, RequestId request, DeviceId device) {
    (void)context, (void)request, (void)device;
  }
  /// A request that was sent is over, completed or not. REQUIRES: it can still be read.
  virtual void OnEnd(const Context& context, RequestId request, DeviceId device) {
    (void)context, (void)request, (void)device;
  }
  virtual void OnReport(const DeviceReport& report) { (void)report; }
};

/// The device that is up with the least `load(device)`; the lowest of equals; none if none is up.
template <class Load>
DeviceId LeastLoaded(const Context& context, Load load) {
  DeviceId best;
  for (const DeviceView& device : context.devices()) {
    if (!TakesRequests(device)) continue;
    if (!best.valid() || load(device.id) < load(best)) best = device.id;
  }
  return best;
}

/// The device that is up with the least `cost(device view)`; of equal ones one at random, evenly,
/// by draws of `rng`; none if none is up.
template <class Cost>
DeviceId CheapestEvenly(const Context& context, Rng rng, Cost cost) {
  DeviceId best;
  double least = std::numeric_limits<double>::infinity();
  std::uint32_t equal = 0;
  for (const DeviceView& device : context.devices()) {
    if (!TakesRequests(device)) continue;
    const double here = cost(device);
    if (here < least) {
      best = device.id;
      least = here;
      equal = 1;
    } else if (here == least && rng.Below(++equal) == 0) {
      best = device.id;
    }
  }
  return best;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ROUTER_H_
