// MiniBatch: a small whole policy for tests of the runtime. Continuous batching on one device:
// decodes first, whole prompts after them, recompute preemption of the latest admitted. It asks for
// its decode steps listed or as a standing set, one step at a time or many; the schedule is the
// same. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_MINI_BATCH_H_
#define SCHEDTWIN_TESTS_SUPPORT_MINI_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "policies/api/policy.h"

namespace schedtwin {

class MiniBatch final : public Policy {
 public:
  MiniBatch(bool standing, std::uint32_t max_steps) : standing_(standing), max_steps_(max_steps) {}

  void OnArrival(Context& context, RequestId request) override {
    waiting_.push_back(request);
    if (!plan_.valid()) {
      context.actions().Poke({0});
    } else if (max_steps_ > 1) {
      context.actions().Abort(plan_, AbortAt::kStep);
    }
  }

  void OnPlanDone(Context& context, const PlanDone& done) override {
    plan_ = PlanId{};
    ++ends[static_cast<std::size_t>(done.why)];
    std::erase_if(running_, [&](RequestId id) {
      return context.request(id).state() == RequestState::kEnded;
    });
    if (!standing_) return;
    for (const RequestId id : running_) {
      if (context.request(id).state() == RequestState::kWaiting) {
        context.actions().Join({0}, id);
      }
    }
  }

  void OnSlotFree(Context& context, DeviceId device) override {
    entries_.clear();
    const bool preempted = standing_ ? MakeRoom(context) : ListDecodes(context);
    const bool decodes_only = preempted || !Admit(context);
    if (running_.empty()) return;
    const Launched launched =
        context.actions().Launch({.device = device,
                                  .entries = entries_,
                                  .standing = standing_ && context.device(device).standing > 0,
                                  .max_steps = decodes_only && !preempted ? max_steps_ : 1});
    plan_ = launched.id;
  }

  std::uint64_t ends[8] = {};  ///< plans by PlanEnd

 private:
  void PreemptLast(Context& context) {
    context.actions().Preempt(running_.back(), PreemptMode::kRecompute);
    waiting_.push_front(running_.back());
    running_.pop_back();
  }

  /// Room for the growth of the standing set; true if that took a preemption.
  bool MakeRoom(Context& context) {
    bool preempted = false;
    while (context.memory({0}).StandingGrowth() > context.device({0}).free_blocks) {
      PreemptLast(context);
      preempted = true;
    }
    return preempted;
  }

  bool ListDecodes(Context& context) {
    // As the standing set does: all of the growth fits, or the last one goes.
    bool preempted = false;
    while (Growth(context) > context.device({0}).free_blocks) {
      PreemptLast(context);
      preempted = true;
    }
    for (const RequestId id : running_) {
      context.memory({0}).Reserve(id, context.request(id).scheduled_tokens() + 1);
      entries_.push_back({id, 1});
    }
    return preempted;
  }

  std::uint32_t Growth(Context& context) const {
    const std::uint32_t block_tokens = context.device({0}).block_tokens;
    std::uint32_t growth = 0;
    for (const RequestId id : running_) {
      const RequestView view = context.request(id);
      growth += view.scheduled_tokens() == view.owned_blocks() * block_tokens;
    }
    return growth;
  }

  /// True if somebody was admitted.
  bool Admit(Context& context) {
    const DeviceView& device = context.device({0});
    std::uint32_t keep = standing_ ? context.memory({0}).StandingGrowth() : 0;
    bool admitted = false;
    while (!waiting_.empty()) {
      const std::uint32_t tokens = context.request(waiting_.front()).next_tokens();
      const std::uint32_t blocks = BlocksFor(tokens, device.block_tokens);
      if (blocks + keep > device.free_blocks) break;
      context.memory({0}).Reserve(waiting_.front(), tokens);
      entries_.push_back({waiting_.front(), tokens});
      running_.push_back(waiting_.front());
      waiting_.pop_front();
      admitted = true;
    }
    return admitted;
  }

  bool standing_;
  std::uint32_t max_steps_;
  PlanId plan_;
  std::deque<RequestId> waiting_;
  std::vector<RequestId> running_;
  std::vector<Entry> entries_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_MINI_BATCH_H_
