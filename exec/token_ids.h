// The token ids of texts. Traces have lengths, not texts; a real model needs tokens, so they are
// drawn by one function: of (content, offset) where the text has a name, so that the same text is
// the same tokens whoever has it and its KV can be shared; of (request, position) where it has
// none. The same on every device and in every run. Pure.
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

/// The token at `offset` of the content `id`.
inline std::int32_t ContentToken(std::uint64_t id, std::uint32_t offset, std::uint32_t vocab) {
  const std::uint64_t start = MixBits(id + kMixStep);
  const std::uint64_t counter = start + (std::uint64_t{offset} + 1) * kMixStep;
  return static_cast<std::int32_t>((MixBits(counter) >> 32) * vocab >> 32);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_TOKEN_IDS_H_
