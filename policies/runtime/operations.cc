#include "policies/runtime/operations.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"

namespace schedtwin {
namespace {

std::uint64_t BitOf(ModelId model) { return std::uint64_t{1} << model.value; }

}  // namespace

Operations::Operations(RunCore* core, std::span<const std::unique_ptr<DeviceDriver>> drivers,
                       std::span<DeviceView> views, std::span<const ModelInfo> models)
    : core_(core),
      drivers_(drivers),
      views_(views),
      models_(models),
      loading_(drivers.size(), 0),
      weights_bytes_(drivers.size(), 0),
      starting_(drivers.size(), 0) {}

// ---- The table ----

OpId Operations::Add(const Operation& operation) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.push_back(std::make_unique<Operation>());
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Operation& record = *operations_[slot];
  const std::uint32_t generation = record.generation;
  record = operation;
  record.generation = generation;
  record.used = true;
  record.asked = core_->now;
  ++pending_;
  return {slot, generation};
}

Operations::Operation* Operations::Find(OpId id) {
  if (id.slot >= operations_.size()) return nullptr;
  Operation& operation = *operations_[id.slot];
  return operation.used && operation.generation == id.generation ? &operation : nullptr;
}

void Operations::Remove(OpId id) {
  Operation& operation = Get(id);
  operation.used = false;
  ++operation.generation;
  free_.push_back(id.slot);
}

bool Operations::AtWork(std::uint32_t device) const {
  return std::any_of(operations_.begin(), operations_.end(), [&](const auto& operation) {
    return operation->used && !operation->ended &&
           (operation->from.value == device || operation->to.value == device);
  });
}

std::uint32_t Operations::HeldBlocks(std::uint32_t device, Tier tier) const {
  std::uint32_t held = 0;
  for (const auto& operation : operations_) {
    if (!operation->used || !operation->request.valid()) continue;
    if (operation->to.value == device && operation->to_tier == tier) held += operation->blocks;
    if (operation->from.value == device && operation->from_tier == tier) {
      held += operation->source_blocks;
    }
  }
  return held;
}

// ---- KV ----

Link Operations::LinkOf(DeviceId from, DeviceId to) const {
  const DeviceInfo& info = drivers_[to.value]->info();
  return from == to ? info.host_link : info.peer_link;
}

Started Operations::Transfer(const TransferSpec& transfer) {
  if (transfer.from.value >= views_.size() || transfer.to.value >= views_.size()) {
    return {{}, Refusal::kUnknownDevice};
  }
  if (!transfer.request.valid() && transfer.weights.valid()) {
    if (transfer.from == transfer.to || transfer.live) return {{}, Refusal::kBadArgument};
    return MoveWeights(transfer.from, transfer.to, transfer.weights, /*asked_by_policy=*/true);
  }
  if (const Refusal why = CheckTransfer(transfer); why != Refusal::kNone) return {{}, why};
  return MoveKv(transfer);
}

Refusal Operations::CheckTransfer(const TransferSpec& transfer) const {
  const std::uint32_t id = transfer.request.value;
  if (const Refusal why = core_->requests.WhyNot(id); why != Refusal::kNone) return why;
  const RequestHot& hot = core_->requests.hot(id);
  if (core_->requests.fate(id).operation.valid()) return Refusal::kMoving;
  if (core_->open_transactions > 0) return Refusal::kBadArgument;
  if (hot.device != transfer.from.value) return Refusal::kWrongDevice;
  if (hot.tier != transfer.from_tier) {
    return hot.tier == Tier::kHost ? Refusal::kOnHost : Refusal::kWrongDevice;
  }
  if (transfer.from == transfer.to && transfer.from_tier == transfer.to_tier) {
    return Refusal::kBadArgument;
  }
  const DeviceView& to = views_[transfer.to.value];
  const DeviceState state = to.state;
  const bool stays = transfer.from == transfer.to && state == DeviceState::kDraining;
  if (state != DeviceState::kUp && !stays) return Refusal::kDeviceDown;
  if (hot.in_flight > 0) return Refusal::kDuplicateEntry;
  if (hot.state == RequestState::kStanding && !transfer.live) return Refusal::kDuplicateEntry;
  const bool swaps = transfer.from == transfer.to;
  const bool staged =
      transfer.from_tier == Tier::kDevice && (swaps || transfer.to_tier == Tier::kDevice);
  if (transfer.live && (!staged || transfer.blocking)) return Refusal::kBadArgument;
  const bool swaps_in = swaps && transfer.from_tier == Tier::kHost;
  if (transfer.keep && (!swaps_in || transfer.blocking)) return Refusal::kBadArgument;
  if (to.block_tokens != views_[transfer.from.value].block_tokens) return Refusal::kBadArgument;
  if (BlocksToMove(id, transfer.live) == 0) return Refusal::kBadArgument;
  return LinkOf(transfer.from, transfer.to).exists() ? Refusal::kNone : Refusal::kNoLink;
}

