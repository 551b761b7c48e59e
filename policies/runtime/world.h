// World: one run. Owns all of its state (no globals: thousands of Worlds fit in one process), runs
// the one event loop over whatever time source it is given, and is what the policy's Context is a
// window on. The same class serves simulation and real execution; only TimeSource and DevicePorts
// differ.
//
//   World world(options, policy, time_source, devices, sources, recorder, wants);
//   const RunSummary summary = world.Run();
//
// One thread (the policy thread). Deterministic given options, policy, sources and what devices
// answer.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_WORLD_H_
#define SCHEDTWIN_POLICIES_RUNTIME_WORLD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/api/plan.h"
#include "policies/api/policy.h"
#include "policies/api/recorder.h"
#include "policies/api/source.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/time_source.h"

namespace schedtwin {

struct RunCore;
class DeviceDriver;
class Fleet;
class LengthPredictor;
class Operations;
class Reports;

/// A model that devices can load; requests ask for it by its place in the run's list.
struct ModelInfo {
  std::string name;
  std::uint64_t weights_bytes = 0;
};

/// A device that fails, with all that it holds, and comes back.
struct Fault {
  DeviceId device;
  Time at;
  Time until = Time::Infinite();
  /// Its requests are lost with it: each is cancelled (CancelBy::kFault). Else they wait, with
  /// nothing computed.
  bool loses_requests = false;
};

/// What a decision takes before what it has launched can start.
struct DecisionCost {
  Duration fixed;                      ///< of every OnSlotFree
  std::span<const Duration> measured;  ///< and one of these, drawn by the run's seed

  bool charges() const { return fixed > Duration() || !measured.empty(); }
};

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint64_t tie_seed = 0;    ///< not 0: shuffles ties inside each event class
  bool identify_blocks = false;  ///< KV blocks have numbers; else they are counted
  bool prefix_cache = false;     ///< blocks are found by their text; they have numbers then
  bool isolate_tenants = false;  ///< and by their tenant
  const LengthPredictor* lengths = nullptr;  ///< what policies are told; null: nothing
  bool deadlines_cancel = false;             ///< a request is cancelled at its deadline
  DecisionCost decision_cost;
  Duration report_interval;  ///< every device reports so often; zero: never
  Duration report_delay;     ///< and is heard so much later
  std::span<const Fault> faults;
  std::span<const ModelInfo> models;   ///< none: one, loaded everywhere, of no size
  std::uint32_t devices_at_start = 0;  ///< the rest is added by Scale; 0: all are there
  std::uint64_t max_callbacks_per_instant = 1'000'000;  ///< more is a livelock
  std::uint64_t max_idle_timers = 100'000;  ///< timers in a row without progress: a stall
  std::uint64_t max_idle_steps = 100'000;   ///< and so for steps and operations
  const std::atomic<bool>* stop = nullptr;  ///< set from outside: end at the next instant
};

struct DeviceSetup {
  DevicePort* port = nullptr;
  const StepTimeModel* model = nullptr;  ///< for predictions; null: none
  /// Of the run's models after the first; those beyond it are predicted by nobody.
  std::span<const StepTimeModel* const> more_models = {};

  const StepTimeModel* ModelOf(ModelId id) const {
    if (id.value == 0) return model;
    return id.value <= more_models.size() ? more_models[id.value - 1] : nullptr;
  }
};

enum class RunResult : std::uint8_t {
  kFinished,     ///< sources dry, no request lives
  kStalled,      ///< requests live and nothing will ever move them
  kLivelocked,   ///< too many callbacks at one instant
  kInterrupted,  ///< stopped from outside
  kFailed,       ///< a device answered that it cannot go on
};

struct RunSummary {
  RunResult result = RunResult::kFinished;
  std::string detail;  ///< one line for anything but kFinished
  std::uint64_t requests = 0;
  std::uint64_t ended[6] = {};  ///< by EndReason
  std::uint64_t events = 0;     ///< delivered to the policy
  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t refusals[static_cast<std::size_t>(Refusal::kCount)] = {};  ///< by reason
  std::uint64_t outcome_digest = 0;
  std::uint64_t decision_digest = 0;
  Time first_arrival;
  Time last_end;
};

