// The token ids of prompts. Traces have lengths, not texts; a real model needs tokens, so they are
// drawn by one function of (request, position), the same on every device and in every run. Pure.
#ifndef SCHEDTWIN_EXEC_TOKEN_IDS_H_
#define SCHEDTWIN_EXEC_TOKEN_IDS_H_

#include <cstdint>

#include "kernels/cpu/random_weights.h"

namespace schedtwin {

/// In 0 .. vocab - 1.
inline std::int32_t PromptToken(std::uint32_t request, std::uint32_t position,
                                std::uint32_t vocab) {
  const std::uint64_t counter = (std::uint64_t{request} << 32 | position) + 1;
  return static_cast<std::int32_t>((MixBits(counter * kMixStep) >> 32) * vocab >> 32);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_TOKEN_IDS_H_
