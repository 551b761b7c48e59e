// vtc: fair service for each tenant by virtual token counters (OSDI'24), weighted: whoever was
// served least is admitted next. One engine and one queue on each device; the counters are the
// service of all devices together. Owned by the run; deterministic.
#ifndef SCHEDTWIN_POLICIES_VTC_VTC_H_
#define SCHEDTWIN_POLICIES_VTC_VTC_H_

#include <memory>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/continuous_engine.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/round_robin.h"
#include "policies/vtc/counters.h"
#include "policies/vtc/fair_queue.h"
#include "policies/vtc/prompt_batcher.h"

namespace schedtwin {

const PolicyInfo& VtcInfo();

class Vtc final : public Policy {
 public:
  explicit Vtc(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    Engine(Vtc* policy, DeviceId device)
        : waiting(device, policy->form_, &policy->counters_),
          batching(device, policy->mode_, VictimOrder::kLastAdmitted, &policy->batcher_, &waiting) {
    }

    vtc::FairQueue waiting;
    ContinuousEngine batching;
  };

  Engine& engine(DeviceId device) { return *engines_[device.value]; }
  /// Brings the counters up to now: plans of many steps tell of their tokens at their ends only.
  void ChargeOutput(const Context& context);

  DecodeMode mode_;
  vtc::Form form_;
  vtc::Counters counters_;
  vtc::PromptBatcher batcher_;
  RoundRobin router_;
  std::vector<std::unique_ptr<Engine>> engines_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_VTC_VTC_H_
