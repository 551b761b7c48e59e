// clockwork: the central controller of Clockwork (OSDI'20) for one-shot models: it admits, batches
// and loads models in one place. Every device is given work a little ahead, with a window for its
// start; who cannot be served in time is dropped before it costs anything.
//
// All decisions about steps are made in OnSlotFree, for all devices at once, one batch at a time in
// turn; events poke one device to get there. Owned by the run; deterministic.
#ifndef SCHEDTWIN_POLICIES_CLOCKWORK_CLOCKWORK_H_
#define SCHEDTWIN_POLICIES_CLOCKWORK_CLOCKWORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "policies/clockwork/duration_window.h"
#include "policies/clockwork/load_priority.h"
#include "policies/clockwork/model_queue.h"
#include "policies/clockwork/work_tracker.h"

namespace schedtwin {

const PolicyInfo& ClockworkInfo();

class Clockwork final : public Policy {
 public:
  explicit Clockwork(const Parameters& parameters);

  void OnStart(Context& context) override;
  void OnArrival(Context& context, RequestId request) override;
  void OnCancel(Context& context, RequestId request, CancelBy by) override;
  void OnTimer(Context& context, std::uint64_t tag) override;
  void OnSlotFree(Context& context, DeviceId device) override;
  void OnPlanDone(Context& context, const PlanDone& done) override;
  void OnOperationDone(Context& context, const OperationDone& done) override;
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override;

 private:
  struct Model {
    clockwork::ModelQueue queue;
    clockwork::DurationWindow loads;  ///< measured
    Duration load_estimate;
    Duration alone_estimate;      ///< of a batch of one, before anything was measured
    double executing_demand = 0;  ///< of those in plans
  };
  struct InFlight {
    PlanId plan;
    std::uint32_t model = 0;
    std::uint32_t size = 0;
    std::uint32_t units = 0;
    double exec_demand = 0;
  };
  struct Device {
    clockwork::WorkTracker steps;
    clockwork::WorkTracker loads;
    std::vector<InFlight> plans;           ///< in their order
    std::vector<std::uint64_t> last_used;  ///< by model; larger is later
    std::uint64_t loading = 0;             ///< bit m, here and below
    std::uint64_t too_large = 0;           ///< did not fit with nothing else loaded
    std::uint32_t unloads = 0;             ///< that have not ended
    bool can_load = true;
  };

  // Requests.
  Model& ModelOf(Context& context, RequestId request);
  clockwork::Waiting MakeWaiting(Context& context, RequestId request);
  void Drop(Context& context, const std::vector<RequestId>& requests);
  void ArmDeadline(Context& context, Time deadline);

  // Steps (clockwork.cc).
  void Wake(Context& context);
  bool ScheduleStep(Context& context, DeviceId device);
  bool Launch(Context& context, DeviceId device, std::uint32_t model, Time free_at);
  void BookEnd(const PlanDone& done, const InFlight& plan);

  // Models (clockwork_loads.cc).
  void ScheduleLoads(Context& context);
  bool ScheduleLoad(Context& context, DeviceId device);
  bool WantsLoad(const Context& context, DeviceId device) const;
  void ComputeLoadPriority(const Context& context);
  std::uint32_t ModelToLoad(const Context& context, DeviceId device) const;
  /// True if a model is being unloaded.
  bool Evict(Context& context, DeviceId device);
  void Touch(DeviceId device, std::uint32_t model);

  static constexpr std::uint32_t kMostModels = 64;  ///< DeviceView::loaded_models

  Duration default_slo_;
  Duration slo_buffer_;
  Duration schedule_ahead_;
  Duration latest_delta_;
  Duration network_delay_;
  Duration lag_;
  Duration max_load_slo_;
  Duration default_estimate_;
  std::size_t estimate_window_;
  std::vector<std::uint32_t> sizes_;

  std::vector<Model> models_;  ///< by number, as far as requests have asked for them
  std::vector<Device> devices_;
  std::vector<std::uint32_t> size_limits_;  ///< by model, while a device is being given work
  clockwork::Batch batch_;
  clockwork::LoadPriority load_priority_;
  std::vector<clockwork::Demand> demand_;
  std::vector<std::uint64_t> has_;
  std::vector<Entry> entries_;
  std::vector<RequestId> overdue_;
  std::uint64_t uses_ = 0;
  TimerId deadline_timer_;
  Time deadline_armed_ = Time::Infinite();
  TimerId schedule_timer_;
  Time wake_at_ = Time::Infinite();  ///< when a device can next be given more
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_CLOCKWORK_CLOCKWORK_H_
