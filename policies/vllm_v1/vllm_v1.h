// vllm_v1: the scheduler of vLLM's v1 engine for decoders: a token budget per step, running
// requests first and then waiting ones, chunked prefill, paged KV, a prefix cache where the run has
// one, first come first served or by priority, recompute preemption, and async scheduling. One
// engine on each device; arrivals go round robin.
//
// Two forms that give the same outcome. Listed: the engine's own loop, every running request in
// every plan. Standing: decodes are in the device's standing set, so a step costs O(changes); see
// README.md for why the two agree. Async scheduling lists.
#ifndef SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_
#define SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/round_robin.h"
#include "policies/parts/victim_order.h"
#include "policies/vllm_v1/step_ahead.h"
#include "policies/vllm_v1/waiting_queue.h"

namespace schedtwin {

const PolicyInfo& VllmV1Info();

class VllmV1 final : public Policy {
 public:
  explicit VllmV1(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanStarting(Context& context, PlanId plan) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    explicit Engine(bool by_priority) : waiting(by_priority) {}

    std::vector<RequestId> running;  ///< in order of admission
    WaitingQueue waiting;
    std::uint32_t in_flight = 0;  ///< plans launched and not ended
    PlanId plan;                  ///< the last of them
    bool cuttable = false;        ///< it runs many steps and has not been cut
    bool dissolved = false;       ///< its decodes have left the standing set for one step
    StepAhead ahead;
  };

  // Plans (vllm_v1.cc).
  /// None if it was refused.
  PlanId Launch(Context& context, const Plan& plan);
  void Cut(Context& context, Engine& engine);
  void JoinDecodes(Context& context, DeviceId device, const PlanDone& done);
  // And those of async scheduling: the step that is decided while one runs; one of which nothing
  // could be launched then; what it is owed.
  void LaunchAhead(Context& context, DeviceId device);
  void LaunchOwed(Context& context, DeviceId device);
  void EnterOwed(Context& context, DeviceId device);

  // The scheduler's two loops (schedule.cc). They fill entries_, take blocks and preempt; true if a
  // request was preempted.
  bool ScheduleRunningStanding(Context& context, DeviceId device, std::uint32_t* budget);
  bool ScheduleRunningListed(Context& context, DeviceId device, std::uint32_t* budget);
  void ScheduleWaiting(Context& context, DeviceId device, std::uint32_t budget);
  /// Preempts running[victim]; if it is in this step already, gives its tokens back.
  void Preempt(Context& context, DeviceId device, std::size_t victim, std::uint32_t* budget);
  /// Those of running that are not in the standing set.
  void FindPrefilling(const Context& context, DeviceId device);
  /// Blocks that the chunks of prefilling_ need.
  std::uint32_t PrefillGrowth(const Context& context, DeviceId device, std::uint32_t budget) const;
  void Dissolve(Context& context, DeviceId device);
  /// Tokens that a running request computes in this step.
  std::uint32_t StepTokens(const RequestView& request, std::uint32_t budget) const;
  /// Takes the blocks for an entry and enters it; false if they do not fit.
  bool Enter(Context& context, DeviceId device, const Entry& entry);
  std::uint32_t StandingGrowth(Context& context, DeviceId device) const;

  DecodeMode mode_;
  std::uint32_t max_num_batched_tokens_;
  std::uint32_t max_num_seqs_;
  std::uint32_t long_prefill_token_threshold_;
  bool chunked_prefill_;
  bool full_sequence_must_fit_;
  bool by_priority_;
  bool async_;
  double watermark_;
  RoundRobin router_;
  std::vector<Engine> engines_;  ///< by device
  // Of the step that is being decided.
  std::vector<Entry> entries_;
  std::vector<RequestId> prefilling_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_