class World final : private Context, public ReplySink {
 public:
  /// Everything passed outlives the World. REQUIRES: devices are all of one model kind.
  World(const WorldOptions& options, Policy* policy, TimeSource* time_source,
        std::span<const DeviceSetup> devices, std::span<RequestSource* const> sources,
        Recorder* recorder, RecordWants wants);
  ~World();

  /// Runs to the end; once.
  RunSummary Run();

  /// Where devices and time sources post messages. Policy thread only.
  void Post(const DeviceReply& reply, Time due) override;
  /// Checks all books against each other; aborts with the place if they disagree.
  void CheckInvariants() const;

 private:
  /// Later than this the run ends: sums of times stay far from overflow.
  static constexpr Time kLastInstant = Time::Nanos(std::int64_t{1} << 62);

  class ActionsFacet;
  class ServicesFacet;
  class ClockFacet;

  /// Of two limits of which 0 means none.
  static std::uint32_t SmallerLimit(std::uint32_t a, std::uint32_t b);

  RunSummary Loop();
  void LatchAll(Time now);
  bool RunInstant();
  void Dispatch(const struct Event& event);
  void Turn(std::uint32_t device);
  /// True if nothing else is due now: a plan that goes on need not wait for its turn.
  bool AloneAtThisInstant() const;
  void DeliverArrival(std::uint32_t source);
  void DeliverReply(std::uint32_t device);
  void DeliverPlanStarting(std::uint32_t device, PlanId plan);
  void DeliverDone(DeviceDriver& driver, const PlanDone& done);
  void DeliverTimer(std::uint64_t tag);
  void DeliverOperation(OpId operation);
  void DeliverCancel(std::uint32_t request, CancelBy by);
  void DeliverReport(std::uint32_t device);
  void DeliverCacheChange(std::uint32_t device);
  void DeliverSlotFree(std::uint32_t device);
  Duration DrawDecisionCost(std::uint32_t device);
  /// Something has happened that by itself gets no request on.
  void CountIdle();
  /// When its client leaves, or its deadline, if that is to end it.
  void PlanCancel(RequestId id, const RequestSpec& spec);
  RequestId ParentOf(std::uint32_t source, const RequestSpec& spec) const;
  void AfterCallback();
  /// Rolls back what a callback has left open.
  void CloseTransactions();
  void PullSource(std::uint32_t source);
  bool Finished() const;
  /// True if no arrival and no plan is on its way: nothing but the policy's timers.
  bool OnlyTimersPlanned() const;
  RunSummary Summary(RunResult result, std::string detail);
  std::string StallDetail() const;

  WorldOptions options_;
  Policy* policy_;
  TimeSource* time_source_;
  std::unique_ptr<RunCore> core_;
  std::unique_ptr<ClockFacet> clock_facet_;
  std::unique_ptr<ActionsFacet> actions_facet_;
  std::unique_ptr<ServicesFacet> services_facet_;
  std::vector<DeviceView> views_;
  std::vector<StandingClock> clocks_;
  std::vector<std::unique_ptr<DeviceDriver>> drivers_;
  std::vector<Memory*> memory_facets_;
  std::vector<Cache*> cache_facets_;
  std::vector<DeviceReply> inbox_;     ///< by device: the end of its step
  std::vector<TimerId> reply_events_;  ///< by device: that it will be told
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<Reports> reports_;
  std::vector<std::vector<RequestId>> ids_;  ///< by source and its index; one source needs none
  std::vector<std::uint64_t> decisions_;     ///< by device: slots offered, for draws of their cost
  ModelKind kind_ = ModelKind::kDecoder;
  std::uint32_t max_model_len_tokens_ = 0;  ///< what a request may have at most; 0: no limit
  std::uint32_t max_step_tokens_ = 0;
  std::uint64_t callbacks_ = 0;    ///< at this instant
  std::uint64_t idle_timers_ = 0;  ///< in a row
  std::uint64_t progress_seen_ = 0;
  Time first_arrival_ = Time::Infinite();
  DeviceId failed_device_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_WORLD_H_
