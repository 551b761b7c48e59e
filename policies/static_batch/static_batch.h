// static_batch: FasterTransformer's batching. A batch is taken from the queue and run to
// completion; nobody joins before its last request has ended. Each device has its own batch, all
// share one queue.
#ifndef SCHEDTWIN_POLICIES_STATIC_BATCH_STATIC_BATCH_H_
#define SCHEDTWIN_POLICIES_STATIC_BATCH_STATIC_BATCH_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/idle_devices.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

const PolicyInfo& StaticBatchInfo();

class StaticBatch final : public Policy {
 public:
  explicit StaticBatch(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnSlotFree(Context& context, DeviceId device) override;

 private:
  struct Batch {
    std::vector<RequestId> unfinished;
    std::uint32_t slots = 0;  ///< requests it began with
  };

  bool Admit(Context& context, DeviceId device);
  std::uint32_t ReservedTokens(const Context& context, DeviceId device, RequestId request) const;
  void LaunchAdmitted(Context& context, DeviceId device);
  void LaunchDecode(Context& context, DeviceId device);

  DecodeMode mode_;
  std::uint32_t max_batch_size_;
  bool reserve_model_len_;
  bool keep_padding_;
  RequestQueue waiting_;
  IdleDevices idle_;
  std::vector<Batch> batches_;  ///< by device
  std::vector<Entry> entries_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_STATIC_BATCH_STATIC_BATCH_H_
