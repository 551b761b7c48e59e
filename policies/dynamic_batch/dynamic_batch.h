// dynamic_batch: waits until `max_batch_size` units are queued or the oldest request has waited
// `max_queue_delay`, then launches as many as fit. One central queue, any number of devices.
#ifndef SCHEDTWIN_POLICIES_DYNAMIC_BATCH_DYNAMIC_BATCH_H_
#define SCHEDTWIN_POLICIES_DYNAMIC_BATCH_DYNAMIC_BATCH_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/idle_devices.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

const PolicyInfo& DynamicBatchInfo();

class DynamicBatch final : public Policy {
 public:
  explicit DynamicBatch(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnTimer(Context& context, std::uint64_t tag) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  bool Due(const Context& context) const;
  void LaunchBatch(Context& context, DeviceId device);

  std::uint32_t max_batch_size_;
  Duration max_queue_delay_;
  RequestQueue waiting_;
  std::uint64_t waiting_units_ = 0;
  IdleDevices idle_;
  TimerId timer_;
  std::vector<Entry> batch_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_DYNAMIC_BATCH_DYNAMIC_BATCH_H_
