// llumnix: requests are dispatched to the freest instance, and moved from instances that run short
// of memory to such as have it, while they decode (Llumnix, OSDI'24; the form of its artifact).
// Every device is an instance with an engine of its own (parts/continuous_engine.h).
//
// What is known of the instances is the policy's own books, or the reports of the run, which are
// older. Deterministic: ties go to the lowest device; one thread.
#ifndef SCHEDTWIN_POLICIES_LLUMNIX_LLUMNIX_H_
#define SCHEDTWIN_POLICIES_LLUMNIX_LLUMNIX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/policy.h"
#include "policies/llumnix/freeness.h"
#include "policies/llumnix/instance.h"
#include "policies/llumnix/live_migration.h"
#include "policies/llumnix/pairing.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/round_robin.h"

namespace schedtwin {

const PolicyInfo& LlumnixInfo();

class Llumnix final : public Policy {
 public:
  explicit Llumnix(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnTimer(Context& context, std::uint64_t tag) override;
  void OnSlotFree(Context& context, DeviceId device) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnOperationDone(Context& context, const OperationDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;
  void OnReport(Context& context, const DeviceReport& report) override;

 private:
  /// Where a session was last sent.
  struct Session {
    std::uint64_t id = 0;
    DeviceId device;
  };

  Instance& instance(DeviceId device) { return *instances_[device.value]; }
  InstanceState State(const Context& context, DeviceId device) const;
  DeviceId Dispatch(const Context& context, RequestId request);
  void Send(Context& context, RequestId request);
  /// Those who wait for a device that is drained go elsewhere.
  void SendOn(Context& context, DeviceId device);
  /// Where it waits, runs, or comes from.
  DeviceId HomeOf(const Context& context, RequestId request) const;
  DeviceId Freest(const Context& context, bool high_priority);
  Session* SessionOf(std::uint64_t id);
  void Migrate(Context& context);
  void Scale(Context& context);
  /// Timers run while requests live.
  void StartTimers(Context& context);
  void OnEnd(Context& context, RequestId request, DeviceId device);

  DecodeMode mode_;
  std::uint32_t max_num_seqs_;
  std::uint32_t max_num_batched_tokens_;
  bool reported_;
  bool migration_;
  Duration migration_interval_;
  std::int64_t reports_per_migration_;
  std::int64_t priority_target_tokens_;
  Duration scaling_interval_;
  double scale_up_threshold_;
  double scale_down_threshold_;
  FreenessRules freeness_;
  StageRules stages_;
  Pairing pairing_;
  RoundRobin round_robin_;
  std::vector<std::unique_ptr<Instance>> instances_;  ///< by device
  std::unique_ptr<LiveMigration> live_;
  std::vector<Session> sessions_;    ///< by hash
  std::vector<DeviceReport> known_;  ///< by device
  std::vector<Pairing::Candidate> candidates_;
  std::size_t devices_known_ = 0;  ///< that have reported
  std::int64_t reports_ = 0;       ///< since instances were paired
  std::int64_t requests_ = 0;      ///< that live
  TimerId migration_timer_;
  TimerId scaling_timer_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_LLUMNIX_LLUMNIX_H_
