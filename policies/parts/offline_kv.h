// OfflineKv: the KV of requests that have no target and must make room for those that have: copied
// to the host tier as it grows (checkpoint), or when it has to go (swap), or dropped (recompute).
// Room is there at once, whichever it is: what is not in the host tier yet the device copies before
// its next step. Where the device has no host tier all is dropped, and so is what finds no room
// there. Owned by one engine; one thread.
#ifndef SCHEDTWIN_POLICIES_PARTS_OFFLINE_KV_H_
#define SCHEDTWIN_POLICIES_PARTS_OFFLINE_KV_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "policies/api/policy.h"

namespace schedtwin {

enum class OfflineKvMode : std::uint8_t { kCheckpoint, kSwap, kRecompute };

/// As parameters name them, in the order of OfflineKvMode.
inline constexpr std::array<std::string_view, 3> kOfflineKvNames = {"checkpoint", "swap",
                                                                    "recompute"};

inline OfflineKvMode OfflineKvModeOf(std::string_view name) {
  const auto at = std::find(kOfflineKvNames.begin(), kOfflineKvNames.end(), name);
  return static_cast<OfflineKvMode>(at - kOfflineKvNames.begin());
}

/// An offline request that was begun.
struct OfflineJob {
  RequestId request;
  OpId copy;                         ///< its checkpoint under way
  std::uint32_t copying_blocks = 0;  ///< in the host tier when that is done
  std::uint32_t saved_blocks = 0;    ///< in the host tier now, beside the device
  std::uint64_t step = 0;            ///< the last that it was put into, for its engine
};

class OfflineKv {
 public:
  OfflineKv(const Context& context, DeviceId device, OfflineKvMode mode)
      : device_(device), mode_(mode) {
    const DeviceView& view = context.device(device);
    const bool reachable = view.total_blocks > 0 && view.host_blocks > 0 &&
                           context.services().TransferTime(device, device, 1).has_value();
    if (!reachable) mode_ = OfflineKvMode::kRecompute;
  }

  /// Copies the full blocks that have been added since the last time, if any, while the request
  /// goes on; as far as the host tier has room. Not while a copy is under way: what is added
  /// meanwhile goes with the next. REQUIRES: no step in flight names it.
  void Checkpoint(Context& context, OfflineJob* job) const {
    const RequestView view = context.request(job->request);
    if (mode_ != OfflineKvMode::kCheckpoint || job->copy.valid()) return;
    if (view.state() != RequestState::kWaiting || view.tier() != Tier::kDevice) return;
    const DeviceView& device = context.device(device_);
    const std::uint32_t full = view.scheduled_tokens() / device.block_tokens;
    if (full <= job->saved_blocks || full - job->saved_blocks > device.host_free_blocks) return;
    TransferSpec out = Between(job->request, Tier::kDevice, Tier::kHost);
    out.live = true;
    const Started started = context.actions().Transfer(out);
    if (started.refusal != Refusal::kNone) return;
    job->copy = started.id;
    job->copying_blocks = full;
  }

  /// It has blocks on the device that can be taken from it now: a checkpoint under way holds them.
  static bool CanPutOut(const Context& context, const OfflineJob& job) {
    const RequestView view = context.request(job.request);
    return view.state() == RequestState::kWaiting && view.tier() == Tier::kDevice &&
           view.owned_blocks() > 0 && !job.copy.valid();
  }
  /// Frees the job's blocks at once. False: its KV is dropped, and it has to begin anew. REQUIRES:
  /// CanPutOut.
  bool PutOut(Context& context, OfflineJob* job) const {
    const RequestView view = context.request(job->request);
    const DeviceView& device = context.device(device_);
    const std::uint32_t blocks = BlocksFor(view.scheduled_tokens(), device.block_tokens);
    const std::uint32_t missing = blocks - std::min(blocks, job->saved_blocks);
    job->saved_blocks = 0;
    if (mode_ != OfflineKvMode::kRecompute && blocks > 0 && missing <= device.host_free_blocks &&
        context.actions().Preempt(job->request, PreemptMode::kSwapBlocking) == Refusal::kNone) {
      return true;
    }
    context.actions().Preempt(job->request, PreemptMode::kRecompute);
    return false;
  }

  /// Begins to bring the job's KV back beside the steps; of checkpoints the copy in the host tier
  /// stays. REQUIRES: it lies there, is not moving, and as many blocks are free.
  void BringIn(Context& context, const OfflineJob& job) const {
    TransferSpec back = Between(job.request, Tier::kHost, Tier::kDevice);
    back.keep = mode_ == OfflineKvMode::kCheckpoint;
    context.actions().Transfer(back);
  }

  /// An operation on the job's KV has ended.
  void OnDone(const Context& context, const OperationDone& done, OfflineJob* job) const {
    if (done.kind == OperationKind::kStage && job->copy == done.id) {
      job->saved_blocks = done.ok ? job->copying_blocks : 0;
      job->copy = OpId{};
    } else if (done.kind == OperationKind::kSwapIn && done.ok &&
               mode_ == OfflineKvMode::kCheckpoint) {
      job->saved_blocks =
          context.request(job->request).scheduled_tokens() / context.device(device_).block_tokens;
    }
  }

 private:
  TransferSpec Between(RequestId request, Tier from, Tier to) const {
    TransferSpec spec;
    spec.request = request;
    spec.from = spec.to = device_;
    spec.from_tier = from;
    spec.to_tier = to;
    return spec;
  }

  DeviceId device_;
  OfflineKvMode mode_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_OFFLINE_KV_H_
