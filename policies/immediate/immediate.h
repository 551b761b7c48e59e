// immediate: every request is launched alone, on arrival, on the device with the fewest plans
// queued. What a server without a batcher does.
#ifndef SCHEDTWIN_POLICIES_IMMEDIATE_IMMEDIATE_H_
#define SCHEDTWIN_POLICIES_IMMEDIATE_IMMEDIATE_H_

#include "policies/api/policy.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

const PolicyInfo& ImmediateInfo();

class Immediate final : public Policy {
 public:
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  static void Launch(Context& context, DeviceId device, RequestId request);

  RequestQueue waiting_;  ///< arrived while every device's queue was full
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_IMMEDIATE_IMMEDIATE_H_
