#include "policies/runtime/kv_pool.h"

#include "policies/runtime/check.h"

namespace schedtwin {

KvPool::KvPool(std::uint32_t total_blocks, std::uint32_t block_tokens, bool identify)
    : total_(total_blocks), block_tokens_(block_tokens), identify_(identify), free_(total_blocks) {
  if (!identify_) return;
  free_ids_.reserve(total_);
  for (std::uint32_t id = total_; id > 0; --id) free_ids_.push_back(id - 1);
}

bool KvPool::Take(std::uint32_t request, std::uint32_t blocks) {
  if (blocks > free_) return false;
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

void KvPool::Give(std::uint32_t request, std::uint32_t blocks) {
  const bool in_flight = submitted_ != ended_;
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

bool KvPool::LiftFences() {
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

}  // namespace schedtwin
