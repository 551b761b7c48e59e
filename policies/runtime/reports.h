// Reports: the stamped snapshots by which routers and scalers know of devices: each device writes
// one at every interval, and it is heard a while later, so that what is known is as old as it would
// be. Owned by World; policy thread. Costs one look at every live request a report.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_REPORTS_H_
#define SCHEDTWIN_POLICIES_RUNTIME_REPORTS_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "policies/api/device.h"
#include "policies/runtime/run_core.h"

namespace schedtwin {

class Reports {
 public:
  /// All outlive this. An interval of zero: no device ever reports.
  Reports(RunCore* core, std::span<const DeviceView> views, Duration interval, Duration delay);

  /// Device `device` writes a report, and will write the next one.
  void Take(std::uint32_t device);
  /// The oldest that is on its way has come.
  DeviceReport Receive(std::uint32_t device);

 private:
  void PlanNext(std::uint32_t device, Time when);

  RunCore* core_;
  std::span<const DeviceView> views_;
  Duration interval_;
  Duration delay_;
  std::vector<std::deque<DeviceReport>> on_their_way_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_REPORTS_H_
