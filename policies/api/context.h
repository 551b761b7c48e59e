// Context: all that a policy can reach. Facets are small interfaces; reads of requests and devices
// are inline loads. Every world hands the same Context to every callback; keep no view beyond the
// callback.
#ifndef SCHEDTWIN_POLICIES_API_CONTEXT_H_
#define SCHEDTWIN_POLICIES_API_CONTEXT_H_

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "policies/api/actions.h"
#include "policies/api/cache.h"
#include "policies/api/clock.h"
#include "policies/api/device.h"
#include "policies/api/memory.h"
#include "policies/api/request.h"
#include "policies/api/rng.h"
#include "policies/api/services.h"

namespace schedtwin {

/// Where the runtime keeps the requests that live: a ring of slots, slot = id & mask.
struct RequestWindow {
  const RequestHot* hot = nullptr;
  const RequestCold* cold = nullptr;
  std::uint32_t mask = 0;

  bool holds(RequestId id) const { return hot != nullptr && hot[id.value & mask].id == id.value; }
};

class Context {
 public:
  Time now() const { return clock_->now(); }
  Clock& clock() { return *clock_; }
  Actions& actions() { return *actions_; }
  const Services& services() const { return *services_; }
  /// REQUIRES, here and below: the device exists; anything else is a defect of the policy and
  /// aborts.
  Memory& memory(DeviceId device) {
    if (device.value >= memories_.size()) std::abort();
    return *memories_[device.value];
  }
  Cache& cache(DeviceId device) {
    if (device.value >= caches_.size()) std::abort();
    return *caches_[device.value];
  }
  const Cache& cache(DeviceId device) const {
    if (device.value >= caches_.size()) std::abort();
    return *caches_[device.value];
  }

  /// True from the request's arrival to the end of the callback that tells of its end, and as long
  /// as a step in flight names it.
  bool live(RequestId id) const { return window_.holds(id); }
  /// REQUIRES: live(id); anything else is a defect of the policy and aborts.
  RequestView request(RequestId id) const {
    if (!window_.holds(id)) std::abort();
    const std::uint32_t slot = id.value & window_.mask;
    const RequestHot& hot = window_.hot[slot];
    const std::uint32_t device = hot.device == DeviceId::kNone ? 0 : hot.device;
    return RequestView(hot, window_.cold[slot], standing_clocks_[device]);
  }

  std::span<const DeviceView> devices() const { return devices_; }
  const DeviceView& device(DeviceId id) const {
    if (id.value >= devices_.size()) std::abort();
    return devices_[id.value];
  }

  /// A stream of draws of this run: the same for every policy that asks for the same name.
  Rng rng(std::string_view stream, std::uint64_t entity = 0) const {
    return Rng(seed_, stream, entity);
  }

 protected:
  Context() = default;
  ~Context() = default;

  Clock* clock_ = nullptr;
  Actions* actions_ = nullptr;
  Services* services_ = nullptr;
  std::span<Memory* const> memories_;
  std::span<Cache* const> caches_;
  RequestWindow window_;
  std::span<const DeviceView> devices_;
  const StandingClock* standing_clocks_ = nullptr;
  std::uint64_t seed_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_CONTEXT_H_
