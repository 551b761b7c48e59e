// DeviceMemory: the Memory facet of one device: reservations and releases as a policy makes them,
// inside transactions or not, on top of the block books (KvPool). Driven by the policy, and by
// DeviceDriver for what steps cause. One thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_
#define SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_

#include <cstdint>
#include <vector>

#include "policies/api/memory.h"
#include "policies/runtime/command_sender.h"
#include "policies/runtime/kv_pool.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/standing_set.h"

namespace schedtwin {

class DeviceMemory final : public Memory {
 public:
  /// All outlive this. `view` is kept up to date; with `identify` the device is told of blocks.
  DeviceMemory(RunCore* core, DeviceView* view, StandingSet* standing, CommandSender* sender,
               bool identify);

  bool Reserve(RequestId request, std::uint32_t tokens) override;
  bool Release(RequestId request) override;
  std::uint32_t StandingGrowth() const override { return standing_->Growth(); }
  MemoryMark Begin() override;
  void Rollback(MemoryMark mark) override;
  void Commit(MemoryMark mark) override;

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
  void OnStepSubmitted() { pool_.OnStepSubmitted(); }
  void OnStepEnded() {
    if (pool_.OnStepEnded()) Sync();
  }

 private:
  struct Undo {
    std::uint32_t request;
    std::uint32_t device;  ///< before
    std::uint32_t owned_blocks;
    std::uint32_t scheduled_tokens;
    std::uint32_t taken;  ///< blocks taken; 0 for a release
    std::uint8_t epoch;
    bool release;
  };

  void Sync() {
    view_->free_blocks = pool_.free_blocks();
    view_->fenced_blocks = pool_.fenced_blocks();
    view_->host_free_blocks = host_.free_blocks();
  }
  Refusal TryReserve(std::uint32_t id, std::uint32_t tokens);
  bool MayRelease(std::uint32_t id) const;
  void UndoTo(std::uint32_t entries);
  /// Tells the device the request's block table from block `from` on, where blocks are told apart.
  void Announce(std::uint32_t id, std::uint32_t from);
  void Log(DecisionCode code, std::uint64_t request, std::uint64_t tokens, Refusal answer);

  RunCore* core_;
  DeviceView* view_;
  StandingSet* standing_;
  CommandSender* sender_;
  KvPool pool_;
  KvPool host_;  ///< never fenced: no step reads it
  std::vector<Undo> undo_;
  std::uint32_t open_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_DEVICE_MEMORY_H_
