#include "policies/runtime/standing_set.h"

#include <algorithm>

#include "policies/runtime/check.h"

namespace schedtwin {

StandingSet::StandingSet(RequestTable* requests, StandingClock* clock, std::uint32_t block_tokens)
    : requests_(requests),
      clock_(clock),
      block_tokens_(block_tokens),
      finish_heads_(kBuckets, kNil),
      growth_heads_(kBuckets, kNil),
      histogram_(std::max(block_tokens, 1u), 0) {}

void StandingSet::Join(std::uint32_t id) {
  RequestHot& hot = requests_->hot(id);
  StandingNode& node = requests_->node(id);
  const std::uint32_t outputs = hot.known_tokens - hot.prompt_tokens;  // promised ones included
  hot.state = RequestState::kStanding;
  hot.joined_step = clock_->submitted;
  node.position = size();
  members_.push_back(id);
  context_sum_ += hot.scheduled_tokens;
  node.finishes = requests_->fate(id).limit_tokens > outputs;
  node.finish_step = clock_->submitted + (requests_->fate(id).limit_tokens - outputs) - 1;
  if (node.finishes) LinkFinish(id);
  if (block_tokens_ > 0) {
    const std::uint32_t ahead = hot.owned_blocks * block_tokens_ - hot.scheduled_tokens;
    node.growth_step = clock_->submitted + ahead;
    node.growing = ahead < block_tokens_;
    if (node.growing) {
      ++histogram_[node.growth_step % block_tokens_];
    } else {
      LinkGrowth(id);
    }
  }
  if (clock_->done == clock_->submitted) {
    node.hash_at_join = token_hash_;
  } else {
    joined_in_flight_.push_back({id, clock_->submitted});
    changes_in_flight_ = true;
  }
}

void StandingSet::Leave(std::uint32_t id) {
  RequestHot& hot = requests_->hot(id);
  StandingNode& node = requests_->node(id);
  SCHEDTWIN_CHECK(hot.state == RequestState::kStanding);
  const std::uint32_t owned = OwnedBlocks(id);
  const std::uint32_t promised = clock_->submitted - hot.joined_step;
  const std::uint32_t done = clock_->done > hot.joined_step ? clock_->done - hot.joined_step : 0;
  if (node.finishes) UnlinkFinish(id);
  if (!joined_in_flight_.empty()) [[unlikely]] {
    std::erase_if(joined_in_flight_, [&](const Joined& joined) { return joined.id == id; });
  }
  if (block_tokens_ > 0) {
    if (node.growing) {
      --histogram_[node.growth_step % block_tokens_];
    } else {
      UnlinkGrowth(id);
    }
  }
  members_[node.position] = members_.back();
  requests_->node(members_.back()).position = node.position;
  members_.pop_back();

  hot.owned_blocks = owned;
  hot.known_tokens += promised;
  hot.scheduled_tokens += promised;
  hot.output_tokens += done;
  context_sum_ -= hot.scheduled_tokens;
  hot.state = RequestState::kWaiting;
  if (done > 0) {
    RequestFate& fate = requests_->fate(id);
    fate.token_hash += token_hash_ - node.hash_at_join;
    fate.last_token = last_end_;
    fate.last_device = hot.device;
  }
  if (promised > done) {
    departed_.push_back({id, hot.joined_step + done, clock_->submitted, hot.epoch});
    changes_in_flight_ = true;
    ++hot.in_flight;
  }
}

std::uint32_t StandingSet::OwnedBlocks(std::uint32_t id) const {
  const RequestHot& hot = requests_->hot(id);
  if (block_tokens_ == 0) return 0;
  const std::uint32_t first = requests_->node(id).growth_step;
  if (clock_->submitted <= first) return hot.owned_blocks;
  return hot.owned_blocks + (clock_->submitted - first + block_tokens_ - 1) / block_tokens_;
}

std::uint32_t StandingSet::DormantGrowth() const {
  std::uint32_t growth = 0;
  const std::uint32_t step = clock_->submitted;
  for (std::uint32_t id = growth_heads_[step % kBuckets]; id != kNil;
       id = requests_->node(id).growth_next) {
    if (requests_->node(id).growth_step == step) ++growth;
  }
  return growth;
}

void StandingSet::StartGrowing(std::uint32_t step) {
  std::uint32_t id = growth_heads_[step % kBuckets];
  while (id != kNil) {
    StandingNode& node = requests_->node(id);
    const std::uint32_t next = node.growth_next;
    if (node.growth_step == step) {
      UnlinkGrowth(id);
      node.growing = true;
      ++histogram_[step % block_tokens_];
    }
    id = next;
  }
}

void StandingSet::SettleChanges(std::uint32_t step, std::vector<DepartedToken>* departed) {
  std::erase_if(joined_in_flight_, [&](const Joined& joined) {
    if (joined.step != clock_->done) return false;
    requests_->node(joined.id).hash_at_join = token_hash_;
    return true;
  });
  for (const Departed& gone : departed_) {
    if (step >= gone.from) departed->push_back({gone.id, gone.until == clock_->done});
  }
  std::erase_if(departed_, [&](const Departed& gone) { return gone.until == clock_->done; });
  changes_in_flight_ = !joined_in_flight_.empty() || !departed_.empty();
}

void StandingSet::OnStepAborted() {
  SCHEDTWIN_CHECK(members_.empty() && clock_->submitted - clock_->done == 1);
  for (const Departed& gone : departed_) {
    RequestHot& hot = requests_->hot(gone.id);
    --hot.in_flight;
    if (!requests_->live(gone.id)) continue;
    --hot.known_tokens;
    if (hot.epoch == gone.epoch) --hot.scheduled_tokens;
  }
  departed_.clear();
  changes_in_flight_ = false;
  ++clock_->done;
}

void StandingSet::LinkFinish(std::uint32_t id) {
  StandingNode& node = requests_->node(id);
  std::uint32_t& head = finish_heads_[node.finish_step % kBuckets];
  node.finish_next = head;
  node.finish_prev = kNil;
  if (head != kNil) requests_->node(head).finish_prev = id;
  head = id;
}

void StandingSet::UnlinkFinish(std::uint32_t id) {
  const StandingNode& node = requests_->node(id);
  if (node.finish_prev == kNil) {
    finish_heads_[node.finish_step % kBuckets] = node.finish_next;
  } else {
    requests_->node(node.finish_prev).finish_next = node.finish_next;
  }
  if (node.finish_next != kNil) requests_->node(node.finish_next).finish_prev = node.finish_prev;
}

void StandingSet::LinkGrowth(std::uint32_t id) {
  StandingNode& node = requests_->node(id);
  std::uint32_t& head = growth_heads_[node.growth_step % kBuckets];
  node.growth_next = head;
  node.growth_prev = kNil;
  if (head != kNil) requests_->node(head).growth_prev = id;
  head = id;
  ++dormant_;
}

void StandingSet::UnlinkGrowth(std::uint32_t id) {
  --dormant_;
  const StandingNode& node = requests_->node(id);
  if (node.growth_prev == kNil) {
    growth_heads_[node.growth_step % kBuckets] = node.growth_next;
  } else {
    requests_->node(node.growth_prev).growth_next = node.growth_next;
  }
  if (node.growth_next != kNil) requests_->node(node.growth_next).growth_prev = node.growth_prev;
}

}  // namespace schedtwin
