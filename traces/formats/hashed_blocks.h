// HashedBlocks: the text of a prompt from the numbers of its blocks, as Mooncake's and Bailian's
// traces give it: equal numbers are equal text up to the end of the block, in the whole file. The
// last block may be partial. One reader's; keeps its memory.
#ifndef SCHEDTWIN_TRACES_FORMATS_HASHED_BLOCKS_H_
#define SCHEDTWIN_TRACES_FORMATS_HASHED_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/api/source.h"

namespace schedtwin {

class HashedBlocks {
 public:
  explicit HashedBlocks(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  std::uint32_t block_tokens() const { return block_tokens_; }
  /// How many numbers a prompt has.
  std::uint64_t BlocksOf(std::uint32_t prompt_tokens) const {
    return (std::uint64_t{prompt_tokens} + block_tokens_ - 1) / block_tokens_;
  }
  /// REQUIRES: numbers.size() == BlocksOf(prompt_tokens), each below 2^64 - 1. Valid until the next
  /// call.
  std::span<const ContentSegment> TextOf(std::span<const std::uint64_t> numbers,
                                         std::uint32_t prompt_tokens) {
    text_.clear();
    for (const std::uint64_t number : numbers) {
      const std::uint32_t tokens = std::min(block_tokens_, prompt_tokens);
      text_.push_back({number + 1, tokens});  // 0 is text without a name
      prompt_tokens -= tokens;
    }
    return text_;
  }

 private:
  std::uint32_t block_tokens_;
  std::vector<ContentSegment> text_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_HASHED_BLOCKS_H_
