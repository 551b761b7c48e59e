// ContinuousEngine: one device that decodes: who runs on it, KV that grows with them, prompts
// computed one after another, recompute preemption, the prefix cache where the run has one, and
// plans of one or of many steps. Whom to admit says an EngineQueue, how much goes into a step a
// Batcher, who gives up its memory a VictimOrder. The policy passes events on and puts arrivals
// into the queue; it owns the engine and the parts, which must outlive it. One thread.
//
// Standing and listed decodes, plans of one and of many steps give the same outcome: see
// policies/composed/README.md.
#ifndef SCHEDTWIN_POLICIES_PARTS_CONTINUOUS_ENGINE_H_
#define SCHEDTWIN_POLICIES_PARTS_CONTINUOUS_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/api/context.h"
#include "policies/parts/batcher.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/victim_order.h"

namespace schedtwin {

class ContinuousEngine {
 public:
  ContinuousEngine(DeviceId device, DecodeMode mode, VictimOrder victim_order,
                   const Batcher* batcher, EngineQueue* waiting)
      : device_(device),
        mode_(mode),
        victim_order_(victim_order),
        batcher_(batcher),
        waiting_(waiting) {}

  DeviceId device() const { return device_; }
  /// In order of admission.
  std::span<const RequestId> running() const { return running_; }
  /// A plan is in flight.
  bool launched() const { return plan_.valid(); }

  /// Somebody was put into the queue. `may_be_next`: he could be admitted at the next step, which a
  /// plan of many steps must then not pass over.
  void OnQueued(Context& context, bool may_be_next) {
    if (!plan_.valid()) {
      context.actions().Poke(device_);
    } else if (may_be_next) {
      Cut(context);
    }
  }

  /// One that is over, or goes elsewhere, waits and runs here no more.
  void Remove(Context& context, RequestId request) {
    if (!waiting_->Remove(context, request)) Forget(request);
    Cut(context);  // the one behind it may fit
  }

  /// Takes one that decodes out, its KV with it, at a boundary: it runs here no more, until
  /// somebody gives it to an engine again.
  void Take(Context& context, RequestId request) {
    if (mode_.standing_set) context.actions().Leave(device_, request);
    Forget(request);
  }

  /// Takes over one that decodes and whose KV is on this device; it runs from the next step on, as
  /// the last admitted. Whether the batch has room for it is the caller's to see to.
  void Give(Context& context, RequestId request) {
    running_.push_back(request);
    if (mode_.standing_set) context.actions().Join(device_, request);
  }

  /// An operation reads this one's KV beside the steps (none: it has ended): it cannot be
  /// preempted.
  void SetCopied(RequestId request) { copied_ = request; }

  /// They wait for the device to come back, and are computed again in the order they were in.
  void OnFailed(Context& context) {
    for (; !running_.empty(); running_.pop_back()) waiting_->PutBack(context, running_.back());
    partial_ = {};
  }

  void OnPlanDone(Context& context, const PlanDone& done) {
    plan_ = {};
    cuttable_ = false;
    for (const Entry& entry : done.entries) {
      const RequestView view = context.request(entry.request);
      if (view.state() != RequestState::kWaiting || view.phase() != Phase::kDecode) continue;
      if (partial_ == entry.request) partial_ = {};
      if (mode_.standing_set) context.actions().Join(device_, entry.request);
    }
    for (const RequestId request : done.finished) Forget(request);
  }

  /// Puts the next step together and launches it. False, and nothing is launched, if the one that
  /// is copied would have to be preempted: the caller asks again when that operation has ended.
  bool OnSlotFree(Context& context) {
    entries_.clear();
    stuck_ = false;
    StepDraft step;
    if (const std::uint32_t most = context.device(device_).max_step_tokens; most > 0) {
      step.max_tokens = most;
    }
    bool preempted = FitDecodes(context);
    step.running = static_cast<std::uint32_t>(running_.size());
    step.decodes = step.running - (partial_.valid() ? 1 : 0);
    if (!stuck_) preempted |= ContinuePrompt(context, &step);
    if (stuck_) return false;
    // Before anyone is admitted: what decodes take is then gone, as the next step of a standing set
    // is, and who comes back from the cache with one token to compute is no decode of this step.
    if (!mode_.standing_set) ListDecodes(context);
    if (!preempted) AdmitWaiting(context, &step);
    // After a step that preempted, whoever waits may fit at the next boundary.
    Launch(context,
           /*many_steps=*/step.prompt_tokens == 0 && !preempted && !waiting_->HeadMayChange());
    return true;
  }

 private:
  void Cut(Context& context) {
    if (!cuttable_) return;
    cuttable_ = false;
    context.actions().Abort(plan_, AbortAt::kStep);
  }
  void Forget(RequestId request) {
    std::erase(running_, request);
    if (partial_ == request) partial_ = {};
  }

  bool FitDecodes(Context& context) {
    bool preempted = false;
    while (Growth(context) > context.device(device_).free_blocks) {
      PreemptOne(context);
      if (stuck_) break;
      preempted = true;
    }
    return preempted;
  }

