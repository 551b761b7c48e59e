#include "policies/llumnix/live_migration.h"

#include <algorithm>
#include <cstddef>

namespace schedtwin {

LiveMigration::LiveMigration(const StageRules& rules,
                             std::span<const std::unique_ptr<Instance>> instances)
    : rules_(rules), instances_(instances) {
  migrations_.reserve(instances.size());
}

bool LiveMigration::Busy(DeviceId device) const {
  return std::any_of(migrations_.begin(), migrations_.end(), [&](const Migration& migration) {
    return migration.from == device || migration.to == device;
  });
}

void LiveMigration::Begin(Context& context, DeviceId from, DeviceId to) {
  Instance& target = *instances_[to.value];
  if (!target.batcher.HasPlace(target.engine.running().size())) return;
  target.batcher.Keep();
  Migration& migration = migrations_.emplace_back();
  migration.from = from;
  migration.to = to;
  instances_[from.value]->Wake(context);
}

// ---- Stages ----

bool LiveMigration::OnBoundary(Context& context, DeviceId device) {
  for (Migration& migration : migrations_) {
    if (migration.from != device) continue;
    const bool due = migration.stage == Stage::kPaired || migration.stage == Stage::kCopied;
    if (due && !NextStage(context, migration)) {
      End(context, migration);
      return true;
    }
    return migration.stage != Stage::kLost;
  }
  return true;
}

RequestId LiveMigration::Choose(const Context& context, const Instance& source) const {
  RequestId chosen;
  std::uint32_t best_tokens = 0;
  const std::span<const RequestId> running = source.engine.running();
  for (auto at = running.rbegin(); at != running.rend(); ++at) {
    const RequestView view = context.request(*at);
    if (view.phase() != Phase::kDecode || HasHighPriority(view)) continue;
    if (rules_.choice == MigrationChoice::kLastRunning) return *at;
    const bool shorter = view.known_tokens() < best_tokens;
    const bool longer = view.known_tokens() > best_tokens;
    const bool better = rules_.choice == MigrationChoice::kShortestRunning ? shorter : longer;
    if (chosen.valid() && !better) continue;
    chosen = *at;
    best_tokens = view.known_tokens();
  }
  return chosen;
}

bool LiveMigration::NextStage(Context& context, Migration& migration) {
  if (migration.stage == Stage::kPaired) {
    migration.request = Choose(context, *instances_[migration.from.value]);
    if (!migration.request.valid()) return false;
  }
  const std::uint32_t block_tokens = context.device(migration.from).block_tokens;
  const std::uint32_t computed = context.request(migration.request).scheduled_tokens();
  const std::uint32_t left = BlocksFor(computed, block_tokens) - migration.copied_blocks;
  const bool may_copy_live = migration.stages < rules_.live_stages;
  if (rules_.last_stage_blocks > 0) {
    if (!may_copy_live) return false;
    return left <= rules_.last_stage_blocks ? CopyRest(context, migration, left)
                                            : CopyLive(context, migration);
  }
  // A stage copies full blocks: of a request that has none only the rest can be copied.
  const bool has_full = computed >= block_tokens;
  return may_copy_live && has_full ? CopyLive(context, migration)
                                   : CopyRest(context, migration, left);
}

bool LiveMigration::HasRoom(const Context& context, const Migration& migration,
                            std::uint32_t blocks) const {
  const DeviceView& target = context.device(migration.to);
  return target.state == DeviceState::kUp && blocks <= target.free_blocks;
}

bool LiveMigration::CopyLive(Context& context, Migration& migration) {
  const std::uint32_t full = context.request(migration.request).scheduled_tokens() /
                             context.device(migration.from).block_tokens;
  if (!HasRoom(context, migration, full - migration.copied_blocks)) return false;
  TransferSpec spec;
  spec.request = migration.request;
  spec.from = migration.from;
  spec.to = migration.to;
  spec.live = true;
  const Started started = context.actions().Transfer(spec);
  if (started.refusal != Refusal::kNone) return false;
  migration.operation = started.id;
  migration.stage = Stage::kCopying;
  ++migration.stages;
  migration.copied_blocks = full;
  instances_[migration.from.value]->engine.SetCopied(migration.request);
  return true;
}

bool LiveMigration::CopyRest(Context& context, Migration& migration, std::uint32_t blocks) {
  if (!HasRoom(context, migration, blocks)) return false;
  ContinuousEngine& engine = instances_[migration.from.value]->engine;
  engine.Take(context, migration.request);
  TransferSpec spec;
  spec.request = migration.request;
  spec.from = migration.from;
  spec.to = migration.to;
  const Started started = context.actions().Transfer(spec);
  if (started.refusal != Refusal::kNone) {
    engine.Give(context, migration.request);
    return false;
  }
  migration.operation = started.id;
  migration.stage = Stage::kLast;
  return true;
}

// ---- Ends ----

void LiveMigration::GiveWay(Context& context, DeviceId from) {
  for (const Migration& migration : migrations_) {
    if (migration.from == from) context.actions().CancelOperation(migration.operation);
  }
}

void LiveMigration::OnOperationDone(Context& context, const OperationDone& done) {
  for (Migration& migration : migrations_) {
    if (migration.operation != done.id) continue;
    instances_[migration.from.value]->engine.SetCopied({});
    if (migration.request.valid() && migration.stage == Stage::kCopying && done.ok) {
      migration.stage = Stage::kCopied;
      return instances_[migration.from.value]->Wake(context);
    }
    if (migration.request.valid() && migration.stage == Stage::kLast) {
      Arrive(context, migration, done.ok);
    }
    migration.operation = {};
    return End(context, migration);
  }
}

void LiveMigration::Arrive(Context& context, const Migration& migration, bool ok) {
  Instance& at = *instances_[ok ? migration.to.value : migration.from.value];
  if (context.request(migration.request).scheduled_tokens() == 0) {
    at.waiting.PutBack(context, migration.request);  // the source has failed with its KV
  } else {
    at.engine.Give(context, migration.request);
  }
}

void LiveMigration::OnEnd(Context& context, RequestId request) {
  for (Migration& migration : migrations_) {
    if (migration.request != request) continue;
    migration.request = {};
    if (migration.stage == Stage::kCopied) {
      migration.operation = {};  // what it had copied went with it
      End(context, migration);
    }
    return;
  }
}

void LiveMigration::OnFailed(Context& context, DeviceId device) {
  for (Migration& migration : migrations_) {
    if (migration.from != device && migration.to != device) continue;
    const bool copying = migration.stage != Stage::kPaired && migration.stage != Stage::kCopied;
    // Its operation, if there is one, comes to nothing and says so. Who is in no batch waits for
    // that; who was in the source's waits there again.
    if (migration.from == device && migration.stage == Stage::kCopying) {
      migration.request = {};
      migration.stage = Stage::kLost;
    }
    if (copying) return;
    migration.operation = {};
    return End(context, migration);
  }
}

void LiveMigration::End(Context& context, Migration& migration) {
  if (migration.operation.valid()) context.actions().CancelOperation(migration.operation);
  const DeviceId from = migration.from, to = migration.to;
  migrations_.erase(migrations_.begin() + (&migration - migrations_.data()));
  instances_[to.value]->batcher.GiveUp();
  instances_[from.value]->Wake(context);
  instances_[to.value]->Wake(context);
}

}  // namespace schedtwin
