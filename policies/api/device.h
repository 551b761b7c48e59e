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

/// Fixed facts of a device, known at the start.
struct DeviceInfo {
  std::string name;
  ModelKind kind = ModelKind::kDecoder;
  std::uint32_t queue_depth = 1;           ///< plans launched and not ended, at most
  std::uint32_t max_step_tokens = 0;       ///< tokens or units in one step, at most; 0: no limit
  std::uint32_t max_model_len_tokens = 0;  ///< prompt and output of one request; 0: no limit
  std::uint32_t total_blocks = 0;          ///< KV blocks; 0: the model keeps no KV
  std::uint32_t block_tokens = 0;
};

/// A device as its driver sees it now. Valid for one callback.
struct DeviceView {
  DeviceId id;
  bool up = true;
  std::uint32_t queued = 0;  ///< plans launched and not ended, the running one included
  std::uint32_t queue_depth = 1;
  std::uint32_t total_blocks = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t fenced_blocks = 0;  ///< released, but still used by a plan in flight
  std::uint32_t standing = 0;       ///< members of the standing decode set
  std::uint32_t max_step_tokens = 0;
  std::uint32_t max_model_len_tokens = 0;

  bool idle() const { return queued == 0; }
  std::uint32_t depth_left() const { return up ? queue_depth - queued : 0; }
};

/// What a router or scaler is told of a device it does not drive.
struct DeviceReport {
  DeviceId id;
  Time taken;  ///< when the device wrote it, not when it came
  std::uint32_t waiting = 0;
  std::uint32_t running = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t total_blocks = 0;
};

/// Where KV blocks may lie.
enum class Tier : std::uint8_t { kDevice, kHost };

enum class DeviceChange : std::uint8_t {
  kAdded,
  kReady,
  kDraining,
  kFailed,
  kRecovered,
  kRole,
  kCapacity,
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_DEVICE_H_
