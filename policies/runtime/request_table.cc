#include "policies/runtime/request_table.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kInitialSlots = 256;

template <class T>
void MoveRing(std::vector<T>& ring, std::uint32_t old_mask, std::uint32_t from, std::uint32_t to) {
  std::vector<T> larger(2 * ring.size());
  const auto mask = static_cast<std::uint32_t>(larger.size() - 1);
  for (std::uint32_t id = from; id != to; ++id) larger[id & mask] = std::move(ring[id & old_mask]);
  ring.swap(larger);
}

}  // namespace

RequestTable::RequestTable()
    : hot_(kInitialSlots),
      cold_(kInitialSlots),
      fate_(kInitialSlots),
      node_(kInitialSlots),
      mask_(kInitialSlots - 1) {
  HideLastSlot();
}

void RequestTable::KeepTexts(bool isolate) {
  SCHEDTWIN_CHECK(next_id_ == 0);
  isolate_ = isolate;
  text_.resize(hot_.size());
}

void RequestTable::Grow() {
  MoveRing(hot_, mask_, oldest_, next_id_);
  MoveRing(cold_, mask_, oldest_, next_id_);
  MoveRing(fate_, mask_, oldest_, next_id_);
  MoveRing(node_, mask_, oldest_, next_id_);
  if (keeps_texts()) MoveRing(text_, mask_, oldest_, next_id_);
  mask_ = 2 * mask_ + 1;
  HideLastSlot();
}

RequestId RequestTable::Add(const RequestSpec& spec, ModelKind kind, std::uint32_t limit_tokens) {
  SCHEDTWIN_CHECK(next_id_ != RequestId::kNone);
  if (next_id_ - oldest_ > mask_) Grow();
  const std::uint32_t id = next_id_++;
  RequestHot& hot = hot_[id & mask_];
  hot = RequestHot{};
  hot.id = id;
  // What a one-shot request has to compute is its units, all in one step.
  hot.prompt_tokens = kind == ModelKind::kOneShot ? spec.units : spec.prompt_tokens;
  hot.known_tokens = hot.prompt_tokens;
  RequestCold& cold = cold_[id & mask_];
  cold = RequestCold{};
  cold.spec = spec;
  cold.spec.content = {};  // the source's own
  if (keeps_texts()) text_[id & mask_].Reset(id, spec, isolate_);
  cold.max_new_tokens = limit_tokens;
  cold.model = spec.model;
  cold.content = ContentOf(spec);
  fate_[id & mask_] = RequestFate{};
  fate_[id & mask_].limit_tokens = std::min(spec.output_tokens, limit_tokens);
  ++live_;
  return {id};
}

void RequestTable::End(std::uint32_t id) {
  SCHEDTWIN_CHECK(live(id));
  hot(id).state = RequestState::kEnded;
  --live_;
  ended_.push_back(id);
}

void RequestTable::Reclaim() {
  if (ended_.empty()) return;
  std::size_t kept = 0;
  for (const std::uint32_t id : ended_) {
    if (hot(id).in_flight > 0) {
      ended_[kept++] = id;
    } else {
      hot(id).id = id + 1;  // which belongs to another slot: no id finds this one
    }
  }
  ended_.resize(kept);
  while (oldest_ != next_id_ && !holds(oldest_)) ++oldest_;
}

}  // namespace schedtwin