std::uint32_t Operations::BlocksToMove(std::uint32_t request, bool live) const {
  const RequestHot& hot = core_->requests.hot(request);
  const DeviceView& from = views_[hot.device];
  if (from.block_tokens == 0) return 0;
  std::uint32_t computed = hot.scheduled_tokens;
  if (!live) return drivers_[hot.device]->memory().pool().BlocksFor(computed);
  if (hot.state == RequestState::kStanding) {
    const StandingClock& clock = drivers_[hot.device]->standing().clock();
    if (clock.done > hot.joined_step) computed += clock.done - hot.joined_step;
  }
  return computed / from.block_tokens;
}

void Operations::DropStage(std::uint32_t request) {
  RequestFate& fate = core_->requests.fate(request);
  if (const Operation* stage = Find(fate.staged); stage != nullptr) {
    drivers_[stage->to.value]->memory().GiveFor(request, stage->to_tier, stage->blocks);
    Remove(fate.staged);
  }
  fate.staged = OpId{};
}

Started Operations::MoveKv(const TransferSpec& transfer) {
  const std::uint32_t id = transfer.request.value;
  RequestHot& hot = core_->requests.hot(id);
  const bool swaps = transfer.from == transfer.to;
  const std::uint32_t blocks = BlocksToMove(id, transfer.live);
  RequestFate& fate = core_->requests.fate(id);
  const Operation* stage = Find(fate.staged);
  const bool builds_on =
      stage != nullptr && stage->to == transfer.to && stage->to_tier == transfer.to_tier;
  const std::uint32_t there = builds_on ? stage->copied_blocks : 0;
  const std::uint32_t held = builds_on ? stage->blocks : 0;
  DeviceMemory& to = drivers_[transfer.to.value]->memory();
  if (blocks > held && !to.TakeFor(id, transfer.to_tier, blocks - held)) {
    return {{}, Refusal::kNoMemory};
  }
  if (builds_on) {
    Remove(fate.staged);
    fate.staged = OpId{};
  } else {
    DropStage(id);
  }
  Operation operation;
  operation.kind = transfer.live                     ? OperationKind::kStage
                   : !swaps                          ? OperationKind::kTransfer
                   : transfer.to_tier == Tier::kHost ? OperationKind::kSwapOut
                                                     : OperationKind::kSwapIn;
  operation.request = transfer.request;
  operation.from = transfer.from;
  operation.to = transfer.to;
  operation.from_tier = transfer.from_tier;
  operation.to_tier = transfer.to_tier;
  operation.blocking = transfer.blocking;
  operation.keep = transfer.keep;
  operation.blocks = std::max(blocks, held);
  operation.copied_blocks = blocks;
  operation.bytes = (blocks - there) * drivers_[transfer.to.value]->info().block_bytes;
  const OpId op = Add(operation);
  fate.operation = op;
  SendCopy(op, there);
  if (transfer.live) return {op, Refusal::kNone};
  hot.state = RequestState::kMoving;
  if (transfer.blocking && operation.kind == OperationKind::kSwapOut) {
    // What the device does next, it does after the copy.
    drivers_[transfer.from.value]->memory().GiveFor(id, transfer.from_tier, hot.owned_blocks);
    hot.owned_blocks = 0;
  }
  return {op, Refusal::kNone};
}

void Operations::SendCopy(OpId id, std::uint32_t first_block) {
  const Operation& operation = Get(id);
  DeviceDriver& to = *drivers_[operation.to.value];
  const KvPool& from_pool = drivers_[operation.from.value]->memory().pool(operation.from_tier);
  const KvPool& to_pool = to.memory().pool(operation.to_tier);
  const std::uint32_t request = operation.request.value;
  if (to_pool.identifies()) {
    const std::span<const std::uint32_t> from_table = from_pool.BlockTable(request);
    const std::span<const std::uint32_t> to_table = to_pool.BlockTable(request);
    for (std::uint32_t i = first_block; i < operation.copied_blocks; ++i) {
      const std::uint32_t index = i - first_block;
      to.sender().Send(
          {.kind = CommandKind::kFrom, .tokens = from_table[i], .context_tokens = index});
      to.sender().Send({.kind = CommandKind::kTo, .tokens = to_table[i], .context_tokens = index});
    }
  }
  to.sender().Send({.kind = CommandKind::kCopy,
                    .blocking = operation.blocking,
                    .request = request,
                    .tokens = operation.copied_blocks - first_block,
                    .context_tokens = operation.from.value,
                    .plan = {id.slot, id.generation},
                    .step = static_cast<std::uint32_t>(operation.to_tier),
                    .entries = static_cast<std::uint32_t>(operation.from_tier)});
  to.sender().Notify();
}

