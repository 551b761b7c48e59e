// Actions: all that a policy can do. Decisions are values that may be refused with a typed reason;
// nothing has changed then, and the refusal is counted and logged. What an action causes is
// delivered after the callback returns, never inside it. An action that the world has no mechanics
// for is refused as kUnsupported, so that a policy finds out on its first call and a run records
// it.
#ifndef SCHEDTWIN_POLICIES_API_ACTIONS_H_
#define SCHEDTWIN_POLICIES_API_ACTIONS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "policies/api/ids.h"
#include "policies/api/plan.h"
#include "policies/api/source.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class PreemptMode : std::uint8_t {
  kRecompute,  ///< drop the blocks; prompt and output so far are computed again
  kSwap,       ///< move the blocks to the host tier
  kPause,      ///< keep the blocks, leave the standing set
};

enum class DeviceRole : std::uint8_t { kBoth, kPrefill, kDecode };

/// What to move, from where to where: the KV of a request, or the weights of a model. Blocking: the
/// device runs nothing meanwhile.
struct TransferSpec {
  RequestId request;  ///< its KV; none: `weights`
  ModelId weights;
  DeviceId from;
  DeviceId to;
  bool blocking = false;
};

struct Started {
  OpId id;
  Refusal refusal = Refusal::kNone;
};

class Actions {
 public:
  // Requests.
  /// Ends a request without (more) output. kCompleted is refused: only the device completes.
  virtual Refusal Finish(RequestId request, EndReason reason) = 0;
  /// Binds the request to a device, and optionally to another one for its decoding, or to another
  /// variant of its model (a cheaper one degrades it).
  virtual Refusal Route(RequestId request, DeviceId device, DeviceId decode_device = {},
                        ModelId variant = {}) = 0;
  /// Takes the request off its device. A token of a step in flight still counts.
  virtual Refusal Preempt(RequestId request, PreemptMode mode) = 0;
  virtual Refusal HoldResponse(RequestId request) = 0;
  virtual Refusal ReleaseResponse(RequestId request) = 0;

  // Plans.
  virtual Launched Launch(const Plan& plan) = 0;
  /// Replaces a plan that has not started; the new one keeps its place and its id.
  virtual Launched Amend(PlanId plan, const Plan& replacement) = 0;
  /// Takes back a plan that has not started.
  virtual Refusal Withdraw(PlanId plan) = 0;
  /// Cuts a running plan. At a step: it ends at the boundary of the step in flight.
  virtual Refusal Abort(PlanId plan, AbortAt where) = 0;
  /// Adds a decoding request to its device's standing set, from the next step submitted on.
  virtual Refusal Join(DeviceId device, RequestId request) = 0;
  virtual Refusal Leave(DeviceId device, RequestId request) = 0;
  /// One OnSlotFree for the device at this instant, after everything else that is due now.
  virtual Refusal Poke(DeviceId device) = 0;

  // Cached blocks; reservations are in memory.h.
  /// Keeps the request's cached prefix from eviction, or no longer.
  virtual Refusal Pin(RequestId request, bool pinned) = 0;
  /// Evicts cached blocks, the least recently used first.
  virtual Refusal Evict(DeviceId device, std::uint32_t blocks) = 0;

  // Placement and operations.
  virtual Started Transfer(const TransferSpec& transfer) = 0;
  virtual Refusal CancelOperation(OpId operation) = 0;
  virtual Started Load(DeviceId device, ModelId model) = 0;
  virtual Started Unload(DeviceId device, ModelId model) = 0;
  virtual Refusal Scale(std::uint32_t devices) = 0;
  virtual Refusal SetRole(DeviceId device, DeviceRole role) = 0;

  /// A reason, for the log; not part of any digest.
  virtual void Note(std::string_view text) = 0;

 protected:
  ~Actions() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_ACTIONS_H_
