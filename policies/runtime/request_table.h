// RequestTable: the only owner of request state. Requests are numbered from 0 in order of arrival
// and kept in a ring of slots (slot = id & mask), so that memory grows with the requests that live,
// not with the trace. Hot counters, cold facts, and what only the runtime may see (true lengths,
// token times) lie apart: policies get views of the first two. One thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TABLE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TABLE_H_

#include <cstdint>
#include <vector>

#include "policies/api/context.h"
#include "policies/api/plan.h"
#include "policies/api/request.h"
#include "policies/runtime/request_text.h"

namespace schedtwin {

/// What happens to a request, and the truth about it; policies never see this.
struct RequestFate {
  std::uint32_t limit_tokens = 0;  ///< output it will make in the end
  std::uint32_t source = 0;
  std::uint64_t source_index = 0;
  Time admitted;
  Time first_start = Time::Infinite();
  Time first_token = Time::Infinite();
  Time last_token = Time::Infinite();
  std::uint64_t token_hash = 0;  ///< sum of TokenWord over its tokens
  std::uint32_t recomputed_tokens = 0;
  std::uint64_t plan_serial = 0;  ///< the last plan that was found to name it
  std::uint32_t last_device = DeviceId::kNone;
  std::uint32_t most_computed_tokens = 0;  ///< of prompt and output, ever; less is no progress
  OpId operation;                          ///< that moves its KV, or a stage of it
  OpId staged;     ///< the stage that was done last: what it has brought over
  TimerId cancel;  ///< when the client leaves, or its deadline
};

/// True if something of the request is on its device, or on its way: it cannot go elsewhere as it
/// is. (A model without KV books has computed tokens all the same.)
inline bool HeldByDevice(const RequestHot& hot) {
  return hot.owned_blocks > 0 || hot.in_flight > 0 || hot.scheduled_tokens > 0;
}

/// Membership of a standing set; its lists are linked by request id.
struct StandingNode {
  std::uint32_t finish_step = 0;  ///< submitted index of the step that makes its last token
  std::uint32_t growth_step = 0;  ///< submitted index of the first step that takes a new block
  std::uint32_t finish_next = 0, finish_prev = 0;
  std::uint32_t growth_next = 0, growth_prev = 0;
  std::uint32_t position = 0;      ///< in the member list
  bool finishes = true;            ///< linked in the finish wheel
  bool growing = false;            ///< counted in the growth histogram; else in the growth wheel
  std::uint64_t hash_at_join = 0;  ///< the set's running token hash at the join
};

class RequestTable {
 public:
  RequestTable();

  /// From now on requests' texts are kept. `isolate`: those of two tenants are never the same.
  void KeepTexts(bool isolate);
  bool keeps_texts() const { return !text_.empty(); }

  /// Takes a request in; ids follow the order of calls. `limit_tokens`: the most it may make.
  RequestId Add(const RequestSpec& spec, ModelKind kind, std::uint32_t limit_tokens);

  bool holds(std::uint32_t id) const { return hot_[id & mask_].id == id; }
  bool live(std::uint32_t id) const {
    return holds(id) && hot_[id & mask_].state != RequestState::kEnded;
  }
  /// Why a decision cannot work on the request, whatever it is: it is over, or on its way.
  Refusal WhyNot(std::uint32_t id) const {
    if (!live(id)) return Refusal::kUnknownRequest;
    const RequestState state = hot_[id & mask_].state;
    if (state == RequestState::kHeld) return Refusal::kEnded;
    const bool moving = state == RequestState::kMoving || hot_[id & mask_].left_behind > 0;
    return moving ? Refusal::kMoving : Refusal::kNone;
  }
  RequestHot& hot(std::uint32_t id) { return hot_[id & mask_]; }
  const RequestHot& hot(std::uint32_t id) const { return hot_[id & mask_]; }
  RequestCold& cold(std::uint32_t id) { return cold_[id & mask_]; }
  const RequestCold& cold(std::uint32_t id) const { return cold_[id & mask_]; }
  RequestFate& fate(std::uint32_t id) { return fate_[id & mask_]; }
  const RequestFate& fate(std::uint32_t id) const { return fate_[id & mask_]; }
  StandingNode& node(std::uint32_t id) { return node_[id & mask_]; }
  /// REQUIRES: keeps_texts().
  RequestText& text(std::uint32_t id) { return text_[id & mask_]; }

  /// Marks the end; the slot is kept until Reclaim finds that no plan in flight names it.
  void End(std::uint32_t id);
  /// Frees the slots of requests that ended, once nothing in flight names them.
  void Reclaim();

  std::uint32_t live_requests() const { return live_; }
  std::uint32_t added() const { return next_id_; }
  RequestWindow window() const { return {hot_.data(), cold_.data(), mask_}; }
  /// The request that has lived longest; RequestId::kNone if none lives.
  std::uint32_t OldestLive() const {
    std::uint32_t id = oldest_;
    while (id != next_id_ && !live(id)) ++id;
    return id == next_id_ ? RequestId::kNone : id;
  }
  /// Calls `visit(id)` for every request that lives, in order of id.
  template <class Visit>
  void ForEachLive(Visit visit) const {
    for (std::uint32_t id = oldest_; id != next_id_; ++id) {
      if (live(id)) visit(id);
    }
  }

 private:
  void Grow();
  /// The slot where the id of no request would be looked for must not answer to it while it is
  /// empty.
  void HideLastSlot() {
    if (hot_[mask_].id == RequestId::kNone) hot_[mask_].id = 0;
  }

  std::vector<RequestHot> hot_;
  std::vector<RequestCold> cold_;
  std::vector<RequestFate> fate_;
  std::vector<StandingNode> node_;
  std::vector<RequestText> text_;  ///< empty unless they are kept
  bool isolate_ = false;
  std::vector<std::uint32_t> ended_;  ///< to be reclaimed
  std::uint32_t mask_;
  std::uint32_t oldest_ = 0;  ///< no request below it holds a slot
  std::uint32_t next_id_ = 0;
  std::uint32_t live_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TABLE_H_
