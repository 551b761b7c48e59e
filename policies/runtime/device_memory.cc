#include "policies/runtime/device_memory.h"

#include <limits>

#include "policies/runtime/check.h"
#include "policies/runtime/operations.h"

namespace schedtwin {

DeviceMemory::DeviceMemory(RunCore* core, DeviceView* view, StandingSet* standing,
                           CommandSender* sender, bool identify)
    : core_(core),
      view_(view),
      standing_(standing),
      sender_(sender),
      pool_(view->total_blocks, view->block_tokens, identify),
      host_(view->host_blocks, view->block_tokens, identify) {
  Sync();
}

void DeviceMemory::Log(DecisionCode code, std::uint64_t request, std::uint64_t tokens,
                       Refusal answer) {
  core_->journal.Answer(core_->now, code, request,
                        tokens | (static_cast<std::uint64_t>(view_->id.value) << 32), answer);
}

std::uint32_t DeviceMemory::Capacity(const RequestHot& hot) const {
  return pool_.total_blocks() == 0 ? std::numeric_limits<std::uint32_t>::max()
                                   : hot.owned_blocks * pool_.block_tokens();
}

bool DeviceMemory::Reserve(RequestId request, std::uint32_t tokens) {
  const Refusal answer = TryReserve(request.value, tokens);
  Log(DecisionCode::kReserve, request.value, tokens, answer);
  return answer == Refusal::kNone;
}

Refusal DeviceMemory::TryReserve(std::uint32_t id, std::uint32_t tokens) {
  if (const Refusal why = core_->requests.WhyNot(id); why != Refusal::kNone) return why;
  RequestHot& hot = core_->requests.hot(id);
  if (hot.state == RequestState::kStanding) return Refusal::kDuplicateEntry;
  if (hot.tier != Tier::kDevice) return Refusal::kOnHost;
  if (view_->state != DeviceState::kUp && hot.device != view_->id.value)
    return Refusal::kDeviceDown;
  if (!view_->up()) return Refusal::kDeviceDown;
  if (hot.device != view_->id.value &&
      (HeldByDevice(hot) || (hot.device != DeviceId::kNone && in_transaction()))) {
    return Refusal::kWrongDevice;
  }
  const std::uint32_t needed = pool_.BlocksFor(tokens);
  const std::uint32_t missing = needed > hot.owned_blocks ? needed - hot.owned_blocks : 0;
  if (!pool_.Take(id, missing)) return Refusal::kNoMemory;
  if (open_ > 0) {
    undo_.push_back(
        {id, hot.device, hot.owned_blocks, hot.scheduled_tokens, missing, hot.epoch, false});
  }
  if (missing > 0) Announce(id, hot.owned_blocks);
  hot.device = view_->id.value;
  hot.owned_blocks += missing;
  Sync();
  return Refusal::kNone;
}

bool DeviceMemory::MayRelease(std::uint32_t id) const {
  const RequestHot& hot = core_->requests.hot(id);
  if (hot.state == RequestState::kStanding || hot.in_flight > 0) return false;
  if (hot.device != view_->id.value || core_->requests.fate(id).operation.valid()) return false;
  const bool staged = core_->requests.fate(id).staged.valid();
  return (hot.tier == Tier::kDevice && !staged) || !in_transaction();
}

bool DeviceMemory::Release(RequestId request) {
  const std::uint32_t id = request.value;
  const bool may = core_->requests.WhyNot(id) == Refusal::kNone && MayRelease(id);
  Log(DecisionCode::kRelease, id, 0, may ? Refusal::kNone : Refusal::kBadArgument);
  if (!may) return false;
  if (open_ > 0) {
    const RequestHot& hot = core_->requests.hot(id);
    undo_.push_back({id, hot.device, hot.owned_blocks, hot.scheduled_tokens, 0, hot.epoch, true});
  }
  Drop(id);
  return true;
}

void DeviceMemory::Drop(std::uint32_t id) {
  RequestHot& hot = core_->requests.hot(id);
  const RequestFate& fate = core_->requests.fate(id);
  if (fate.operation.valid() || fate.staged.valid()) [[unlikely]]
    core_->operations->Abandon(id);
  if (hot.owned_blocks > 0) GiveFor(id, hot.tier, hot.owned_blocks);
  hot.tier = Tier::kDevice;
  hot.owned_blocks = 0;
  hot.scheduled_tokens = 0;
  ++hot.epoch;  // what plans in flight have promised of its KV no longer holds
  Sync();
}

bool DeviceMemory::TakeFor(std::uint32_t id, Tier tier, std::uint32_t blocks) {
  const bool taken = (tier == Tier::kDevice ? pool_ : host_).Take(id, blocks);
  Sync();
  return taken;
}

void DeviceMemory::GiveFor(std::uint32_t id, Tier tier, std::uint32_t blocks) {
  (tier == Tier::kDevice ? pool_ : host_).Give(id, blocks);
  Sync();
}

void DeviceMemory::GrowStanding(std::uint32_t blocks) {
  if (pool_.identifies()) {
    standing_->ForEachGrowing([this](std::uint32_t id) {
      SCHEDTWIN_CHECK(pool_.Take(id, 1));
      Announce(id, static_cast<std::uint32_t>(pool_.BlockTable(id).size()) - 1);
    });
  } else {
    pool_.TakeCounted(blocks);
  }
  Sync();
}

void DeviceMemory::GrowListed(std::uint32_t id) {
  SCHEDTWIN_CHECK(pool_.Take(id, 1));
  Announce(id, core_->requests.hot(id).owned_blocks);
  ++core_->requests.hot(id).owned_blocks;
  Sync();
}

void DeviceMemory::Announce(std::uint32_t id, std::uint32_t from) {
  if (!pool_.identifies()) return;
  const std::span<const std::uint32_t> table = pool_.BlockTable(id);
  for (std::uint32_t i = from; i < table.size(); ++i) {
    sender_->Send(
        {.kind = CommandKind::kBlock, .request = id, .tokens = table[i], .context_tokens = i});
  }
}

MemoryMark DeviceMemory::Begin() {
  ++open_;
  ++core_->open_transactions;
  const auto entries = static_cast<std::uint32_t>(undo_.size());
  Log(DecisionCode::kTransaction, 0, entries, Refusal::kNone);
  return {entries};
}

void DeviceMemory::Rollback(MemoryMark mark) {
  const bool may = open_ > 0 && mark.entries <= undo_.size();
  Log(DecisionCode::kTransaction, 1, mark.entries, may ? Refusal::kNone : Refusal::kBadArgument);
  if (!may) return;
  UndoTo(mark.entries);
  --core_->open_transactions;
  if (--open_ == 0) undo_.clear();  // what a mark of the wrong transaction has left
}

void DeviceMemory::Commit(MemoryMark mark) {
  const bool may = open_ > 0 && mark.entries <= undo_.size();
  Log(DecisionCode::kTransaction, 2, mark.entries, may ? Refusal::kNone : Refusal::kBadArgument);
  if (!may) return;
  --core_->open_transactions;
  if (--open_ == 0) undo_.clear();
}

void DeviceMemory::CloseTransactions() {
  if (open_ == 0) return;
  Log(DecisionCode::kTransaction, 3, undo_.size(), Refusal::kBadArgument);
  UndoTo(0);
  core_->open_transactions -= open_;
  open_ = 0;
}

void DeviceMemory::UndoTo(std::uint32_t entries) {
  while (undo_.size() > entries) {
    const Undo& undo = undo_.back();
    RequestHot& hot = core_->requests.hot(undo.request);
    if (undo.release) {
      if (undo.owned_blocks > 0) pool_.UndoGive(undo.request, undo.owned_blocks);
      hot.scheduled_tokens = undo.scheduled_tokens;
      hot.epoch = undo.epoch;
      Announce(undo.request, 0);
    } else {
      pool_.UndoTake(undo.request, undo.taken);
    }
    hot.owned_blocks = undo.owned_blocks;
    hot.device = undo.device;
    undo_.pop_back();
  }
  Sync();
}

}  // namespace schedtwin
