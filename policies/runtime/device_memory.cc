#include "policies/runtime/device_memory.h"

#include <algorithm>
#include <limits>

#include "policies/runtime/check.h"
#include "policies/runtime/operations.h"

namespace schedtwin {
namespace {

KvBooks BooksFor(const RunCore& core, const DeviceView& view, bool identify) {
  if (core.prefix_cache && view.total_blocks > 0) return KvBooks::kCached;
  return identify ? KvBooks::kIdentified : KvBooks::kCounted;
}

}  // namespace

DeviceMemory::DeviceMemory(RunCore* core, DeviceView* view, StandingSet* standing,
                           CommandSender* sender, bool identify)
    : core_(core),
      view_(view),
      standing_(standing),
      sender_(sender),
      pool_(view->total_blocks, view->block_tokens, BooksFor(*core, *view, identify)),
      host_(view->host_blocks, view->block_tokens,
            identify ? KvBooks::kIdentified : KvBooks::kCounted) {
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

Refusal DeviceMemory::WhyNotHere(const RequestHot& hot) const {
  if (!view_->up()) return Refusal::kDeviceDown;
  if (hot.device == view_->id.value) return Refusal::kNone;
  if (view_->state != DeviceState::kUp) return Refusal::kDeviceDown;
  const bool bound = hot.device != DeviceId::kNone && in_transaction();
  return HeldByDevice(hot) || bound ? Refusal::kWrongDevice : Refusal::kNone;
}

Refusal DeviceMemory::TryReserve(std::uint32_t id, std::uint32_t tokens) {
  if (const Refusal why = core_->requests.WhyNot(id); why != Refusal::kNone) return why;
  RequestHot& hot = core_->requests.hot(id);
  if (hot.state == RequestState::kStanding) return Refusal::kDuplicateEntry;
  if (hot.tier != Tier::kDevice) return Refusal::kOnHost;
  if (const Refusal why = WhyNotHere(hot); why != Refusal::kNone) return why;
  const std::uint32_t needed = pool_.BlocksFor(tokens);
  const std::uint32_t missing = needed > hot.owned_blocks ? needed - hot.owned_blocks : 0;
  if (!pool_.Take(id, missing)) return Refusal::kNoMemory;
  Remember(Undoing::kReserve, id, missing);
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
  Remember(Undoing::kRelease, id, 0);
  Drop(id);
  return true;
}

void DeviceMemory::Drop(std::uint32_t id) {
  RequestHot& hot = core_->requests.hot(id);
  const RequestFate& fate = core_->requests.fate(id);
  if (fate.operation.valid() || fate.staged.valid()) [[unlikely]]
    core_->operations->Abandon(id);
  if (hot.owned_blocks > 0 && hot.tier == Tier::kDevice && caches()) {
    pool_.Give(id, hot.owned_blocks, HashesOf(id, ComputedTokens(id)));
    SetComputed(id, 0, /*settled=*/false);
  } else if (hot.owned_blocks > 0) {
    GiveFor(id, hot.tier, hot.owned_blocks);
  }
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
  if (core_->requests.text(id).FirstTold(view_->id.value)) AnnounceText(id);
  const std::span<const std::uint32_t> table = pool_.BlockTable(id);
  for (std::uint32_t i = from; i < table.size(); ++i) {
    sender_->Send(
        {.kind = CommandKind::kBlock, .request = id, .tokens = table[i], .context_tokens = i});
  }
}

void DeviceMemory::AnnounceText(std::uint32_t id) {
  const RequestText& text = core_->requests.text(id);
  const auto tell = [&](std::uint64_t content, std::uint32_t position, std::uint32_t tokens) {
    if (content == 0) return;
    sender_->Send({.kind = CommandKind::kContent,
                   .request = id,
                   .tokens = tokens,
                   .context_tokens = position,
                   .plan = PlanId::FromWord(content)});
  };
  std::uint32_t position = 0;
  for (const ContentSegment& stretch : text.prompt()) {
    tell(stretch.id, position, stretch.tokens);
    position += stretch.tokens;
  }
  tell(text.output_content(), position, core_->requests.cold(id).max_new_tokens);
}

// ---- Prefix cache ----

std::span<const std::uint64_t> DeviceMemory::HashesOf(std::uint32_t id,
                                                      std::uint32_t tokens) const {
  return core_->requests.text(id).Hashes(tokens, pool_.block_tokens(),
                                         core_->requests.cold(id).model);
}

PrefixCache::Prefix DeviceMemory::FindHit(std::uint32_t id, std::uint32_t max_tokens,
                                          std::vector<std::uint32_t>* found) const {
  if (!caches() || !core_->requests.live(id)) return {};
  const std::uint32_t most = std::min(max_tokens, core_->requests.hot(id).known_tokens - 1);
  return pool_.cache()->Find(HashesOf(id, most), standing_->Growth(), found);
}

std::uint32_t DeviceMemory::HitTokens(RequestId request) const {
  return FindHit(request.value, kAll, nullptr).blocks * pool_.block_tokens();
}

std::uint32_t DeviceMemory::HitFreeBlocks(RequestId request) const {
  return FindHit(request.value, kAll, nullptr).free_blocks;
}

std::span<const std::uint64_t> DeviceMemory::PromptBlocks(RequestId request) const {
  if (!caches() || !core_->requests.live(request.value)) return {};
  return HashesOf(request.value, core_->requests.hot(request.value).prompt_tokens);
}

std::uint32_t DeviceMemory::Adopt(RequestId request, std::uint32_t max_tokens) {
  const std::uint32_t tokens = TryAdopt(request.value, max_tokens);
  core_->journal.Decision(core_->now, DecisionCode::kAdopt, request.value,
                          max_tokens | (static_cast<std::uint64_t>(view_->id.value) << 32), tokens);
  return tokens;
}

std::uint32_t DeviceMemory::TryAdopt(std::uint32_t id, std::uint32_t max_tokens) {
  if (!caches() || core_->requests.WhyNot(id) != Refusal::kNone) return 0;
  RequestHot& hot = core_->requests.hot(id);
  if (hot.state != RequestState::kWaiting || hot.owned_blocks > 0 || hot.scheduled_tokens > 0) {
    return 0;
  }
  if (WhyNotHere(hot) != Refusal::kNone) return 0;
  found_.clear();
  const std::uint32_t blocks = FindHit(id, max_tokens, &found_).blocks;
  if (blocks == 0) return 0;
  Remember(Undoing::kAdopt, id, 0);
  pool_.Adopt(id, found_);
  Announce(id, 0);
  const std::uint32_t tokens = blocks * pool_.block_tokens();
  hot.device = view_->id.value;
  hot.owned_blocks = blocks;
  hot.scheduled_tokens = tokens;
  SetComputed(id, tokens, /*settled=*/false);
  RequestCold& cold = core_->requests.cold(id);
  RequestFate& fate = core_->requests.fate(id);
  if (fate.first_start.infinite()) cold.cached_tokens = tokens;
  fate.recomputed_tokens -= std::min(tokens, fate.recomputed_tokens);
  Sync();
  return tokens;
}

void DeviceMemory::SetComputed(std::uint32_t id, std::uint32_t tokens, bool settled) {
  const RequestHot& hot = core_->requests.hot(id);
  RequestText& text = core_->requests.text(id);
  text.computed_tokens = tokens;
  text.caught_up = settled && tokens + 1 == hot.prompt_tokens + hot.output_tokens;
}

std::uint32_t DeviceMemory::ComputedTokens(std::uint32_t id) const {
  const RequestHot& hot = core_->requests.hot(id);
  if (hot.in_flight == 0) return hot.scheduled_tokens;
  // Of what is promised, the step in flight may not have come to its end.
  const RequestText& text = core_->requests.text(id);
  return text.caught_up ? hot.prompt_tokens + hot.output_tokens - 1 : text.computed_tokens;
}

void DeviceMemory::OnComputed(std::uint32_t id, std::uint32_t computed_tokens) {
  SetComputed(id, computed_tokens, /*settled=*/true);
  const std::uint32_t prompt_tokens = core_->requests.hot(id).prompt_tokens;
  pool_.Name(id, HashesOf(id, std::min(computed_tokens, prompt_tokens)));
  SyncCache();
}

Refusal DeviceMemory::Pin(RequestId request, bool pinned) {
  if (!caches()) return Refusal::kUnsupported;
  if (in_transaction()) return Refusal::kBadArgument;
  const std::span<const std::uint64_t> hashes =
      HashesOf(request.value, core_->requests.hot(request.value).known_tokens);
  const bool done = pinned ? pool_.Pin(hashes) : pool_.Unpin(hashes);
  Sync();
  return done ? Refusal::kNone : Refusal::kBadArgument;
}

Refusal DeviceMemory::Evict(std::uint32_t blocks) {
  if (!caches()) return Refusal::kUnsupported;
  if (in_transaction() || blocks == 0 || blocks > pool_.cached_blocks()) {
    return Refusal::kBadArgument;
  }
  pool_.Evict(blocks);
  Sync();
  return Refusal::kNone;
}

void DeviceMemory::ForgetCache() {
  if (!caches()) return;
  pool_.Forget();
  Sync();
}

void DeviceMemory::SyncCache() {
  view_->cached_blocks = pool_.cached_blocks();
  const PrefixCache& cache = *pool_.cache();
  if (open_ > 0 || change_raised_ || (cache.stored() == 0 && cache.evicted() == 0)) return;
  change_raised_ = true;
  core_->Push(core_->now, EventClass::kCacheChange, view_->id.value,
              {EventKind::kCacheChange, view_->id.value, 0});
}

CacheChange DeviceMemory::TakeCacheChange() {
  const PrefixCache& cache = *pool_.cache();
  const CacheChange change = {view_->id, Tier::kDevice, cache.stored(), cache.evicted()};
  pool_.ResetCounts();
  change_raised_ = false;
  return change;
}

// ---- Transactions ----

void DeviceMemory::Remember(Undoing what, std::uint32_t id, std::uint32_t taken) {
  if (open_ == 0) return;
  const RequestHot& hot = core_->requests.hot(id);
  undo_.push_back({id, hot.device, hot.owned_blocks, hot.scheduled_tokens, taken,
                   core_->requests.cold(id).cached_tokens,
                   core_->requests.fate(id).recomputed_tokens, hot.epoch, what});
}

MemoryMark DeviceMemory::Begin() {
  if (open_++ == 0 && caches()) pool_.Record(true);
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
  Close(1);
}

void DeviceMemory::Commit(MemoryMark mark) {
  const bool may = open_ > 0 && mark.entries <= undo_.size();
  Log(DecisionCode::kTransaction, 2, mark.entries, may ? Refusal::kNone : Refusal::kBadArgument);
  if (may) Close(1);
}

void DeviceMemory::CloseTransactions() {
  if (open_ == 0) return;
  Log(DecisionCode::kTransaction, 3, undo_.size(), Refusal::kBadArgument);
  UndoTo(0);
  Close(open_);
}

void DeviceMemory::Close(std::uint32_t transactions) {
  core_->open_transactions -= transactions;
  open_ -= transactions;
  if (open_ > 0) return;
  undo_.clear();  // also what a mark of the wrong transaction has left
  if (!caches()) return;
  pool_.Record(false);
  SyncCache();
}

void DeviceMemory::UndoTo(std::uint32_t entries) {
  while (undo_.size() > entries) {
    const Undo& undo = undo_.back();
    RequestHot& hot = core_->requests.hot(undo.request);
    hot.scheduled_tokens = undo.scheduled_tokens;
    switch (undo.what) {
      case Undoing::kReserve:
        pool_.UndoTake(undo.request, undo.taken);
        break;
      case Undoing::kRelease:
        if (undo.owned_blocks > 0) pool_.UndoGive(undo.request, undo.owned_blocks);
        hot.epoch = undo.epoch;
        Announce(undo.request, 0);
        break;
      case Undoing::kAdopt:
        pool_.UndoAdopt(undo.request);
        core_->requests.cold(undo.request).cached_tokens = undo.cached_tokens;
        core_->requests.fate(undo.request).recomputed_tokens = undo.recomputed_tokens;
        break;
    }
    hot.owned_blocks = undo.owned_blocks;
    hot.device = undo.device;
    if (caches() && undo.what != Undoing::kReserve) {
      SetComputed(undo.request, hot.scheduled_tokens, undo.what == Undoing::kRelease);
    }
    undo_.pop_back();
  }
  Sync();
}

}  // namespace schedtwin
