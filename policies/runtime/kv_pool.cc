#include "policies/runtime/kv_pool.h"

#include "policies/runtime/check.h"

namespace schedtwin {

KvPool::KvPool(std::uint32_t total_blocks, std::uint32_t block_tokens, KvBooks books)
    : total_(total_blocks),
      block_tokens_(block_tokens),
      identify_(books != KvBooks::kCounted),
      free_(total_blocks) {
  if (books == KvBooks::kCached) {
    cache_ = std::make_unique<PrefixCache>(total_blocks);
    return;
  }
  if (!identify_) return;
  free_ids_.reserve(total_);
  for (std::uint32_t id = total_; id > 0; --id) free_ids_.push_back(id - 1);
}

bool KvPool::Take(std::uint32_t request, std::uint32_t blocks) {
  if (blocks > free_) return false;
  if (cache_ != nullptr) {
    BeginOperation();
    if (blocks == 0) return true;
    std::vector<std::uint32_t>& table = tables_[request];
    for (std::uint32_t i = 0; i < blocks; ++i) table.push_back(cache_->Take());
    Mirror();
    return true;
  }
  free_ -= blocks;
  if (identify_ && blocks > 0) {
    std::vector<std::uint32_t>& table = tables_[request];
    for (std::uint32_t i = 0; i < blocks; ++i) {
      table.push_back(free_ids_.back());
      free_ids_.pop_back();
    }
  }
  return true;
}

void KvPool::TakeCounted(std::uint32_t blocks) {
  SCHEDTWIN_CHECK(!identify_ && blocks <= free_);
  free_ -= blocks;
}

void KvPool::Give(std::uint32_t request, std::uint32_t blocks,
                  std::span<const std::uint64_t> names) {
  const bool in_flight = submitted_ != ended_;
  if (cache_ != nullptr) {
    BeginOperation();
    Name(request, names);
    const auto table = tables_.find(request);
    SCHEDTWIN_CHECK((table == tables_.end() ? 0 : table->second.size()) == blocks);
    if (blocks == 0) return;
    for (std::size_t i = blocks; i > 0; --i) {
      cache_->Give(table->second[i - 1], in_flight ? submitted_ : 0);
    }
    tables_.erase(table);
    Mirror();
    return;
  }
  if (identify_ && blocks > 0) {
    std::vector<std::uint32_t>& table = tables_[request];
    SCHEDTWIN_CHECK(table.size() == blocks);
    // Tail first, so that the head of a sequence is handed out last-in first-out.
    for (std::size_t i = table.size(); i > 0; --i) {
      if (in_flight) {
        fenced_ids_.push_back(table[i - 1]);
      } else {
        free_ids_.push_back(table[i - 1]);
      }
    }
    tables_.erase(request);
  }
  if (in_flight) {
    fences_.push_back({submitted_, blocks});
    fenced_ += blocks;
  } else {
    free_ += blocks;
  }
}

void KvPool::UndoTake(std::uint32_t request, std::uint32_t blocks) {
  if (cache_ != nullptr) {
    UndoCached(nullptr);
    if (blocks == 0) return;
    std::vector<std::uint32_t>& table = tables_[request];
    table.resize(table.size() - blocks);
    if (table.empty()) tables_.erase(request);
    return;
  }
  free_ += blocks;
  if (!identify_ || blocks == 0) return;
  std::vector<std::uint32_t>& table = tables_[request];
  for (std::uint32_t i = 0; i < blocks; ++i) {
    free_ids_.push_back(table.back());
    table.pop_back();
  }
  if (table.empty()) tables_.erase(request);
}

void KvPool::UndoGive(std::uint32_t request, std::uint32_t blocks) {
  if (cache_ != nullptr) {
    if (blocks == 0) return UndoCached(nullptr);
    UndoCached(&tables_[request]);
    return;
  }
  const bool in_flight = submitted_ != ended_;
  if (in_flight) {
    SCHEDTWIN_CHECK(!fences_.empty() && fences_.back().blocks == blocks);
    fences_.pop_back();
    fenced_ -= blocks;
  } else {
    SCHEDTWIN_CHECK(blocks <= free_);
    free_ -= blocks;
  }
  if (!identify_ || blocks == 0) return;
  std::vector<std::uint32_t>& table = tables_[request];
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (in_flight) {
      table.push_back(fenced_ids_.back());
      fenced_ids_.pop_back();
    } else {
      table.push_back(free_ids_.back());
      free_ids_.pop_back();
    }
  }
}

