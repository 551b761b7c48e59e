// SessionAffinity: the turns of a session go to one device, found by consistent hashing with
// bounded loads (Mirrokni, Thorup, Zadimoghaddam, SODA 2018): from the session's place on a ring
// on, the first device with fewer than ceil(c * (outstanding + 1) / devices) requests outstanding.
// So no device is above c times the mean, and a device that comes or goes moves its own sessions
// only. A request without a session has a place of its own.
#ifndef SCHEDTWIN_POLICIES_PARTS_SESSION_AFFINITY_H_
#define SCHEDTWIN_POLICIES_PARTS_SESSION_AFFINITY_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/parts/outstanding.h"
#include "policies/parts/router.h"

namespace schedtwin {

class SessionAffinity final : public Router {
 public:
  /// `bound_percent`: 100 c; 125 is common. REQUIRES: at least 100.
  explicit SessionAffinity(std::uint32_t bound_percent = 125) : bound_percent_(bound_percent) {}

  DeviceId Pick(const Context& context, RequestId request) override {
    if (ring_.empty()) MakeRing(context);
    std::uint64_t up = 0, sent = 0;
    for (const DeviceView& device : context.devices()) {
      if (!TakesRequests(device)) continue;
      ++up;
      sent += requests_.of(device.id);
    }
    if (up == 0) return {};
    const std::uint64_t bound = (bound_percent_ * (sent + 1) + 100 * up - 1) / (100 * up);
    const std::uint64_t session = context.request(request).session();
    const std::uint64_t place = session != 0 ? Hash(session, 1) : Hash(request.value, 2);
    auto at = std::lower_bound(ring_.begin(), ring_.end(), std::pair(place, DeviceId{0}));
    // The bound is above the mean, so one of them is below it.
    for (;; ++at) {
      if (at == ring_.end()) at = ring_.begin();
      const DeviceId device = at->second;
      if (TakesRequests(context.device(device)) && requests_.of(device) < bound) return device;
    }
  }
  void OnSent(const Context&, RequestId, DeviceId device) override { requests_.Add(device); }
  void OnEnd(const Context&, RequestId, DeviceId device) override { requests_.Remove(device); }

 private:
  static constexpr std::uint32_t kPointsOfADevice = 128;

  static std::uint64_t Hash(std::uint64_t what, std::uint64_t kind) {  // SplitMix64's mixer
    std::uint64_t z = what + kind * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  void MakeRing(const Context& context) {
    for (const DeviceView& device : context.devices()) {
      for (std::uint64_t i = 0; i < kPointsOfADevice; ++i) {
        ring_.emplace_back(Hash((std::uint64_t{device.id.value} << 32) | i, 3), device.id);
      }
    }
    std::sort(ring_.begin(), ring_.end());
  }

  std::uint64_t bound_percent_;
  std::vector<std::pair<std::uint64_t, DeviceId>> ring_;  // by place
  Outstanding requests_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_SESSION_AFFINITY_H_
