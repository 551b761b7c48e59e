// composed: a policy for decoders made of parts, each chosen by a parameter: a router gives
// arrivals to devices, an admission turns some away, a batcher says what goes into a step, a victim
// order who gives up its memory, and a response cache may answer before all of them. What is here
// is what every combination needs: a queue and the running requests of each device, KV that grows
// with them, recompute preemption, and plans of one or of many steps. Parts belong to the policy.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
#define SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/admission.h"
#include "policies/parts/batcher.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/request_queue.h"
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
    RequestQueue waiting;
    std::uint64_t waiting_tokens = 0;  ///< that those have to compute first
    std::vector<RequestId> running;    ///< in order of admission
    RequestId partial;                 ///< of those, the one whose prompt is not computed yet
    PlanId plan;                       ///< in flight
    bool cuttable = false;             ///< it runs many steps and has not been cut
  };

  Engine& engine(DeviceId device) { return engines_[device.value]; }
  void Cut(Context& context, Engine& engine);
  void OnEnd(Context& context, RequestId request, DeviceId device);

  // The stages of a step; those that may preempt say whether they did.
  bool FitDecodes(Context& context, DeviceId device);
  bool ContinuePrompt(Context& context, DeviceId device, StepDraft* step);
  void AdmitWaiting(Context& context, DeviceId device, StepDraft* step);
  void ListDecodes(Context& context, DeviceId device);
  void Launch(Context& context, DeviceId device, bool many_steps);

  void TakePrompt(Context& context, DeviceId device, RequestId request, std::uint32_t tokens,
                  StepDraft* step);
  RequestId PreemptOne(Context& context, DeviceId device);
  /// Blocks that the next token of all who decode will take.
  std::uint32_t Growth(Context& context, DeviceId device);
  /// True if the blocks for `tokens` tokens of the request are free beside that growth.
  bool Fits(Context& context, DeviceId device, RequestId request, std::uint32_t tokens);

  DecodeMode mode_;
  VictimOrder victim_order_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Batcher> batcher_;
  ResponseCache cache_;
  std::vector<Engine> engines_;  ///< by device
  std::vector<Entry> entries_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_COMPOSED_H_
