// BatchLimit: the largest batch that is both wished for and possible: what a policy's parameter
// says, and no more than any of the devices takes in one step, for any of them may get it.
#ifndef SCHEDTWIN_POLICIES_PARTS_BATCH_LIMIT_H_
#define SCHEDTWIN_POLICIES_PARTS_BATCH_LIMIT_H_

#include <algorithm>
#include <cstdint>

#include "policies/api/context.h"

namespace schedtwin {

inline std::uint32_t BatchLimit(const Context& context, std::uint32_t wished) {
  for (const DeviceView& device : context.devices()) {
    if (device.max_step_tokens > 0) wished = std::min(wished, device.max_step_tokens);
  }
  return wished;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_BATCH_LIMIT_H_