Refusal Operations::SwapOut(std::uint32_t request, bool blocking) {
  const DeviceId device = {core_->requests.hot(request).device};
  TransferSpec swap;
  swap.request = {request};
  swap.from = swap.to = device;
  swap.to_tier = Tier::kHost;
  swap.blocking = blocking;
  if (const Refusal why = CheckTransfer(swap); why != Refusal::kNone) return why;
  return MoveKv(swap).refusal;
}

// ---- Weights ----

std::uint64_t Operations::BytesOf(ModelId model) const {
  return model.value < models_.size() ? models_[model.value].weights_bytes : 0;
}

Started Operations::Load(DeviceId device, ModelId model) {
  if (device.value >= views_.size()) return {{}, Refusal::kUnknownDevice};
  return MoveWeights(DeviceId{}, device, model, /*asked_by_policy=*/true);
}

Started Operations::MoveWeights(DeviceId from, DeviceId to, ModelId model, bool asked_by_policy) {
  const DeviceView& view = views_[to.value];
  const DeviceInfo& info = drivers_[to.value]->info();
  const std::uint64_t bytes = BytesOf(model);
  if (asked_by_policy) {
    if (model.value >= core_->models) return {{}, Refusal::kBadArgument};
    if (view.state != DeviceState::kUp) return {{}, Refusal::kDeviceDown};
    if (view.loaded(model) || (loading_[to.value] & BitOf(model)) != 0) {
      return {{}, Refusal::kBadArgument};
    }
    if (from.valid() && !views_[from.value].loaded(model)) return {{}, Refusal::kNotLoaded};
    if (!(from.valid() ? info.peer_link : info.load_link).exists()) return {{}, Refusal::kNoLink};
    if (info.weights_bytes > 0 && weights_bytes_[to.value] + bytes > info.weights_bytes) {
      return {{}, Refusal::kNoMemory};
    }
  }
  weights_bytes_[to.value] += bytes;
  loading_[to.value] |= BitOf(model);
  Operation operation;
  operation.kind = OperationKind::kLoad;
  operation.asked_by_policy = asked_by_policy;
  operation.model = model;
  operation.from = from;
  operation.to = to;
  operation.bytes = bytes;
  const OpId op = Add(operation);
  drivers_[to.value]->sender().Send({.kind = CommandKind::kLoad,
                                     .request = model.value,
                                     .tokens = static_cast<std::uint32_t>(bytes >> 32),
                                     .context_tokens = static_cast<std::uint32_t>(bytes),
                                     .plan = {op.slot, op.generation},
                                     .entries = from.valid() ? from.value + 1 : 0});
  drivers_[to.value]->sender().Notify();
  return {op, Refusal::kNone};
}

Started Operations::Unload(DeviceId device, ModelId model) {
  if (device.value >= views_.size()) return {{}, Refusal::kUnknownDevice};
  DeviceView& view = views_[device.value];
  if (!view.loaded(model)) return {{}, Refusal::kNotLoaded};
  if (!view.up()) return {{}, Refusal::kDeviceDown};
  bool used = drivers_[device.value]->Uses(model);
  core_->requests.ForEachLive([&](std::uint32_t id) {  // its KV would be lost
    const RequestHot& hot = core_->requests.hot(id);
    used = used || (hot.device == device.value && HeldByDevice(hot) &&
                    core_->requests.cold(id).model == model);
  });
  if (used) return {{}, Refusal::kModelInUse};
  view.loaded_models &= ~BitOf(model);
  Operation operation;
  operation.kind = OperationKind::kUnload;
  operation.model = model;
  operation.to = device;
  operation.bytes = BytesOf(model);
  const OpId op = Add(operation);
  drivers_[device.value]->sender().Send(
      {.kind = CommandKind::kUnload, .request = model.value, .plan = {op.slot, op.generation}});
  drivers_[device.value]->sender().Notify();
  return {op, Refusal::kNone};
}

