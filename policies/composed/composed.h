// composed: a policy for decoders made of parts, each chosen by a parameter: a router gives
// arrivals to devices, an admission turns some away, a batcher says what goes into a step, a victim
// order who gives up its memory, and a response cache may answer before all of them. Each device
// has an engine (parts/continuous_engine.h), first come first served. Parts belong to the policy.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
#define SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/admission.h"
#include "policies/parts/batcher.h"
#include "policies/parts/continuous_engine.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/response_cache.h"
#include "policies/parts/router.h"
#include "policies/parts/victim_order.h"

namespace schedtwin {

const PolicyInfo& ComposedInfo();

class Composed final : public Policy {
 public:
  explicit Composed(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;
  void OnReport(Context& context, const DeviceReport& report) override;

 private:
  struct Engine {
    explicit Engine(const Composed& policy, DeviceId device)
        : batching(device, policy.mode_, policy.victim_order_, policy.batcher_.get(), &waiting) {}

    FcfsQueue waiting;
    ContinuousEngine batching;
  };

  Engine& engine(DeviceId device) { return *engines_[device.value]; }
  void OnEnd(Context& context, RequestId request, DeviceId device);

  DecodeMode mode_;
  VictimOrder victim_order_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Batcher> batcher_;
  ResponseCache cache_;
  std::vector<std::unique_ptr<Engine>> engines_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
