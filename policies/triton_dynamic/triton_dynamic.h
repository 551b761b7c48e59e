// triton_dynamic: the dynamic batcher of NVIDIA's Triton Inference Server for one model, with its
// queue policies, priority levels, growing payloads, response order and rate limiter. A device is a
// model instance. The batcher, a thread in Triton, is Run() here: it is woken (Wake) for the end of
// the instant, when all that is due then is queued. The rules are in README.md.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_TRITON_DYNAMIC_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_TRITON_DYNAMIC_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/triton_dynamic/batching_pass.h"
#include "policies/triton_dynamic/level_queues.h"
#include "policies/triton_dynamic/payloads.h"
#include "policies/triton_dynamic/rate_limiter.h"
#include "policies/triton_dynamic/response_order.h"
#include "policies/triton_dynamic/ring.h"
#include "policies/triton_dynamic/settings.h"

namespace schedtwin {

const PolicyInfo& TritonDynamicInfo();

class TritonDynamic final : public Policy {
 public:
  explicit TritonDynamic(const triton::Settings& settings);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnTimer(Context& context, std::uint64_t tag) override;
  void OnSlotFree(Context& context, DeviceId device) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;

 private:
  // The batcher.
  void Wake(Context& context);
  void CatchUp(Context& context);
  void Run(Context& context, Time now);
  void NewPayload();
  bool Stale() const;
  bool SlotAvailable(const Context& context) const;
  void WaitForSlot(Context& context, Time now);
  void FinishExpired(Context& context, bool counted_out);
  void Commit(Context& context, std::size_t requests);
  void SetTimer(Context& context, Time when);
  void CancelTimer(Context& context);

  // Instances.
  bool Idle(const Context& context, std::uint32_t device) const;
  std::uint32_t FirstIdle(const Context& context) const;
  bool Dispatch(Context& context, Time now);
  void MergeWaiting(triton::Payload* payload, Time now);
  bool LaunchGrants(Context& context);
  void Launch(Context& context, std::uint32_t device, triton::PayloadId payload);
  void PutBack(Context& context, const PlanDone& done);
  void CancelInPayload(Context& context, RequestId request);

  triton::Settings settings_;
  triton::LevelQueues queues_;
  std::uint64_t queued_units_ = 0;  // as upstream counts them: for waking the batcher only
  std::uint64_t next_preferred_units_ = 0;

  triton::PayloadPool payloads_;
  triton::PayloadId open_ = triton::kNoPayload;  // the one that the batcher adds to
  bool open_waits_ = false;                      // it has been handed on
  bool saturated_ = false;                       // nothing more goes into it
  triton::Ring<triton::PayloadId> waiting_;      // handed on and not launched, in order

  triton::RateLimiter limiter_;
  std::vector<triton::RateLimiter::Grant> grants_;
  std::vector<bool> busy_;  // by device
  triton::ResponseOrder order_;

  bool woken_ = false;  // the batcher is to run for the instant woken_at_
  Time woken_at_;
  Time ran_at_;  // when it last looked
  bool waits_for_slot_ = false;
  TimerId timer_;
  std::vector<triton::Expired> expired_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_TRITON_DYNAMIC_H_
