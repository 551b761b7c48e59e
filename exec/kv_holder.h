// KvHolder: what a runner has of its model's KV, as it is copied: between the tiers of a device,
// and from device to device, all in one process. The copy is made by the thread of the device that
// receives; the runtime sees to it that meanwhile nobody writes the blocks that are read, nor reads
// those that are written.
#ifndef SCHEDTWIN_EXEC_KV_HOLDER_H_
#define SCHEDTWIN_EXEC_KV_HOLDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/kv_arena.h"
#include "kernels/cpu/stop_check.h"
#include "policies/api/device.h"

namespace schedtwin {

/// What a request has made: text that no trace tells of.
struct MadeTokens {
  std::uint32_t first = 0;  ///< position of tokens[0]
  std::vector<std::int32_t> tokens;
};

class KvHolder;

struct KvCopy {
  std::uint32_t request = 0;
  const KvHolder* from = nullptr;  ///< of the same model
  Tier from_tier = Tier::kDevice;
  Tier to_tier = Tier::kDevice;
  std::span<const std::uint32_t> from_blocks;
  std::span<const std::uint32_t> to_blocks;  ///< as many
};

class KvHolder {
 public:
  /// Null: nothing can have been put there yet. What is there once stays there. Any thread.
  virtual const KvArena* arena(Tier tier) const = 0;
  /// Any thread.
  virtual MadeTokens made_tokens(std::uint32_t request) const = 0;
  /// Copies the blocks, and from another holder also the tokens that the request has made. Asks
  /// `stop` before each block; false: it was stopped, and the destination holds anything. The
  /// worker's thread. Throws std::bad_alloc if the memory is still to be taken (which loading the
  /// model does, too), and std::invalid_argument where there are no such blocks.
  virtual bool Copy(const KvCopy& copy, StopCheck stop) = 0;

 protected:
  ~KvHolder() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_KV_HOLDER_H_