std::uint64_t Operations::ModelsThatFit(std::uint32_t device) const {
  const std::uint64_t room = drivers_[device]->info().weights_bytes;
  std::uint64_t models = 0, bytes = 0;
  for (std::uint32_t model = 0; model < core_->models; ++model) {
    if (room > 0 && bytes + BytesOf({model}) > room) continue;
    bytes += BytesOf({model});
    models |= BitOf({model});
  }
  return models;
}

void Operations::LoadAtStart(std::uint32_t device) {
  views_[device].loaded_models = ModelsThatFit(device);
  for (std::uint32_t model = 0; model < core_->models; ++model) {
    if (views_[device].loaded({model})) weights_bytes_[device] += BytesOf({model});
  }
}

bool Operations::StartUp(std::uint32_t device) {
  const std::uint64_t models = ModelsThatFit(device) & ~views_[device].loaded_models;
  for (std::uint32_t model = 0; model < core_->models; ++model) {
    if ((models >> model & 1) == 0) continue;
    ++starting_[device];
    MoveWeights(DeviceId{}, {device}, {model}, /*asked_by_policy=*/false);
  }
  return models != 0;
}

void Operations::ShutDown(std::uint32_t device) {
  for (std::uint32_t model = 0; model < core_->models; ++model) {
    if (!views_[device].loaded({model})) continue;
    const Started unload = Unload({device}, {model});
    SCHEDTWIN_CHECK(unload.refusal == Refusal::kNone);
    Get(unload.id).asked_by_policy = false;
  }
}

// ---- Ends ----

Refusal Operations::Cancel(OpId id) {
  Operation* operation = Find(id);
  if (operation == nullptr || !operation->asked_by_policy) return Refusal::kUnknownOperation;
  if (operation->ended) {
    if (core_->open_transactions > 0) return Refusal::kBadArgument;
    DropStage(operation->request.value);
    return Refusal::kNone;
  }
  const bool given = operation->blocking && operation->kind == OperationKind::kSwapOut;
  if (given) return Refusal::kAlreadyStarted;
  if (operation->cancelled) return Refusal::kNone;
  operation->cancelled = true;
  DeviceDriver& to = *drivers_[operation->to.value];
  to.sender().Send({.kind = CommandKind::kCancel, .plan = {id.slot, id.generation}});
  to.sender().Notify();
  return Refusal::kNone;
}

void Operations::Abandon(std::uint32_t request) {
  RequestFate& fate = core_->requests.fate(request);
  RequestHot& hot = core_->requests.hot(request);
  DropStage(request);
  if (Operation* operation = Find(fate.operation); operation != nullptr) {
    operation->orphan = true;
    ++hot.left_behind;
    operation->source_blocks = hot.owned_blocks;
    hot.owned_blocks = 0;
    if (hot.state == RequestState::kMoving) hot.state = RequestState::kWaiting;
  }
  fate.operation = OpId{};
}

void Operations::OnDeviceFailed(std::uint32_t device) {
  for (std::uint32_t slot = 0; slot < operations_.size(); ++slot) {
    Operation& operation = *operations_[slot];
    if (!operation.used) continue;
    if (operation.from.value != device && operation.to.value != device) continue;
    if (operation.ended) {
      DropStage(operation.request.value);
      continue;
    }
    operation.lost = true;
    operation.lost_source |= operation.from.value == device;
    if (operation.cancelled) continue;
    operation.cancelled = true;
    DeviceDriver& to = *drivers_[operation.to.value];
    to.sender().Send({.kind = CommandKind::kCancel, .plan = {slot, operation.generation}});
    to.sender().Notify();
  }
}

void Operations::OnReply(const DeviceReply& reply, Time due) {
  const OpId id = {reply.plan.slot, reply.plan.generation};
  Operation* operation = Find(id);
  if (operation == nullptr) return;  // told already: it was faster than its cancellation
  if (operation->answered) core_->events.Cancel(operation->event);
  operation->answered = true;
  operation->status = reply.status;
  operation->start = reply.start;
  operation->end = reply.end;
  operation->measured = reply.compute_ns >= 0;
  operation->event = core_->Push(due, EventClass::kDone, operation->to.value,
                                 {EventKind::kOperation, operation->to.value, id.word()});
}

