// KvPool: the books of one device's KV blocks. Blocks are counted; or each also has a number and
// every request a block table, which real kernels need; or blocks are shared and found by their
// text besides (prefix_cache.h).
//
// Fence: blocks given back while steps are in flight may still be read by them. They leave their
// owner at once but are handed out again only when every step submitted before the release has
// ended; the same in every world. Transactions undo in reverse, which restores a stack of free
// blocks exactly; a prefix cache keeps a log of them. One thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_
#define SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/api/device.h"
#include "policies/runtime/prefix_cache.h"

namespace schedtwin {

enum class KvBooks : std::uint8_t { kCounted, kIdentified, kCached };

class KvPool {
 public:
  KvPool(std::uint32_t total_blocks, std::uint32_t block_tokens, KvBooks books);

  std::uint32_t total_blocks() const { return total_; }
  std::uint32_t block_tokens() const { return block_tokens_; }
  std::uint32_t free_blocks() const { return free_; }
  std::uint32_t fenced_blocks() const { return fenced_; }
  bool identifies() const { return identify_; }
  /// Null unless blocks are found by their text.
  const PrefixCache* cache() const { return cache_.get(); }
  std::uint32_t cached_blocks() const { return cache_ == nullptr ? 0 : cache_->cached_blocks(); }

  /// Blocks that hold `tokens` tokens.
  std::uint32_t BlocksFor(std::uint32_t tokens) const {
    return schedtwin::BlocksFor(tokens, block_tokens_);
  }

  /// Hands `blocks` blocks to a request; false, and nothing changes, if too few are free.
  bool Take(std::uint32_t request, std::uint32_t blocks);
  /// Takes blocks for owners that are told apart later (growth of a standing set, counted only).
  /// REQUIRES: !identifies() and enough are free.
  void TakeCounted(std::uint32_t blocks);
  /// A request gives back all `blocks` that it owns, tail first. Of a cached pool, the first of
  /// them get these names before, if they have none.
  void Give(std::uint32_t request, std::uint32_t blocks, std::span<const std::uint64_t> names = {});
  /// Undo the latest Take or Give that has not been undone. REQUIRES: nothing ended in between; a
  /// cached pool was recording.
  void UndoTake(std::uint32_t request, std::uint32_t blocks);
  void UndoGive(std::uint32_t request, std::uint32_t blocks);

  // Of a cached pool only.
  /// A transaction begins, or ends.
  void Record(bool on);
  /// Makes the blocks, which PrefixCache::Find has found, the first of a request that owns none.
  void Adopt(std::uint32_t request, std::span<const std::uint32_t> blocks);
  void UndoAdopt(std::uint32_t request);
  /// Names the first blocks of a request: those that have no name yet.
  void Name(std::uint32_t request, std::span<const std::uint64_t> names);
  // As in PrefixCache.
  void Evict(std::uint32_t blocks);
  bool Pin(std::span<const std::uint64_t> hashes);
  bool Unpin(std::span<const std::uint64_t> hashes);
  void Forget();
  void ResetCounts() { cache_->ResetCounts(); }

  void OnStepSubmitted() { ++submitted_; }
  /// Steps end in the order they were submitted. True if that has freed fenced blocks.
  bool OnStepEnded() {
    ++ended_;
    return fenced_ > 0 && LiftFences();
  }
  /// Aborts with the place if the books disagree.
  void CheckInvariants() const;

  /// The request's blocks in order of position; empty unless identified.
  std::span<const std::uint32_t> BlockTable(std::uint32_t request) const;

 private:
  bool LiftFences();
  /// After whatever may have changed what the cache has free.
  void Mirror() {
    free_ = cache_->free_blocks();
    fenced_ = cache_->fenced_blocks();
  }
  /// Undoes the latest operation; blocks that it had given back are appended to `table`.
  void UndoCached(std::vector<std::uint32_t>* table);
  void BeginOperation() {
    if (recording_) marks_.push_back(cache_->mark());
  }

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
  std::unique_ptr<PrefixCache> cache_;
  bool recording_ = false;
  std::vector<std::uint32_t> marks_;  ///< of the cache's log: where each operation begins
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_KV_POOL_H_