  bool ContinuePrompt(Context& context, StepDraft* step) {
    if (!partial_.valid()) return false;
    const RequestId request = partial_;
    const RequestView view = context.request(request);
    const std::uint32_t tokens = batcher_->PromptTokens(*step, view.next_tokens());
    if (tokens == 0) return false;
    bool preempted = false;
    while (!Fits(context, request, view.scheduled_tokens() + tokens)) {
      preempted = true;
      if (PreemptOne(context) == request || stuck_) return true;
    }
    TakePrompt(context, request, tokens, step);
    return preempted;
  }

  void AdmitWaiting(Context& context, StepDraft* step) {
    // Behind a prompt that is not done nobody is admitted.
    while (!waiting_->empty() && !partial_.valid() && batcher_->Admits(*step)) {
      const RequestId request = waiting_->Head(context);
      if (!waiting_->MayJoin(context, running_)) return;
      const std::uint32_t known = context.request(request).next_tokens();
      Cache& cache = context.cache(device_);
      const std::uint32_t hit = cache.HitTokens(request);
      const std::uint32_t tokens = batcher_->PromptTokens(*step, known - hit);
      if (tokens == 0 || !Fits(context, request, known, hit)) return;
      waiting_->PopHead(context);
      if (hit > 0) cache.Adopt(request, hit);
      running_.push_back(request);
      ++step->running;
      ++step->admitted;
      TakePrompt(context, request, tokens, step);
    }
  }

  void TakePrompt(Context& context, RequestId request, std::uint32_t tokens, StepDraft* step) {
    const RequestView view = context.request(request);
    if (context.device(device_).total_blocks > 0) {
      context.memory(device_).Reserve(request, view.scheduled_tokens() + tokens);
    }
    partial_ = tokens < view.next_tokens() ? request : RequestId{};
    entries_.push_back({request, tokens});
    step->prompt_tokens += tokens;
  }

  void ListDecodes(Context& context) {
    for (const RequestId request : running_) {
      const RequestView view = context.request(request);
      if (view.phase() != Phase::kDecode) continue;
      if (context.device(device_).total_blocks > 0) {
        context.memory(device_).Reserve(request, view.scheduled_tokens() + 1);
      }
      entries_.push_back({request, 1});
    }
  }

  void Launch(Context& context, bool many_steps) {
    const bool standing = mode_.standing_set && context.device(device_).standing > 0;
    if (entries_.empty() && !standing) return;
    const std::uint32_t steps = many_steps ? mode_.plan_steps : 1;
    const Plan plan = {
        .device = device_, .entries = entries_, .standing = standing, .max_steps = steps};
    plan_ = context.actions().Launch(plan).id;
    cuttable_ = steps > 1;
  }

  RequestId PreemptOne(Context& context) {
    const std::size_t at = PickVictim(victim_order_, context, running_);
    const RequestId victim = running_[at];
    if (victim == copied_) {
      stuck_ = true;
      return {};
    }
    Forget(victim);
    context.actions().Preempt(victim, PreemptMode::kRecompute);
    waiting_->PutBack(context, victim);
    return victim;
  }

  /// Blocks that the next token of all who decode will take.
  std::uint32_t Growth(Context& context) {
    if (mode_.standing_set) return context.memory(device_).StandingGrowth();
    std::uint32_t blocks = 0;
    for (const RequestId request : running_) {
      const RequestView view = context.request(request);
      if (view.phase() == Phase::kDecode) {
        blocks += MissingBlocks(context, view, view.scheduled_tokens() + 1);
      }
    }
    return blocks;
  }

  /// True if the blocks for `tokens` tokens of the request are free beside that growth, once the
  /// cached ones of its first `hit_tokens` are its own.
  bool Fits(Context& context, RequestId request, std::uint32_t tokens,
            std::uint32_t hit_tokens = 0) {
    std::uint32_t missing = MissingBlocks(context, context.request(request), tokens);
    if (hit_tokens > 0) {
      missing -= hit_tokens / context.device(device_).block_tokens -
                 context.cache(device_).HitFreeBlocks(request);
    }
    return missing + Growth(context) <= context.device(device_).free_blocks;
  }

  std::uint32_t MissingBlocks(const Context& context, const RequestView& request,
                              std::uint32_t tokens) const {
    const std::uint32_t needed = BlocksFor(tokens, context.device(device_).block_tokens);
    return needed - std::min(needed, request.owned_blocks());
  }

  DeviceId device_;
  DecodeMode mode_;
  VictimOrder victim_order_;
  const Batcher* batcher_;
  EngineQueue* waiting_;
  std::vector<RequestId> running_;
  RequestId partial_;      ///< of those, the one whose prompt is not computed yet
  RequestId copied_;       ///< by an operation, at most one
  bool stuck_ = false;     ///< that one would have to be preempted
  PlanId plan_;            ///< in flight
  bool cuttable_ = false;  ///< it runs many steps and has not been cut
  std::vector<Entry> entries_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_CONTINUOUS_ENGINE_H_
