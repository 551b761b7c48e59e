// KvPool: the books of one device's KV blocks. Blocks are counted; with `identify` each also has a
// number and every request a block table, which prefix caches and real kernels need.
//
// Fence: blocks given back while steps are in flight may still be read by them. They leave their
// owner at once but are handed out again only when every step submitted before the release has
// ended; the same in every world. Transactions undo in reverse, which restores a stack of free
// blocks exactly.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_
#define SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace schedtwin {

class KvPool {
 public:
  KvPool(std::uint32_t total_blocks, std::uint32_t block_tokens, bool identify);

  std::uint32_t total_blocks() const { return total_; }
  std::uint32_t block_tokens() const { return block_tokens_; }
  std::uint32_t free_blocks() const { return free_; }
  std::uint32_t fenced_blocks() const { return fenced_; }
  bool identifies() const { return identify_; }

  /// Blocks that hold `tokens` tokens.
  std::uint32_t BlocksFor(std::uint32_t tokens) const {
    if (block_tokens_ == 0) return 0;
    return tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);  // any tokens: no wrap
  }

  /// Hands `blocks` blocks to a request; false, and nothing changes, if too few are free.
  bool Take(std::uint32_t request, std::uint32_t blocks);
  /// Takes blocks for owners that are told apart later (growth of a standing set, counted only).
  /// REQUIRES: !identifies() and enough are free.
  void TakeCounted(std::uint32_t blocks);
  /// A request gives back all `blocks` that it owns.
  void Give(std::uint32_t request, std::uint32_t blocks);
  /// Undo the latest Take or Give that has not been undone. REQUIRES: nothing ended in between.
  void UndoTake(std::uint32_t request, std::uint32_t blocks);
  void UndoGive(std::uint32_t request, std::uint32_t blocks);

  void OnStepSubmitted() { ++submitted_; }
  /// Steps end in the order they were submitted. True if that has freed fenced blocks.
  bool OnStepEnded() {
    ++ended_;
    return fenced_ > 0 && LiftFences();
  }

  /// The request's blocks in order of position; empty unless identified.
  std::span<const std::uint32_t> BlockTable(std::uint32_t request) const;

 private:
  bool LiftFences();

  struct Fence {
    std::uint64_t step;  ///< steps submitted at the release
    std::uint32_t blocks;
  };

  std::uint32_t total_;
  std::uint32_t block_tokens_;
  bool identify_;
  std::uint32_t free_;
  std::uint32_t fenced_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
  std::deque<Fence> fences_;
  std::vector<std::uint32_t> free_ids_;   ///< a stack
  std::deque<std::uint32_t> fenced_ids_;  ///< in the order of fences_
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> tables_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_
