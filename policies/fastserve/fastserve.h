// fastserve: FastServe's skip-join multi-level feedback queue for decoders: every step a new batch
// from the head of the queues, demotion by the time that steps took, KV swapped to the host tier to
// make room and brought back ahead of need. One engine on each device; arrivals go round robin.
//
// A batch that needs copies waits for them, as put together; then it is launched as one step.
#ifndef SCHEDTWIN_POLICIES_FASTSERVE_FASTSERVE_H_
#define SCHEDTWIN_POLICIES_FASTSERVE_FASTSERVE_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/fastserve/kv_swapper.h"
#include "policies/fastserve/level_queues.h"
#include "policies/parts/round_robin.h"

namespace schedtwin {

const PolicyInfo& FastServeInfo();

class FastServe final : public Policy {
 public:
  explicit FastServe(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnOperationDone(Context& context, const OperationDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Engine {
    LevelQueues queues;
    KvSwapper kv;
    std::vector<LevelQueues::Index> batch;  ///< put together and not over; out of the queues
    /// Who is computed in pieces and has not had the last: in the batch, or first of the next.
    LevelQueues::Index unfinished = LevelQueues::kNone;
    Time formed;                ///< when it was put together
    PlanId plan;                ///< in flight
    std::uint64_t batches = 0;  ///< put together so far
  };
  /// KV blocks that a batch asks for.
  struct Demand {
    std::int64_t missing = 0;    ///< to be taken
    std::int64_t to_return = 0;  ///< of these: of KV in the host tier
  };

  std::uint32_t LevelAtArrival(Context& context, DeviceId device, RequestId request);
  /// Puts a batch together, if there is anything that can run.
  void Form(Context& context, DeviceId device);
  void PopBatch(Context& context, DeviceId device);
  bool SkipsPrefill(const Context& context, DeviceId device, const RequestView& request) const;
  /// Takes KV off the device for the batch and the reserve, and cuts the batch to what there is
  /// room for; or brings KV back ahead of need. False: not even its first has room now.
  bool MakeRoom(Context& context, DeviceId device);
  void CutBatch(Context& context, DeviceId device, std::int64_t* lacking);
  void BringBackAhead(Context& context, DeviceId device, const Demand& demand);
  /// Launches the batch when all of its KV is there.
  void LaunchBatch(Context& context, DeviceId device);
  /// Charges the members of the batch for its time, and queues them again.
  void Charge(Engine& engine, const PlanDone& done);
  /// To the front of the queues, in its order; who is unfinished is first of the next.
  static void PutBackBatch(Engine& engine);

  std::uint32_t StepTokens(const DeviceView& device, const RequestView& request) const;
  std::uint32_t MissingBlocks(const DeviceView& device, const RequestView& request) const;
  Demand DemandOf(const Context& context, DeviceId device) const;
  std::uint32_t Reserve(const Engine& engine) const;

  std::uint32_t max_batch_size_;
  std::uint32_t max_tokens_per_batch_;
  Duration base_quantum_;
  std::int64_t quantum_growth_;
  bool skip_join_;
  Duration prefill_time_per_token_;
  bool swap_;
  bool proactive_;
  std::uint32_t min_free_blocks_;
  std::uint32_t min_free_host_percent_;
  std::uint64_t starvation_period_;
  Duration starvation_idle_;
  RoundRobin router_;
  std::vector<Engine> engines_;  ///< by device
  std::vector<Entry> entries_;
  std::vector<LevelQueues::Index> skipped_;  ///< scratch of PopBatch
  std::vector<LevelQueues::Index> cut_;      ///< scratch of CutBatch
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_FASTSERVE_FASTSERVE_H_
