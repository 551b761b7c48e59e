// LiveMigration: moves decoding requests between instances while they run. A migration is begun for
// a pair of instances and does its work at the source's step boundaries: there it picks a request,
// copies the blocks it has filled while it decodes on, and at last takes it out of the batch,
// copies the rest, and gives it to the target. Whatever goes wrong leaves the request at the
// source. An instance has part in one migration at a time. Owned by the policy; one thread.
#ifndef SCHEDTWIN_POLICIES_LLUMNIX_LIVE_MIGRATION_H_
#define SCHEDTWIN_POLICIES_LLUMNIX_LIVE_MIGRATION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/api/policy.h"
#include "policies/llumnix/instance.h"

namespace schedtwin {

/// Who of those that decode with normal priority is moved; of equals the last admitted.
enum class MigrationChoice : std::uint8_t { kLastRunning, kShortestRunning, kLongestRunning };

struct StageRules {
  MigrationChoice choice;
  /// Copies while the request decodes on, at most.
  std::uint32_t live_stages;
  /// The last stage comes as soon as no more blocks are to be copied, and there is none if more
  /// are left after all live stages. 0: it comes after the live stages, however much is left.
  std::uint32_t last_stage_blocks;
};

class LiveMigration {
 public:
  /// `instances`, by device, outlive this.
  LiveMigration(const StageRules& rules, std::span<const std::unique_ptr<Instance>> instances);

  bool Busy(DeviceId device) const;
  /// REQUIRES: neither is busy. Does nothing if the target's batch is full.
  void Begin(Context& context, DeviceId from, DeviceId to);

  /// At a boundary of the device, before its next step is put together. False: a copy still reads
  /// what the device lost when it failed, and nothing can run before that has ended.
  bool OnBoundary(Context& context, DeviceId device);
  /// The request that is copied from the device has to give up its memory.
  void GiveWay(Context& context, DeviceId from);
  void OnOperationDone(Context& context, const OperationDone& done);
  /// The request is over.
  void OnEnd(Context& context, RequestId request);
  /// The device has failed, and its engine knows.
  void OnFailed(Context& context, DeviceId device);

 private:
  enum class Stage : std::uint8_t {
    kPaired,   ///< waits for a boundary of the source
    kCopying,  ///< a live stage
    kCopied,   ///< waits for the boundary after it
    kLast,     ///< the request is in neither batch
    kLost,     ///< the source has failed under a live stage
  };
  struct Migration {
    DeviceId from;
    DeviceId to;
    RequestId request;  ///< none before it is chosen, and when it is over or lost
    Stage stage = Stage::kPaired;
    std::uint32_t stages = 0;         ///< live ones begun
    std::uint32_t copied_blocks = 0;  ///< by them
    OpId operation;                   ///< in flight, or of a live stage that is done
  };

  RequestId Choose(const Context& context, const Instance& source) const;
  /// False if the migration is given up.
  bool NextStage(Context& context, Migration& migration);
  /// So many more blocks can be had at the target.
  bool HasRoom(const Context& context, const Migration& migration, std::uint32_t blocks) const;
  bool CopyLive(Context& context, Migration& migration);
  bool CopyRest(Context& context, Migration& migration, std::uint32_t blocks);
  void Arrive(Context& context, const Migration& migration, bool ok);
  /// Forgets the migration and what it has copied, and wakes both.
  void End(Context& context, Migration& migration);

  StageRules rules_;
  std::span<const std::unique_ptr<Instance>> instances_;
  std::vector<Migration> migrations_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_LLUMNIX_LIVE_MIGRATION_H_