Operations::Settled Operations::Settle(OpId id, OperationDone* done) {
  Operation& operation = Get(id);
  --pending_;
  core_->CountIdleStep();
  if (operation.measured || operation.end != core_->now) {
    const bool aborted = operation.status == ReplyStatus::kAborted;
    core_->journal.Event(core_->now,
                         aborted ? EventCode::kOperationAborted : EventCode::kOperationTimes,
                         id.word(), static_cast<std::uint64_t>(operation.start.ns()),
                         static_cast<std::uint64_t>(operation.end.ns()));
  }
  // Weights are where the device says, whatever has failed meanwhile.
  const bool lost = operation.request.valid() && (operation.lost || operation.orphan);
  const bool ok = operation.status == ReplyStatus::kOk && !lost;
  *done = {id, operation.kind,  operation.request, operation.model, operation.to,
           ok, operation.start, operation.end};
  Settled settled = operation.asked_by_policy ? Settled::kTold : Settled::kSilent;
  if (core_->recorder != nullptr) Record(id, operation, ok);
  if (operation.request.valid()) {
    SettleKv(id, ok);
    return settled;
  }
  SettleWeights(operation, ok);
  if (!operation.asked_by_policy && operation.kind == OperationKind::kLoad &&
      --starting_[operation.to.value] == 0) {
    settled = Settled::kReady;
  }
  Remove(id);
  return settled;
}

void Operations::SettleKv(OpId id, bool ok) {
  Operation& operation = Get(id);
  const std::uint32_t request = operation.request.value;
  DeviceMemory& from = drivers_[operation.from.value]->memory();
  DeviceMemory& to = drivers_[operation.to.value]->memory();
  if (operation.orphan) {
    if (operation.source_blocks > 0) {
      from.GiveFor(request, operation.from_tier, operation.source_blocks);
    }
    to.GiveFor(request, operation.to_tier, operation.blocks);
    if (core_->requests.holds(request)) --core_->requests.hot(request).left_behind;
    return Remove(id);
  }
  RequestFate& fate = core_->requests.fate(request);
  RequestHot& hot = core_->requests.hot(request);
  fate.operation = OpId{};
  if (operation.kind == OperationKind::kStage) {
    if (ok) {
      operation.ended = true;
      fate.staged = id;
      return;
    }
    to.GiveFor(request, operation.to_tier, operation.blocks);
    return Remove(id);
  }
  hot.state = RequestState::kWaiting;
  if (ok) {
    const std::uint32_t left = hot.owned_blocks;
    hot.device = operation.to.value;
    hot.tier = operation.to_tier;
    hot.owned_blocks = operation.blocks;
    if (hot.tier == Tier::kDevice) to.AnnounceAll(request);
    if (operation.keep) return KeepAsStage(id, left);
    if (left > 0) from.GiveFor(request, operation.from_tier, left);
    return Remove(id);
  }
  to.GiveFor(request, operation.to_tier, operation.blocks);
  const bool given = operation.blocking && operation.kind == OperationKind::kSwapOut;
  const bool gone = operation.lost_source || given;
  Remove(id);
  if (gone) {
    fate.recomputed_tokens += hot.scheduled_tokens;
    from.Drop(request);
  }
}

void Operations::KeepAsStage(OpId id, std::uint32_t host_blocks) {
  Operation& operation = Get(id);
  const std::uint32_t request = operation.request.value;
  operation.kind = OperationKind::kStage;
  operation.from_tier = Tier::kDevice;
  operation.to_tier = Tier::kHost;
  operation.blocks = host_blocks;
  operation.copied_blocks = BlocksToMove(request, /*live=*/true);  // the tail will be written to
  operation.ended = true;
  core_->requests.fate(request).staged = id;
}

void Operations::SettleWeights(Operation& operation, bool ok) {
  const std::uint32_t device = operation.to.value;
  const std::uint64_t bit = BitOf(operation.model);
  const bool loads = operation.kind == OperationKind::kLoad;
  if (loads) loading_[device] &= ~bit;
  if (loads == ok) {  // come, or not gone
    views_[device].loaded_models |= bit;
  } else {
    weights_bytes_[device] -= operation.bytes;
  }
  if (operation.asked_by_policy) core_->PushChange(device, DeviceChange::kCapacity);
}

void Operations::Record(OpId id, const Operation& operation, bool ok) const {
  core_->recorder->OnOperation({.id = id,
                                .kind = static_cast<std::uint8_t>(operation.kind),
                                .request = operation.request,
                                .model = operation.model,
                                .from = operation.from,
                                .to = operation.to,
                                .bytes = operation.bytes,
                                .ok = ok,
                                .asked = operation.asked,
                                .start = operation.start,
                                .end = operation.end});
}

}  // namespace schedtwin
