// composed: a policy for decoders made of parts, each chosen by a parameter: a router gives
// arrivals to devices, an admission turns some away, a batcher says what goes into a step, a victim
// order who gives up its memory, a scaler how many devices there are to be, and a response cache
// may answer before all of them. Each device has an engine (parts/continuous_engine.h), first come
// first served. Parts belong to the policy; composed_info.h has their choices.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
#define SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/policy.h"
#include "policies/composed/composed_info.h"
#include "policies/parts/continuous_engine.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/response_cache.h"

namespace schedtwin {

class Composed final : public Policy {
 public:
  explicit Composed(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnTimer(Context& context, std::uint64_t tag) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;
  void OnReport(Context& context, const DeviceReport& report) override;

 private:
  struct Engine {
    explicit Engine(const Composed& policy, DeviceId device)
        : batching(device, policy.mode_, policy.parts_.victim_order, policy.parts_.batcher.get(),
                   &waiting) {}

    FcfsQueue waiting;
    ContinuousEngine batching;
  };

  Engine& engine(DeviceId device) { return *engines_[device.value]; }
  void Send(Context& context, RequestId request, DeviceId device);
  /// All that wait for a device that is to go are sent to others.
  void SendOn(Context& context, DeviceId from);
  /// Where it waits or runs: one that waits for a device that is down is bound to none.
  DeviceId HomeOf(const Context& context, RequestId request) const;
  void OnEnd(Context& context, RequestId request, DeviceId device);
  void ArmScaler(Context& context);

  static constexpr DeviceId kNeverRemoved = {0};  ///< at least one there always is: the lowest
  static constexpr std::uint64_t kScale = 0;      ///< tag of the scaler's timer, the only one

  DecodeMode mode_;
  ComposedParts parts_;
  ResponseCache cache_;
  std::uint64_t outstanding_ = 0;                 ///< let in and not over
  std::vector<std::unique_ptr<Engine>> engines_;  ///< by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
