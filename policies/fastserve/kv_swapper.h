// KvSwapper: takes requests' KV off a device and brings it back, and knows what is on its way. A
// copy runs beside the steps: what leaves counts as available at once, although it can be handed
// out only when the copy is done, so that decisions do not depend on how fast a link is; who needs
// it waits. Owned by one engine of fastserve; one thread.
#ifndef SCHEDTWIN_POLICIES_FASTSERVE_KV_SWAPPER_H_
#define SCHEDTWIN_POLICIES_FASTSERVE_KV_SWAPPER_H_

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"

namespace schedtwin {

class KvSwapper {
 public:
  /// Swaps if asked to and there is a host tier that can be reached; else drops what it takes off.
  KvSwapper(const Context& context, DeviceId device, bool swap);

  bool swaps() const { return swaps_; }
  bool copying() const { return !copies_.empty(); }

  /// Device blocks that are free, or will be when what is under way has ended.
  std::uint32_t AvailableBlocks(const Context& context) const;
  /// The same of the host tier.
  std::uint32_t AvailableHostBlocks(const Context& context) const;

  /// Device blocks that stay the request's: its own, unless they lie or go elsewhere.
  static std::uint32_t HeldBlocks(const RequestView& request);
  /// It has blocks on the device that can be taken from it now.
  static bool CanPutOut(const RequestView& request);

  /// Swaps the request out; where the host tier has no room, drops its KV. REQUIRES: CanPutOut.
  void PutOut(Context& context, RequestId request);
  /// Begins to bring the request back; false if too few blocks are free for it now. REQUIRES: its
  /// KV lies in the host tier, and is not moving.
  bool BringIn(Context& context, RequestId request);
  void OnDone(const OperationDone& done);

 private:
  struct Copy {
    RequestId request;
    OperationKind kind = OperationKind::kSwapOut;
    std::uint32_t blocks = 0;
  };

  std::uint32_t BlocksUnderWay(OperationKind kind) const;

  DeviceId device_;
  bool swaps_;
  std::vector<Copy> copies_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_FASTSERVE_KV_SWAPPER_H_