void KvPool::Record(bool on) {
  SCHEDTWIN_CHECK(cache_ != nullptr);
  recording_ = on;
  marks_.clear();
  cache_->Record(on);
}

void KvPool::Adopt(std::uint32_t request, std::span<const std::uint32_t> blocks) {
  BeginOperation();
  std::vector<std::uint32_t>& table = tables_[request];
  SCHEDTWIN_CHECK(table.empty() && !blocks.empty());
  for (const std::uint32_t block : blocks) cache_->Share(block);
  table.assign(blocks.begin(), blocks.end());
  Mirror();
}

void KvPool::UndoAdopt(std::uint32_t request) {
  UndoCached(nullptr);
  tables_.erase(request);
}

void KvPool::UndoCached(std::vector<std::uint32_t>* table) {
  SCHEDTWIN_CHECK(!marks_.empty());
  cache_->UndoTo(marks_.back(), [&](std::uint32_t block) { table->push_back(block); });
  marks_.pop_back();
  Mirror();
}

void KvPool::Name(std::uint32_t request, std::span<const std::uint64_t> names) {
  const std::span<const std::uint32_t> table = BlockTable(request);
  SCHEDTWIN_CHECK(names.size() <= table.size());
  std::size_t named = names.size();  // those with a name are the first
  while (named > 0 && !cache_->named(table[named - 1])) --named;
  for (; named < names.size(); ++named) cache_->Name(table[named], names[named]);
}

void KvPool::Evict(std::uint32_t blocks) { cache_->Evict(blocks); }

bool KvPool::Pin(std::span<const std::uint64_t> hashes) {
  const bool pinned = cache_->Pin(hashes);
  Mirror();
  return pinned;
}

bool KvPool::Unpin(std::span<const std::uint64_t> hashes) {
  const bool unpinned = cache_->Unpin(hashes);
  Mirror();
  return unpinned;
}

void KvPool::Forget() {
  cache_->Forget();
  Mirror();
}

bool KvPool::LiftFences() {
  if (cache_ != nullptr) {
    const bool any = cache_->LiftFences(ended_);
    Mirror();
    return any;
  }
  bool lifted = false;
  while (!fences_.empty() && fences_.front().step <= ended_) {
    lifted = true;
    const std::uint32_t blocks = fences_.front().blocks;
    fences_.pop_front();
    fenced_ -= blocks;
    free_ += blocks;
    if (!identify_) continue;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      free_ids_.push_back(fenced_ids_.front());
      fenced_ids_.pop_front();
    }
  }
  return lifted;
}

std::span<const std::uint32_t> KvPool::BlockTable(std::uint32_t request) const {
  const auto it = tables_.find(request);
  return it == tables_.end() ? std::span<const std::uint32_t>() : it->second;
}

void KvPool::CheckInvariants() const {
  std::uint32_t fenced = 0;
  for (const Fence& fence : fences_) fenced += fence.blocks;
  SCHEDTWIN_CHECK(cache_ != nullptr || fenced == fenced_);
  SCHEDTWIN_CHECK(free_ <= total_ && fenced_ <= total_ - free_);
  if (!identify_) return;
  std::vector<std::uint32_t> owners(total_, 0);
  for (const auto& [request, table] : tables_) {
    for (const std::uint32_t block : table) ++owners.at(block);
  }
  if (cache_ != nullptr) {
    SCHEDTWIN_CHECK(free_ == cache_->free_blocks() && fenced_ == cache_->fenced_blocks());
    return cache_->CheckInvariants(owners);
  }
  SCHEDTWIN_CHECK(free_ids_.size() == free_ && fenced_ids_.size() == fenced_);
  for (const std::uint32_t block : free_ids_) ++owners.at(block);
  for (const std::uint32_t block : fenced_ids_) ++owners.at(block);
  for (const std::uint32_t times : owners) SCHEDTWIN_CHECK(times == 1);
}

}  // namespace schedtwin
