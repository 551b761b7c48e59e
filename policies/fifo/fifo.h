// fifo: first come, first served, one request at a time on each device, no batching. The ground
// truth of queueing theory: with one device M/M/1, M/D/1, M/G/1, with n devices M/M/n, M/D/n.
#ifndef SCHEDTWIN_POLICIES_FIFO_FIFO_H_
#define SCHEDTWIN_POLICIES_FIFO_FIFO_H_

#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/idle_devices.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

const PolicyInfo& FifoInfo();

class Fifo final : public Policy {
 public:
  explicit Fifo(const Parameters& parameters) : mode_(parameters) {}

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  void Serve(Context& context, DeviceId device, RequestId request);

  DecodeMode mode_;
  RequestQueue waiting_;
  IdleDevices idle_;
  std::vector<RequestId> serving_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_FIFO_FIFO_H_
