#include "policies/runtime/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"

namespace schedtwin {

PrefixCache::PrefixCache(std::uint32_t blocks)
    : blocks_(std::size_t{blocks} + 1), spoken_for_(blocks, 0) {
  names_.reserve(blocks);
  blocks_[ends()].prev = blocks_[ends()].next = ends();
  for (std::uint32_t block = 0; block < blocks; ++block) Append(block);
}

// ---- Lists ----

void PrefixCache::Link(std::uint32_t block, std::uint32_t prev) {
  Block& linked = blocks_[block];
  linked.place = Place::kFree;
  linked.prev = prev;
  linked.next = blocks_[prev].next;
  blocks_[linked.next].prev = block;
  blocks_[prev].next = block;
  ++free_;
  cached_ += linked.named;
}

void PrefixCache::Unlink(std::uint32_t block) {
  const Block& linked = blocks_[block];
  blocks_[linked.prev].next = linked.next;
  blocks_[linked.next].prev = linked.prev;
  --free_;
  cached_ -= linked.named;
}

void PrefixCache::LinkName(std::uint32_t block, std::uint32_t same_prev) {
  Block& linked = blocks_[block];
  linked.named = true;
  const auto [at, fresh] = names_.try_emplace(linked.hash, SameName{block, block});
  linked.same_prev = same_prev;
  linked.same_next = kNone;
  if (fresh) return;
  SameName& same = at->second;
  linked.same_next = same_prev == kNone ? same.first : blocks_[same_prev].same_next;
  (same_prev == kNone ? same.first : blocks_[same_prev].same_next) = block;
  (linked.same_next == kNone ? same.last : blocks_[linked.same_next].same_prev) = block;
}

void PrefixCache::UnlinkName(std::uint32_t block) {
  Block& linked = blocks_[block];
  linked.named = false;
  if (linked.same_prev == kNone && linked.same_next == kNone) {
    names_.erase(linked.hash);
    return;
  }
  SameName& same = names_.at(linked.hash);
  (linked.same_prev == kNone ? same.first : blocks_[linked.same_prev].same_next) = linked.same_next;
  (linked.same_next == kNone ? same.last : blocks_[linked.same_next].same_prev) = linked.same_prev;
}

// ---- Owners ----

std::uint32_t PrefixCache::Take() {
  const std::uint32_t block = blocks_[ends()].next;
  SCHEDTWIN_CHECK(free_ > 0 && block != ends());
  Unlink(block);
  blocks_[block].place = Place::kOwned;
  blocks_[block].owners = 1;
  Keep({.kind = UndoKind::kTake, .place = Place::kFree, .block = block, .prev = 0, .word = 0});
  if (blocks_[block].named) Unname(block);
  return block;
}

void PrefixCache::Share(std::uint32_t block) {
  Block& shared = blocks_[block];
  SCHEDTWIN_CHECK(shared.named);
  Keep({.kind = UndoKind::kShare,
        .place = shared.place,
        .block = block,
        .prev = shared.prev,
        .word = shared.fence});
  if (shared.place == Place::kFree) Unlink(block);
  if (shared.place == Place::kFenced) --fenced_;
  shared.place = Place::kOwned;
  ++shared.owners;
}

void PrefixCache::Give(std::uint32_t block, std::uint64_t fence) {
  Block& given = blocks_[block];
  SCHEDTWIN_CHECK(given.place == Place::kOwned && given.owners > 0);
  if (--given.owners == 0) {
    if (fence == 0) {
      Rest(block);
    } else {
      given.place = Place::kFenced;
      given.fence = ++fence_serial_;
      fences_.push_back({fence, given.fence, block});
      ++fenced_;
    }
  }
  Keep({.kind = UndoKind::kGive, .place = given.place, .block = block, .prev = 0, .word = 0});
}

void PrefixCache::Rest(std::uint32_t block) {
  if (blocks_[block].pins > 0) {
    blocks_[block].place = Place::kPinned;
  } else {
    Append(block);
  }
}

bool PrefixCache::LiftFences(std::uint64_t ended) {
  bool lifted = false;
  while (!fences_.empty() && fences_.front().step <= ended) {
    const Fence fence = fences_.front();
    fences_.pop_front();
    const Block& block = blocks_[fence.block];
    if (block.place != Place::kFenced || block.fence != fence.serial) continue;  // shared since
    --fenced_;
    Rest(fence.block);
    lifted = true;
  }
  return lifted;
}

// ---- Names ----

void PrefixCache::Name(std::uint32_t block, std::uint64_t hash) {
  SCHEDTWIN_CHECK(blocks_[block].place == Place::kOwned && !blocks_[block].named);
  blocks_[block].hash = hash;
  const auto same = names_.find(hash);
  LinkName(block, same == names_.end() ? kNone : same->second.last);
  ++stored_;
  Keep({.kind = UndoKind::kName, .place = Place::kOwned, .block = block, .prev = 0, .word = 0});
}

void PrefixCache::Unname(std::uint32_t block) {
  Keep({.kind = UndoKind::kUnname,
        .place = blocks_[block].place,
        .block = block,
        .prev = blocks_[block].same_prev,
        .word = blocks_[block].hash});
  UnlinkName(block);
  ++evicted_;
}

PrefixCache::Prefix PrefixCache::Find(std::span<const std::uint64_t> hashes,
                                      std::uint32_t spoken_for,
                                      std::vector<std::uint32_t>* found) const {
  ++query_;
  std::uint32_t oldest = blocks_[ends()].next;
  for (std::uint32_t i = std::min(spoken_for, free_); i > 0; --i, oldest = blocks_[oldest].next) {
    spoken_for_[oldest] = query_;
  }
  Prefix prefix;
  for (const std::uint64_t hash : hashes) {
    const auto same = names_.find(hash);
    std::uint32_t block = same == names_.end() ? kNone : same->second.first;
    while (block != kNone && spoken_for_[block] == query_) block = blocks_[block].same_next;
    if (block == kNone) break;
    ++prefix.blocks;
    prefix.free_blocks += blocks_[block].place == Place::kFree;
    if (found != nullptr) found->push_back(block);
  }
  return prefix;
}

// ---- Decisions ----

void PrefixCache::Evict(std::uint32_t blocks) {
  SCHEDTWIN_CHECK(!recording_ && blocks <= cached_);
  for (std::uint32_t block = blocks_[ends()].next; blocks > 0; block = blocks_[block].next) {
    if (!blocks_[block].named) continue;
    Unname(block);
    --cached_;
    --blocks;
  }
}

bool PrefixCache::Pin(std::span<const std::uint64_t> hashes) {
  SCHEDTWIN_CHECK(!recording_);
  std::vector<std::uint32_t> blocks;
  const Prefix prefix = Find(hashes, 0, &blocks);
  if (prefix.blocks == 0) return false;
  for (const std::uint32_t block : blocks) {
    if (blocks_[block].place == Place::kFree) {
      Unlink(block);
      blocks_[block].place = Place::kPinned;
    }
    ++blocks_[block].pins;
  }
  pinnings_[hashes[prefix.blocks - 1]].push_back(std::move(blocks));
  return true;
}

bool PrefixCache::Unpin(std::span<const std::uint64_t> hashes) {
  SCHEDTWIN_CHECK(!recording_);
  for (std::size_t length = hashes.size(); length > 0; --length) {
    const auto at = pinnings_.find(hashes[length - 1]);
    if (at == pinnings_.end()) continue;
    // Tail first, as a request gives its blocks back.
    std::vector<std::uint32_t>& blocks = at->second.back();
    for (; !blocks.empty(); blocks.pop_back()) {
      Block& block = blocks_[blocks.back()];
      if (--block.pins == 0 && block.place == Place::kPinned) Append(blocks.back());
    }
    at->second.pop_back();
    if (at->second.empty()) pinnings_.erase(at);
    return true;
  }
  return false;
}

void PrefixCache::Forget() {
  SCHEDTWIN_CHECK(!recording_);
  forgot_ = true;
  pinnings_.clear();
  for (std::uint32_t block = 0; block < ends(); ++block) {
    Block& forgotten = blocks_[block];
    forgotten.pins = 0;
    if (forgotten.place == Place::kPinned) Append(block);
    if (!forgotten.named) continue;
    cached_ -= forgotten.place == Place::kFree;
    Unname(block);
  }
}

// ---- Transactions ----

void PrefixCache::Record(bool on) {
  recording_ = on;
  undo_.clear();
}

void PrefixCache::UndoOne(const Undo& undo) {
  Block& block = blocks_[undo.block];
  switch (undo.kind) {
    case UndoKind::kTake:
      block.owners = 0;
      Link(undo.block, ends());
      return;
    case UndoKind::kShare:
      --block.owners;
      block.place = undo.place;
      block.fence = undo.word;
      if (undo.place == Place::kFree) Link(undo.block, undo.prev);
      if (undo.place == Place::kFenced) ++fenced_;
      return;
    case UndoKind::kGive:
      if (undo.place == Place::kFree) Unlink(undo.block);
      if (undo.place == Place::kFenced) {
        fences_.pop_back();
        --fenced_;
      }
      block.place = Place::kOwned;
      ++block.owners;
      return;
    case UndoKind::kName:
      UnlinkName(undo.block);
      --stored_;
      return;
    case UndoKind::kUnname:
      block.hash = undo.word;
      LinkName(undo.block, undo.prev);
      --evicted_;
      return;
  }
}

// ---- Invariants ----

void PrefixCache::CheckFreeList() const {
  std::uint32_t free = 0, cached = 0;
  std::uint32_t prev = ends();
  for (std::uint32_t at = blocks_[ends()].next; at != ends(); at = blocks_[at].next) {
    SCHEDTWIN_CHECK(blocks_[at].prev == prev && blocks_[at].place == Place::kFree);
    ++free;
    cached += blocks_[at].named;
    SCHEDTWIN_CHECK(free <= ends());
    prev = at;
  }
  SCHEDTWIN_CHECK(free == free_ && cached == cached_);
}

void PrefixCache::CheckNames() const {
  std::size_t named = 0, heads = 0;
  for (std::uint32_t i = 0; i < ends(); ++i) {
    const Block& block = blocks_[i];
    if (!block.named) continue;
    ++named;
    const auto same = names_.find(block.hash);
    SCHEDTWIN_CHECK(same != names_.end());
    heads += same->second.first == i;
    SCHEDTWIN_CHECK((block.same_prev == kNone) == (same->second.first == i));
    SCHEDTWIN_CHECK((block.same_next == kNone) == (same->second.last == i));
    SCHEDTWIN_CHECK(block.same_prev == kNone || (blocks_[block.same_prev].same_next == i &&
                                                 blocks_[block.same_prev].hash == block.hash));
  }
  SCHEDTWIN_CHECK(heads == names_.size() && named >= heads);
}

void PrefixCache::CheckInvariants(std::span<const std::uint32_t> owners) const {
  CheckFreeList();
  CheckNames();
  std::vector<std::uint32_t> pins(ends(), 0);
  for (const auto& [name, pinnings] : pinnings_) {
    for (const std::vector<std::uint32_t>& blocks : pinnings) {
      SCHEDTWIN_CHECK(!blocks.empty() && blocks_[blocks.back()].hash == name);
      for (const std::uint32_t block : blocks) ++pins[block];
    }
  }
  std::vector<std::uint32_t> fences(ends(), 0);
  for (const Fence& fence : fences_) {
    fences[fence.block] +=
        blocks_[fence.block].place == Place::kFenced && blocks_[fence.block].fence == fence.serial;
  }
  std::uint32_t in[4] = {};
  for (std::uint32_t i = 0; i < ends(); ++i) {
    const Block& block = blocks_[i];
    ++in[static_cast<std::size_t>(block.place)];
    SCHEDTWIN_CHECK(block.owners == owners[i]);
    SCHEDTWIN_CHECK((block.owners > 0) == (block.place == Place::kOwned));
    SCHEDTWIN_CHECK(block.owners <= 1 || block.named || forgot_);  // shared by its name only
    SCHEDTWIN_CHECK(block.pins == pins[i] && (block.pins == 0 || block.named));
    SCHEDTWIN_CHECK(block.place != Place::kFree || block.pins == 0);
    SCHEDTWIN_CHECK(block.place != Place::kPinned || block.pins > 0);
    SCHEDTWIN_CHECK((block.place == Place::kFenced) == (fences[i] == 1));
  }
  SCHEDTWIN_CHECK(in[static_cast<std::size_t>(Place::kFree)] == free_);
  SCHEDTWIN_CHECK(in[static_cast<std::size_t>(Place::kFenced)] == fenced_);
}

}  // namespace schedtwin
