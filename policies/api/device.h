// DeviceView: what a policy that drives a device sees of it: a mirror that the runtime keeps and
// changes only when it delivers an event, never the memory of a worker. Routers see DeviceReport
// instead: a stamped, possibly stale copy; the two are different types so that one cannot pass for
// the other.
#ifndef SCHEDTWIN_POLICIES_API_DEVICE_H_
#define SCHEDTWIN_POLICIES_API_DEVICE_H_

#include <cstdint>
#include <string>

#include "policies/api/ids.h"
#include "policies/api/request.h"
#include "policies/api/time.h"

namespace schedtwin {

/// A way for bytes: so long until the first, and then so many a second.
struct Link {
  Duration latency;
  std::uint64_t bytes_per_second = 0;  ///< 0: there is no such way

  bool exists() const { return bytes_per_second > 0; }
  /// Rounded up to the nanosecond; at most 34 years and the latency. REQUIRES: exists().
  Duration TimeOf(std::uint64_t bytes) const {
    __extension__ using Wide = unsigned __int128;
    constexpr std::uint64_t kSecond = 1'000'000'000;
    constexpr Wide kMost = Wide{1} << 60;
    const Wide ns = (Wide{bytes} * kSecond + bytes_per_second - 1) / bytes_per_second;
    return latency + Duration::Nanos(static_cast<std::int64_t>(ns < kMost ? ns : kMost));
  }
};

/// KV blocks that hold `tokens` tokens, any number of them; 0 where the model keeps no KV.
constexpr std::uint32_t BlocksFor(std::uint32_t tokens, std::uint32_t block_tokens) {
  if (block_tokens == 0) return 0;
  return tokens / block_tokens + (tokens % block_tokens != 0 ? 1 : 0);
}

/// Fixed facts of a device, known at the start.
struct DeviceInfo {
  std::string name;
  ModelKind kind = ModelKind::kDecoder;
  std::uint32_t queue_depth = 1;           ///< plans launched and not ended, at most
  std::uint32_t max_step_tokens = 0;       ///< tokens or units in one step, at most; 0: no limit
  std::uint32_t max_model_len_tokens = 0;  ///< prompt and output of one request; 0: no limit
  std::uint32_t total_blocks = 0;          ///< KV blocks; 0: the model keeps no KV
  std::uint32_t block_tokens = 0;
  std::uint32_t host_blocks = 0;    ///< of the host tier; 0: nothing can be swapped out
  std::uint64_t block_bytes = 0;    ///< KV of one block
  std::uint64_t weights_bytes = 0;  ///< room for models; 0: no limit
  std::uint32_t layers = 1;         ///< of its models: where a step can be cut
  Link host_link;                   ///< between its tiers
  Link peer_link;                   ///< from another device into this one
  Link load_link;                   ///< from storage, for weights
};

enum class DeviceState : std::uint8_t {
  kUp,
  kStarting,  ///< added; its models are being loaded
  kDraining,  ///< finishes what it has, takes no request more
  kOff,       ///< not added, or removed
  kFailed,
};

/// What it is meant for. A label for routers and scalers: nothing is refused because of it.
enum class DeviceRole : std::uint8_t { kBoth, kPrefill, kDecode };

/// A device as its driver sees it now. Valid for one callback.
struct DeviceView {
  DeviceId id;
  DeviceState state = DeviceState::kUp;
  DeviceRole role = DeviceRole::kBoth;
  std::uint32_t queued = 0;  ///< plans launched and not ended, the running one included
  std::uint32_t queue_depth = 1;
  std::uint32_t total_blocks = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t free_blocks = 0;    ///< that can be handed out, cached ones included
  std::uint32_t fenced_blocks = 0;  ///< released, but still used by a plan in flight
  std::uint32_t standing = 0;       ///< members of the standing decode set
  std::uint32_t max_step_tokens = 0;
  std::uint32_t max_model_len_tokens = 0;
  std::uint32_t cached_blocks = 0;  ///< of the free ones: those that the prefix cache still names
  std::uint32_t host_blocks = 0;
  std::uint32_t host_free_blocks = 0;
  std::uint64_t loaded_models = 1;  ///< bit m: model m can be launched
  Time step_started;                ///< of the step that runs, if one does

  bool idle() const { return queued == 0; }
  /// Plans can be launched on it.
  bool up() const { return state == DeviceState::kUp || state == DeviceState::kDraining; }
  bool loaded(ModelId model) const {
    return model.value < 64 && (loaded_models >> model.value & 1) != 0;
  }
  std::uint32_t depth_left() const { return up() ? queue_depth - queued : 0; }
};

/// What a router or scaler is told of a device it does not drive.
struct DeviceReport {
  DeviceId id;
  Time taken;  ///< when the device wrote it, not when it came
  DeviceState state = DeviceState::kUp;
  DeviceRole role = DeviceRole::kBoth;
  std::uint32_t waiting = 0;         ///< requests bound to it that have nothing computed
  std::uint32_t running = 0;         ///< and those that have
  std::uint64_t waiting_tokens = 0;  ///< that the former have to compute first
  std::uint32_t waiting_blocks = 0;  ///< and the KV blocks for these
  std::uint32_t preempted = 0;       ///< of the waiting: those that have run before
  std::uint32_t queued = 0;          ///< plans
  std::uint32_t free_blocks = 0;
  std::uint32_t total_blocks = 0;
};

enum class DeviceChange : std::uint8_t {
  kAdded,
  kReady,
  kDraining,
  kFailed,
  kRecovered,
  kRole,
  kCapacity,  ///< which models it has loaded
  kRemoved,
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_DEVICE_H_
