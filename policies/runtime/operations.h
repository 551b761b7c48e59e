// Operations: what takes time and is no step: KV moved between tiers and devices, weights loaded
// and unloaded. Keeps the books of each from the asking to the end: blocks are taken where they go
// to at once, and given back where they come from when all of them have arrived (or at once, where
// the device does it before its next step). Until then nobody else gets either.
//
// A live stage copies the full blocks that are computed so far while the request goes on; the
// blocks stay taken at the other device, and the transfer that follows copies only the rest.
//
// Owned by World; policy thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_OPERATIONS_H_
#define SCHEDTWIN_POLICIES_RUNTIME_OPERATIONS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/api/actions.h"
#include "policies/api/policy.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world.h"

namespace schedtwin {

class DeviceDriver;

class Operations {
 public:
  /// All outlive this.
  Operations(RunCore* core, std::span<const std::unique_ptr<DeviceDriver>> drivers,
             std::span<DeviceView> views, std::span<const ModelInfo> models);

  // Decisions.
  Started Transfer(const TransferSpec& transfer);
  /// REQUIRES: the request is on a device of its own, waits, and no plan in flight names it.
  Refusal SwapOut(std::uint32_t request, bool blocking);
  Started Load(DeviceId device, ModelId model);
  Started Unload(DeviceId device, ModelId model);
  Refusal Cancel(OpId id);

  /// A device that is there from the start has loaded what fits, in the order of the run's list.
  void LoadAtStart(std::uint32_t device);
  /// One that is added has to load the same, but for what it has; Settle tells when it is ready.
  /// False: it has all.
  bool StartUp(std::uint32_t device);
  void ShutDown(std::uint32_t device);
  /// A device's answer; `due` is when it becomes known.
  void OnReply(const DeviceReply& reply, Time due);

  enum class Settled : std::uint8_t {
    kTold,    ///< the policy is to be told
    kSilent,  ///< it did not ask for it
    kReady,   ///< the last part of a device's start: it did not ask for it either
  };
  /// Books the end of an operation; `done` is for the policy.
  Settled Settle(OpId id, OperationDone* done);

  /// The request that an operation is at is over: what the operation still reads and writes is
  /// given back when it ends.
  void Abandon(std::uint32_t request);
  /// Of a device that fails: what it is doing, or was to do, comes to nothing, and what was being
  /// copied from it is lost.
  void OnDeviceFailed(std::uint32_t device);

  /// Operations that have not ended.
  std::uint32_t pending() const { return pending_; }
  /// That read or write this device.
  bool AtWork(std::uint32_t device) const;
  /// Blocks that operations and stages hold, besides those that requests own.
  std::uint32_t HeldBlocks(std::uint32_t device, Tier tier) const;
  std::uint64_t BytesOf(ModelId model) const;
  Link LinkOf(DeviceId from, DeviceId to) const;

 private:
  struct Operation {
    std::uint32_t generation = 0;
    bool used = false;
    bool answered = false;  ///< its end is in the event queue
    bool ended = false;     ///< a stage that stays: its blocks at the other end are kept
    bool asked_by_policy = true;
    bool blocking = false;
    bool orphan = false;  ///< its request is over, or has nothing more there
    bool lost = false;    ///< a device at one of its ends has failed
    bool lost_source = false;
    bool cancelled = false;
    bool keep = false;  ///< a swap-in whose blocks stay in the host tier, as a stage
    OperationKind kind = OperationKind::kTransfer;
    RequestId request;
    ModelId model;
    DeviceId from;
    DeviceId to;
    Tier from_tier = Tier::kDevice;
    Tier to_tier = Tier::kDevice;
    std::uint32_t blocks = 0;  ///< at the other end, those of earlier stages included
    std::uint32_t copied_blocks =
        0;  ///< of these, those that hold what they should when it is done
    std::uint32_t source_blocks = 0;  ///< of an orphan: still held where it reads
    std::uint64_t bytes = 0;
    ReplyStatus status = ReplyStatus::kOk;
    Time asked, start, end;
    bool measured = false;
    TimerId event;
  };

  OpId Add(const Operation& operation);
  Operation* Find(OpId id);
  Operation& Get(OpId id) { return *operations_[id.slot]; }
  void Remove(OpId id);
  Refusal CheckTransfer(const TransferSpec& transfer) const;
  Started MoveKv(const TransferSpec& transfer);
  Started MoveWeights(DeviceId from, DeviceId to, ModelId model, bool asked_by_policy);
  std::uint64_t ModelsThatFit(std::uint32_t device) const;
  /// Blocks of the request that can be copied: all that are computed, or for a stage the full ones.
  std::uint32_t BlocksToMove(std::uint32_t request, bool live) const;
  /// Gives up what a stage has brought over, if one has.
  void DropStage(std::uint32_t request);
  void SendCopy(OpId id, std::uint32_t first_block);
  void SettleKv(OpId id, bool ok);
  /// Makes of a swap-in that is done what a stage to the host tier would have left there.
  void KeepAsStage(OpId id, std::uint32_t host_blocks);
  void SettleWeights(Operation& operation, bool ok);
  void Record(OpId id, const Operation& operation, bool ok) const;

  RunCore* core_;
  std::span<const std::unique_ptr<DeviceDriver>> drivers_;
  std::span<DeviceView> views_;
  std::span<const ModelInfo> models_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<std::uint32_t> free_;
  std::uint32_t pending_ = 0;
  std::vector<std::uint64_t> loading_;        ///< by device: models on their way
  std::vector<std::uint64_t> weights_bytes_;  ///< by device: loaded, and on their way
  std::vector<std::uint32_t> starting_;       ///< by device: loads until it is ready
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_OPERATIONS_H_
