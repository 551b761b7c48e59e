// PrefixCache: the blocks of a pool that are found by their text, as vLLM's v1 block pool keeps
// them. A block has owners (counted: it may be shared), and a name once it is full and computed:
// the chained hash of the text before and in it (request_text.h). What nobody owns is free, least
// recently used first, and keeps its name until it is handed out again; several blocks may have the
// same name, and the one that got it first is found.
//
// A block that is given back while steps are in flight is fenced: it may be shared again at once,
// since sharing only reads, but is handed out for writing when those steps have ended. Pinned
// blocks are never handed out.
//
// Owned by KvPool, which has the block tables. One thread. Deterministic: nothing iterates over the
// map of names. Undo restores all books, the order of the free blocks and of equal names included.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_PREFIX_CACHE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_PREFIX_CACHE_H_

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace schedtwin {

class PrefixCache {
 public:
  explicit PrefixCache(std::uint32_t blocks);

  std::uint32_t free_blocks() const { return free_; }
  std::uint32_t fenced_blocks() const { return fenced_; }
  /// Of the free ones: those with a name.
  std::uint32_t cached_blocks() const { return cached_; }
  bool named(std::uint32_t block) const { return blocks_[block].named; }

  // Owners.
  /// The least recently used free block, for writing; it loses its name. REQUIRES: one is free.
  std::uint32_t Take();
  /// One owner more of a block with a name.
  void Share(std::uint32_t block);
  /// One owner less. The last one leaves it fenced until step number `fence` has ended, or free if
  /// that is 0.
  void Give(std::uint32_t block, std::uint64_t fence);
  /// Step number `ended` was the last to end. True if that has freed blocks.
  bool LiftFences(std::uint64_t ended);

  // Names.
  /// REQUIRES: it has an owner and no name.
  void Name(std::uint32_t block, std::uint64_t hash);
  struct Prefix {
    std::uint32_t blocks = 0;
    std::uint32_t free_blocks = 0;  ///< of them
  };
  /// How many of the first hashes are names of blocks, and which these are, if `found` is given.
  /// The `spoken_for` least recently used free blocks count as gone.
  Prefix Find(std::span<const std::uint64_t> hashes, std::uint32_t spoken_for,
              std::vector<std::uint32_t>* found) const;

  // Decisions.
  /// Takes the names of the `blocks` least recently used cached blocks. REQUIRES: so many there
  /// are.
  void Evict(std::uint32_t blocks);
  /// Pins what is found of the prefix, once more; false if that is nothing.
  bool Pin(std::span<const std::uint64_t> hashes);
  /// Takes back one pinning of a prefix of this text, the longest one; false if there is none.
  bool Unpin(std::span<const std::uint64_t> hashes);
  /// What the blocks hold is gone: no block has a name or a pin any more.
  void Forget();

  // Transactions: while recording, what owners and names do can be undone, backwards.
  void Record(bool on);
  std::uint32_t mark() const { return static_cast<std::uint32_t>(undo_.size()); }
  /// Undoes everything since the mark; calls given(block) for each Give that it undoes.
  template <class Given>
  void UndoTo(std::uint32_t mark, Given given) {
    while (undo_.size() > mark) {
      const Undo undo = undo_.back();
      undo_.pop_back();
      UndoOne(undo);
      if (undo.kind == UndoKind::kGive) given(undo.block);
    }
  }

  // Blocks that got a name, and that lost it, since the last reset.
  std::uint32_t stored() const { return stored_; }
  std::uint32_t evicted() const { return evicted_; }
  void ResetCounts() { stored_ = evicted_ = 0; }

  /// `owners`: by block, how many tables name it. Aborts if the books disagree.
  void CheckInvariants(std::span<const std::uint32_t> owners) const;

 private:
  enum class Place : std::uint8_t {
    kOwned,
    kFree,    ///< in the list of free blocks
    kFenced,  ///< in the queue of fences
    kPinned,  ///< nobody owns it, but it is pinned
  };
  struct Block {
    std::uint64_t hash = 0;
    std::uint64_t fence = 0;  ///< serial number of its fence
    std::uint32_t owners = 0;
    std::uint32_t pins = 0;
    std::uint32_t prev = 0, next = 0;                    ///< in the list of free blocks
    std::uint32_t same_prev = kNone, same_next = kNone;  ///< among those of the same name
    Place place = Place::kFree;
    bool named = false;
  };
  struct Fence {
    std::uint64_t step;
    std::uint64_t serial;
    std::uint32_t block;
  };
  struct SameName {
    std::uint32_t first;
    std::uint32_t last;
  };
  enum class UndoKind : std::uint8_t { kTake, kShare, kGive, kName, kUnname };
  struct Undo {
    UndoKind kind;
    Place place;  ///< kShare: before
    std::uint32_t block;
    std::uint32_t prev;  ///< kShare: in the list of free blocks; kUnname: among the same names
    std::uint64_t word;  ///< kShare: the serial number of its fence; kUnname: the name
  };
  static constexpr std::uint32_t kNone = 0xffffffffu;

  std::uint32_t ends() const { return static_cast<std::uint32_t>(blocks_.size()) - 1; }
  void Link(std::uint32_t block, std::uint32_t prev);
  void Append(std::uint32_t block) { Link(block, blocks_[ends()].prev); }
  void Unlink(std::uint32_t block);
  void LinkName(std::uint32_t block, std::uint32_t same_prev);
  void UnlinkName(std::uint32_t block);
  void Unname(std::uint32_t block);
  void Rest(std::uint32_t block);
  void UndoOne(const Undo& undo);
  void Keep(const Undo& undo) {
    if (recording_) undo_.push_back(undo);
  }
  void CheckFreeList() const;
  void CheckNames() const;

  std::vector<Block> blocks_;  ///< one more than there are: both ends of the list of free blocks
  std::unordered_map<std::uint64_t, SameName> names_;
  std::deque<Fence> fences_;  ///< those of blocks that have been shared since count for nothing
  std::uint64_t fence_serial_ = 0;
  std::uint32_t free_ = 0;
  std::uint32_t fenced_ = 0;
  std::uint32_t cached_ = 0;
  std::uint32_t stored_ = 0;
  std::uint32_t evicted_ = 0;
  /// Blocks of each pinning, by the name of the last of them.
  std::unordered_map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> pinnings_;
  bool recording_ = false;
  bool forgot_ = false;  ///< once: blocks may still be shared that have no name any more
  std::vector<Undo> undo_;
  // Scratch of Find: the blocks that were spoken for in query number `query_`.
  mutable std::vector<std::uint64_t> spoken_for_;
  mutable std::uint64_t query_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_PREFIX_CACHE_H_
