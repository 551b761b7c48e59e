// conserve: ConServe's harvesting of a decoder for offline work: online requests first, offline
// tokens beside them while the predicted step keeps the TBT target; a step of offline work alone is
// cut at a layer's end when an online arrival would wait too long; offline KV is copied to the host
// tier as it grows, so that it can give way at once. One engine on each device (parts/
// hybrid_engine.h); arrivals go round robin.
#ifndef SCHEDTWIN_POLICIES_CONSERVE_CONSERVE_H_
#define SCHEDTWIN_POLICIES_CONSERVE_CONSERVE_H_

#include <cstdint>
#include <deque>

#include "policies/api/policy.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/hybrid_engine.h"
#include "policies/parts/round_robin.h"

namespace schedtwin {

const PolicyInfo& ConserveInfo();

class Conserve final : public Policy {
 public:
  explicit Conserve(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnOperationDone(Context& context, const OperationDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    FcfsQueue offline;
    HybridEngine engine;
    PlanId cut;  ///< the last plan that was told to stop
    Engine(const Context& context, DeviceId device, const HybridRules& rules, OfflineKvMode kv_mode,
           const StepPredictor& predictor)
        : engine(context, device, rules, kv_mode, predictor, &offline) {}
  };

  /// Cuts the step in flight if the online request that has just come would wait for it too long.
  void CutForOnline(Context& context, DeviceId device, RequestId request);

  std::uint32_t offline_class_;
  Duration ttft_target_;
  bool layer_abort_;
  OfflineKvMode kv_mode_;
  HybridRules rules_;
  StepPredictor predictor_;  ///< as every engine begins with
  RoundRobin router_;
  std::deque<Engine> engines_;  ///< by device; they stay where they are
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_CONSERVE_CONSERVE_H_
