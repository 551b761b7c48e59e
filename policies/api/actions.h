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

#include "policies/api/device.h"
#include "policies/api/ids.h"
#include "policies/api/plan.h"
#include "policies/api/source.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class PreemptMode : std::uint8_t {
  kRecompute,     ///< drop the blocks; prompt and output so far are computed again
  kSwap,          ///< move the blocks to the host tier while the device goes on; they are free when
                  ///< that is done
  kSwapBlocking,  ///< the same, but free at once: the device does it before its next step
  kPause,         ///< keep the blocks, leave the standing set
};

/// What to move, from where to where: the KV of a request, or the weights of a model. KV stays
/// where it is until all of it has arrived; the request cannot run meanwhile. A request swapped out
/// comes back by a transfer from its host tier.
struct TransferSpec {
  RequestId request;  ///< its KV; none: `weights`
  ModelId weights;
  DeviceId from;
  DeviceId to;
  Tier from_tier = Tier::kDevice;
  Tier to_tier = Tier::kDevice;
  /// The device `to` does it between its steps, in their order, instead of beside them.
  bool blocking = false;
  /// A stage of a live migration, or to the device's own host tier a checkpoint: the full blocks
  /// computed by now are copied while the request goes on where it is. The transfer or swap-out
  /// that follows copies only the rest.
  bool live = false;
  /// Of a swap-in: the blocks stay in the host tier, too, like those of a stage; who is swapped out
  /// again copies only what is new.
  bool keep = false;
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
  /// Binds the request to a device; optionally names another one for its decoding (a note to the
  /// policy itself: moving the KV is a transfer), or another variant of its model that is to serve
  /// it (a cheaper one degrades it).
  virtual Refusal Route(RequestId request, DeviceId device, DeviceId decode_device = {},
                        ModelId variant = {}) = 0;
  /// Takes the request off its device. A token of a step in flight still counts.
  virtual Refusal Preempt(RequestId request, PreemptMode mode) = 0;
  /// The response is kept back: a request that finishes goes on living (kHeld) and ends for its
  /// client when it is released.
  virtual Refusal HoldResponse(RequestId request) = 0;
  virtual Refusal ReleaseResponse(RequestId request) = 0;

  // Plans.
  virtual Launched Launch(const Plan& plan) = 0;
  /// Replaces a plan that has not started; the new one keeps its place and its id.
  virtual Launched Amend(PlanId plan, const Plan& replacement) = 0;
  /// Takes back a plan that has not started.
  virtual Refusal Withdraw(PlanId plan) = 0;
  /// Cuts a running plan. At a step: it ends at the boundary of the step in flight. Now, or at the
  /// end of a layer: the step in flight makes nothing, and if it has the standing set, the set is
  /// dissolved. A device may take a little longer than it was told.
  virtual Refusal Abort(PlanId plan, AbortAt where) = 0;
  /// Adds a decoding request to its device's standing set, from the next step submitted on.
  virtual Refusal Join(DeviceId device, RequestId request) = 0;
  virtual Refusal Leave(DeviceId device, RequestId request) = 0;
  /// One OnSlotFree for the device at this instant, after everything else that is due now.
  virtual Refusal Poke(DeviceId device) = 0;

  // Cached blocks; reservations are in memory.h. Refused while a memory transaction is open.
  /// Keeps what is cached now of the request's text, on the device it is bound to, from eviction:
  /// while nobody uses these blocks they are not free either. Pinnings are counted and outlive the
  /// request: each stays until a request whose text begins with what was pinned takes it back, the
  /// longest first, the latest of equal ones. kBadArgument: nothing is cached, or pinned.
  virtual Refusal Pin(RequestId request, bool pinned) = 0;
  /// Evicts so many cached blocks that nobody uses (DeviceView::cached_blocks), the least recently
  /// used first; kBadArgument, and none goes, if there are fewer. They stay free.
  virtual Refusal Evict(DeviceId device, std::uint32_t blocks) = 0;

  // Placement and operations. Each operation ends with one OnOperationDone.
  virtual Started Transfer(const TransferSpec& transfer) = 0;
  /// The operation ends as soon as it can, as not done unless it was faster.
  virtual Refusal CancelOperation(OpId operation) = 0;
  virtual Started Load(DeviceId device, ModelId model) = 0;
  /// Refused while a launched plan needs the model.
  virtual Started Unload(DeviceId device, ModelId model) = 0;
  /// Sets how many devices there are to be: those with the lowest numbers. One that is added loads
  /// its models and is ready then; one that is too many is drained and removed.
  virtual Refusal Scale(std::uint32_t devices) = 0;
  virtual Refusal SetRole(DeviceId device, DeviceRole role) = 0;

  /// A reason, for the log; not part of any digest.
  virtual void Note(std::string_view text) = 0;

 protected:
  ~Actions() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_ACTIONS_H_
