// vllm_v1: the scheduler of vLLM's v1 engine for decoders: a token budget per step, running
// requests first and then waiting ones, chunked prefill, paged KV, a prefix cache where the run has
// one, recompute preemption of the last admitted. One engine on each device; arrivals go round
// robin.
//
// Two forms that give the same outcome. Listed: the engine's own loop, every running request in
// every plan. Standing: decodes are in the device's standing set, so a step costs O(changes); see
// README.md for why the two agree.
#ifndef SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_
#define SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/request_queue.h"
#include "policies/parts/round_robin.h"

namespace schedtwin {

const PolicyInfo& VllmV1Info();

class VllmV1 final : public Policy {
 public:
  explicit VllmV1(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    std::vector<RequestId> running;  ///< in order of admission
    RequestQueue waiting;
    PlanId plan;            ///< in flight
    bool cuttable = false;  ///< it runs many steps and has not been cut
  };

  /// True if a request was preempted.
  bool ScheduleRunningStanding(Context& context, DeviceId device, std::uint32_t* budget);
  bool ScheduleRunningListed(Context& context, DeviceId device, std::uint32_t* budget);
  void ScheduleWaiting(Context& context, DeviceId device, std::uint32_t budget);
  void PreemptLast(Context& context, DeviceId device);
  void Cut(Context& context, Engine& engine);
  bool Fits(const Context& context, DeviceId device, RequestId request, std::uint32_t tokens,
            std::uint32_t keep_free_blocks) const;
  std::uint32_t StandingGrowth(Context& context, DeviceId device) const;

  DecodeMode mode_;
  std::uint32_t max_num_batched_tokens_;
  std::uint32_t max_num_seqs_;
  bool chunked_prefill_;
  bool full_sequence_must_fit_;
  std::uint32_t watermark_permille_;
  RoundRobin router_;
  std::vector<Engine> engines_;  ///< by device
  std::vector<Entry> entries_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_VLLM_V1_VLLM_V1_H_
