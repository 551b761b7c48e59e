// The token ids of prompts. Traces have lengths, not texts; a real model needs tokens, so they are
// drawn by one function of (request, position), the same on every device and in every run. Pure.
#ifndef SCHEDTWIN_EXEC_TOKEN_IDS_H_
#define SCHEDTWIN_EXEC_TOKEN_IDS_H_

#include <cstdint>

namespace schedtwin {

/// In 0 .. vocab - 1. The mixing is SplitMix64's (Steele, Lea, Flood 2014).
inline std::int32_t PromptToken(std::uint32_t request, std::uint32_t position,
                                std::uint32_t vocab) {
  std::uint64_t word = (static_cast<std::uint64_t>(request) << 32 | position) + 1;
  word *= 0x9e3779b97f4a7c15ull;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return static_cast<std::int32_t>(((word ^ (word >> 31)) >> 32) * vocab >> 32);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_TOKEN_IDS_H_
