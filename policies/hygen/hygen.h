// hygen: HyGen's elastic sharing of a decoder: online requests first, then offline ones while the
// step's predicted time stays within a budget that was calibrated to the online requests' targets.
// The prediction is a regression on what steps do, fitted as they are measured. One engine on each
// device (parts/hybrid_engine.h); arrivals go round robin.
#ifndef SCHEDTWIN_POLICIES_HYGEN_HYGEN_H_
#define SCHEDTWIN_POLICIES_HYGEN_HYGEN_H_

#include <cstdint>
#include <deque>

#include "policies/api/policy.h"
#include "policies/hygen/prefix_order.h"
#include "policies/parts/hybrid_engine.h"
#include "policies/parts/round_robin.h"

namespace schedtwin {

const PolicyInfo& HygenInfo();

class Hygen final : public Policy {
 public:
  explicit Hygen(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnOperationDone(Context& context, const OperationDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    PrefixOrder offline;
    HybridEngine engine;
    Engine(Context& context, DeviceId device, const Hygen& hygen)
        : offline(&context.cache(device), hygen.order_),
          engine(context, device, hygen.rules_, hygen.kv_mode_, hygen.predictor_, &offline) {}
  };

  std::uint32_t offline_class_;
  OfflineKvMode kv_mode_;
  PrefixOrderRule order_;
  HybridRules rules_;
  StepPredictor predictor_;  ///< as every engine begins with
  RoundRobin router_;
  std::deque<Engine> engines_;  ///< by device; they stay where they are
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_HYGEN_HYGEN_H_
