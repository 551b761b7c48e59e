// Policy: what a researcher writes. Ten events; each is a callback that does nothing by default.
// One object may span every level, from admission to placement; parts/ has small pieces to compose.
//
// The rules, the same in every world: callbacks are never nested; a policy is single-threaded,
// never blocks, sleeps, reads a clock or draws randomness outside its Context, keeps no globals,
// and allocates nothing per event on its hot path. At equal times events come in this order: plan
// done, operation done, cache change, device change, report, cancel, timer, arrival, plan starting,
// slot free; within a kind by entity, then by sequence.
#ifndef SCHEDTWIN_POLICIES_API_POLICY_H_
#define SCHEDTWIN_POLICIES_API_POLICY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "policies/api/context.h"
#include "policies/api/parameters.h"

namespace schedtwin {

enum class CancelBy : std::uint8_t { kClient, kDeadline, kFault };

enum class OperationKind : std::uint8_t {
  kSwapOut,   ///< KV from the device to its own host tier
  kSwapIn,    ///< and back
  kTransfer,  ///< KV, from one device to another
  kStage,     ///< of a live migration
  kLoad,
  kUnload,
};

struct OperationDone {
  OpId id;
  OperationKind kind = OperationKind::kTransfer;
  RequestId request;  ///< whose KV; it may have ended meanwhile (Context::live)
  ModelId model;      ///< whose weights
  DeviceId device;    ///< where it has arrived; of an unload: which it has left
  bool ok = false;    ///< false: cancelled, or a device has failed; all is as it was before
  Time start;
  Time end;
};

struct CacheChange {
  DeviceId device;
  Tier tier = Tier::kDevice;
  std::uint32_t stored_blocks = 0;
  std::uint32_t evicted_blocks = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;

  /// Once, before anything else; devices are known, no request is.
  virtual void OnStart(Context& context) { (void)context; }

  virtual void OnArrival(Context& context, RequestId request) { (void)context, (void)request; }
  /// The client has left, the deadline has passed, or a device lost the request. It is ended by the
  /// runtime when this returns, unless the policy has ended it.
  virtual void OnCancel(Context& context, RequestId request, CancelBy by) {
    (void)context, (void)request, (void)by;
  }
  virtual void OnTimer(Context& context, std::uint64_t tag) { (void)context, (void)tag; }
  /// The device can take another plan: the step boundary at which to launch. Comes after everything
  /// else that is due at this instant, once per device.
  virtual void OnSlotFree(Context& context, DeviceId device) { (void)context, (void)device; }
  /// Last chance to amend; only for plans launched with `late_binding`.
  virtual void OnPlanStarting(Context& context, PlanId plan) { (void)context, (void)plan; }
  virtual void OnPlanDone(Context& context, const PlanDone& done) { (void)context, (void)done; }
  virtual void OnOperationDone(Context& context, const OperationDone& done) {
    (void)context, (void)done;
  }
  virtual void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
    (void)context, (void)device, (void)change;
  }
  virtual void OnCacheChange(Context& context, const CacheChange& change) {
    (void)context, (void)change;
  }
  virtual void OnReport(Context& context, const DeviceReport& report) {
    (void)context, (void)report;
  }
};

/// What a policy says of itself: listed by `policies`, made by name.
struct PolicyInfo {
  std::string_view name;     ///< lower case with underscores
  std::string_view summary;  ///< one sentence
  std::string_view source;   ///< paper, repository and commit
  bool one_shot = false;     ///< drives one-shot models
  bool decoder = false;      ///< drives decoder models
  std::span<const ParameterSpec> parameters;
  std::unique_ptr<Policy> (*create)(const Parameters& parameters) = nullptr;
  /// What is wrong with values that are each in their range, in one line that says how to mend it;
  /// empty: nothing. Asked before `create`, which then cannot fail. None: nothing ever is.
  std::string (*check)(const Parameters& parameters) = nullptr;
  /// The queue depth that devices need for these values to mean what they say: a run on shallower
  /// ones is refused. None: 1.
  std::uint32_t (*min_queue_depth)(const Parameters& parameters) = nullptr;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_POLICY_H_
