// DeviceMemory: the Memory and Cache facets of one device: reservations, adoptions and releases as
// a policy makes them, inside transactions or not, on top of the block books (KvPool). Driven by
// the policy, and by DeviceDriver for what steps cause. One thread.
//
// Blocks get their names at the end of the step that computed the last token of a full block of the
// prompt; blocks with output in them when the request gives them back, if its output has a name.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_
#define SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "policies/api/cache.h"
#include "policies/api/memory.h"
#include "policies/api/policy.h"
#include "policies/runtime/command_sender.h"
#include "policies/runtime/kv_pool.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/standing_set.h"

namespace schedtwin {

class DeviceMemory final : public Memory, public Cache {
 public:
  /// All outlive this. `view` is kept up to date; with `identify` the device is told of blocks, and
  /// with RunCore::prefix_cache besides they are found by their text.
  DeviceMemory(RunCore* core, DeviceView* view, StandingSet* standing, CommandSender* sender,
               bool identify);

  bool Reserve(RequestId request, std::uint32_t tokens) override;
  bool Release(RequestId request) override;
  std::uint32_t StandingGrowth() const override { return standing_->Growth(); }
  MemoryMark Begin() override;
  void Rollback(MemoryMark mark) override;
  void Commit(MemoryMark mark) override;

  std::uint32_t HitTokens(RequestId request) const override;
  std::uint32_t HitFreeBlocks(RequestId request) const override;
  std::span<const std::uint64_t> PromptBlocks(RequestId request) const override;
  std::uint32_t Adopt(RequestId request, std::uint32_t max_tokens) override;

  // Decisions; the caller logs the answer.
  Refusal Pin(RequestId request, bool pinned);
  Refusal Evict(std::uint32_t blocks);

  /// Of any device: a request that is moved while the books of one are open could not be put back.
  bool in_transaction() const { return core_->open_transactions > 0; }
  /// Rolls back what a callback left open.
  void CloseTransactions();

  const KvPool& pool() const { return pool_; }
  /// Tokens that the request's blocks hold; all that can be, where the model keeps no KV.
  std::uint32_t Capacity(const RequestHot& hot) const;
  /// Takes what the next step of the standing set needs: `blocks`. REQUIRES: they fit.
  void GrowStanding(std::uint32_t blocks);
  /// One more block for a listed request. REQUIRES: it fits.
  void GrowListed(std::uint32_t id);
  /// Gives back all of a request's blocks, wherever they lie, and forgets what was computed of it.
  void Drop(std::uint32_t id);
  // What operations take and give on a request's behalf, in either tier; the request's own books
  // are theirs to keep. Take is false, and nothing changes, if too few are free.
  bool TakeFor(std::uint32_t id, Tier tier, std::uint32_t blocks);
  void GiveFor(std::uint32_t id, Tier tier, std::uint32_t blocks);
  const KvPool& pool(Tier tier) const { return tier == Tier::kDevice ? pool_ : host_; }
  /// Tells the device the request's whole block table.
  void AnnounceAll(std::uint32_t id) { Announce(id, 0); }
  bool caches() const { return pool_.cache() != nullptr; }
  /// A step that has ended brought what is computed of a request that is still here to
  /// `computed_tokens`. REQUIRES: caches().
  void OnComputed(std::uint32_t id, std::uint32_t computed_tokens);
  /// The device has lost what its blocks hold.
  void ForgetCache();
  /// What OnCacheChange is to tell; the next change raises the event again.
  CacheChange TakeCacheChange();
  void OnStepSubmitted() { pool_.OnStepSubmitted(); }
  void OnStepEnded() {
    if (pool_.OnStepEnded()) Sync();
  }

 private:
  enum class Undoing : std::uint8_t { kReserve, kRelease, kAdopt };
  struct Undo {
    std::uint32_t request;
    std::uint32_t device;  ///< before
    std::uint32_t owned_blocks;
    std::uint32_t scheduled_tokens;
    std::uint32_t taken;  ///< kReserve: blocks
    std::uint32_t cached_tokens;
    std::uint32_t recomputed_tokens;
    std::uint8_t epoch;
    Undoing what;
  };

  void Sync() {
    view_->free_blocks = pool_.free_blocks();
    view_->fenced_blocks = pool_.fenced_blocks();
    view_->host_free_blocks = host_.free_blocks();
    if (caches()) SyncCache();
  }
  void SyncCache();
  void Remember(Undoing what, std::uint32_t id, std::uint32_t taken);
  /// What is computed of a request for certain, whatever is in flight.
  std::uint32_t ComputedTokens(std::uint32_t id) const;
  /// `settled`: no step in flight has anything of it; else a token of one that it was taken out of
  /// may still come.
  void SetComputed(std::uint32_t id, std::uint32_t tokens, bool settled);
  /// Names of the full blocks among the first `tokens` tokens.
  std::span<const std::uint64_t> HashesOf(std::uint32_t id, std::uint32_t tokens) const;
  /// What is found of at most so many tokens, and less than all that are known.
  PrefixCache::Prefix FindHit(std::uint32_t id, std::uint32_t max_tokens,
                              std::vector<std::uint32_t>* found) const;
  std::uint32_t TryAdopt(std::uint32_t id, std::uint32_t max_tokens);
  void Close(std::uint32_t transactions);
  /// Why the request cannot have blocks of this device.
  Refusal WhyNotHere(const RequestHot& hot) const;
  Refusal TryReserve(std::uint32_t id, std::uint32_t tokens);
  bool MayRelease(std::uint32_t id) const;
  void UndoTo(std::uint32_t entries);
  /// Tells the device the request's block table from block `from` on, where blocks are told apart,
  /// and its text before the first.
  void Announce(std::uint32_t id, std::uint32_t from);
  void AnnounceText(std::uint32_t id);
  void Log(DecisionCode code, std::uint64_t request, std::uint64_t tokens, Refusal answer);

  static constexpr std::uint32_t kAll = 0xffffffffu;

  RunCore* core_;
  DeviceView* view_;
  StandingSet* standing_;
  CommandSender* sender_;
  KvPool pool_;
  KvPool host_;  ///< never fenced: no step reads it
  std::vector<Undo> undo_;
  std::uint32_t open_ = 0;
  bool change_raised_ = false;        ///< an OnCacheChange is on its way
  std::vector<std::uint32_t> found_;  ///< scratch of Adopt
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_
