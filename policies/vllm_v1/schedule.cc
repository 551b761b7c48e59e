// The two loops of the scheduler: what runs in the next step.
#include <algorithm>

#include "policies/vllm_v1/vllm_v1.h"

namespace schedtwin {
namespace {

std::uint32_t MissingBlocks(const DeviceView& device, const RequestView& request,
                            std::uint32_t tokens) {
  const std::uint32_t needed = BlocksFor(tokens, device.block_tokens);
  return needed > request.owned_blocks() ? needed - request.owned_blocks() : 0;
}

}  // namespace

// ---- Running requests ----

std::uint32_t VllmV1::StepTokens(const RequestView& request, std::uint32_t budget) const {
  // Its last token is being made: there is nothing left to do for it.
  const bool ends =
      async_ && request.known_tokens() - request.prompt_tokens() >= request.max_new_tokens();
  if (ends) return 0;
  std::uint32_t tokens = std::min(request.next_tokens(), budget);
  if (long_prefill_token_threshold_ > 0) tokens = std::min(tokens, long_prefill_token_threshold_);
  return tokens;
}

bool VllmV1::ScheduleRunningListed(Context& context, DeviceId device, std::uint32_t* budget) {
  Engine& engine = engines_[device.value];
  bool preempted = false;
  for (std::size_t i = 0; i < engine.running.size() && *budget > 0; ++i) {
    const RequestId request = engine.running[i];
    const std::uint32_t tokens = StepTokens(context.request(request), *budget);
    if (tokens == 0) continue;
    while (!Enter(context, device, {request, tokens})) {
      const VictimOrder order =
          by_priority_ ? VictimOrder::kLowestPriority : VictimOrder::kLastAdmitted;
      const std::size_t victim = PickVictim(order, context, engine.running);
      Preempt(context, device, victim, budget);
      preempted = true;
      if (victim == i) return true;
      if (victim < i) --i;  // in the step or not: nobody is passed over (vllm#49097)
    }
    *budget -= tokens;
  }
  return preempted;
}

void VllmV1::Preempt(Context& context, DeviceId device, std::size_t victim, std::uint32_t* budget) {
  Engine& engine = engines_[device.value];
  const RequestId request = engine.running[victim];
  engine.running.erase(engine.running.begin() + static_cast<std::ptrdiff_t>(victim));
  for (std::vector<Entry>* part : {&entries_, &engine.ahead.owed}) {
    const auto at = std::find_if(part->begin(), part->end(),
                                 [&](const Entry& entry) { return entry.request == request; });
    if (at == part->end()) continue;
    *budget += at->tokens;
    if (part == &engine.ahead.owed) {
      const RequestView view = context.request(request);
      engine.ahead.owed_blocks -=
          MissingBlocks(context.device(device), view, view.scheduled_tokens() + at->tokens);
    }
    part->erase(at);
  }
  context.actions().Preempt(request, PreemptMode::kRecompute);
  engine.waiting.PutBack(context, request);
}

bool VllmV1::Enter(Context& context, DeviceId device, const Entry& entry) {
  StepAhead& ahead = engines_[device.value].ahead;
  const DeviceView& view = context.device(device);
  const RequestView request = context.request(entry.request);
  const std::uint32_t tokens = request.scheduled_tokens() + entry.tokens;
  if (view.fenced_blocks > 0) {
    const std::uint32_t missing = MissingBlocks(view, request, tokens);
    if (missing + ahead.owed_blocks > view.free_blocks + view.fenced_blocks) return false;
    if (missing > view.free_blocks) {
      ahead.owed.push_back(entry);
      ahead.owed_blocks += missing;
      return true;
    }
  }
  if (!context.memory(device).Reserve(entry.request, tokens)) return false;
  entries_.push_back(entry);
  return true;
}

// ---- The same with a standing set ----

std::uint32_t VllmV1::StandingGrowth(Context& context, DeviceId device) const {
  return mode_.standing_set ? context.memory(device).StandingGrowth() : 0;
}

void VllmV1::FindPrefilling(const Context& context, DeviceId device) {
  const std::vector<RequestId>& running = engines_[device.value].running;
  prefilling_.clear();
  std::size_t left = running.size() - context.device(device).standing;
  for (std::size_t i = running.size(); left > 0 && i > 0; --i) {
    if (context.request(running[i - 1]).state() == RequestState::kStanding) continue;
    prefilling_.push_back(running[i - 1]);
    --left;
  }
  std::reverse(prefilling_.begin(), prefilling_.end());
}

std::uint32_t VllmV1::PrefillGrowth(const Context& context, DeviceId device,
                                    std::uint32_t budget) const {
  std::uint32_t growth = 0;
  for (const RequestId request : prefilling_) {
    const RequestView view = context.request(request);
    const std::uint32_t tokens = StepTokens(view, budget);
    growth += MissingBlocks(context.device(device), view, view.scheduled_tokens() + tokens);
    budget -= tokens;
  }
  return growth;
}

bool VllmV1::ScheduleRunningStanding(Context& context, DeviceId device, std::uint32_t* budget) {
  Engine& engine = engines_[device.value];
  const DeviceView& view = context.device(device);
  FindPrefilling(context, device);
  bool preempted = false;
  while (StandingGrowth(context, device) + PrefillGrowth(context, device, *budget - view.standing) >
         view.free_blocks) {
    if (by_priority_) {
      Dissolve(context, device);
      return ScheduleRunningListed(context, device, budget);
    }
    if (!prefilling_.empty() && prefilling_.back() == engine.running.back()) prefilling_.pop_back();
    Preempt(context, device, engine.running.size() - 1, budget);
    preempted = true;
  }
  *budget -= view.standing;
  for (const RequestId request : prefilling_) {
    const std::uint32_t tokens = StepTokens(context.request(request), *budget);
    Enter(context, device, {request, tokens});
    *budget -= tokens;
  }
  return preempted;
}

void VllmV1::Dissolve(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  for (const RequestId request : engine.running) {
    if (context.request(request).state() != RequestState::kStanding) continue;
    context.actions().Leave(device, request);
  }
  engine.dissolved = true;
}

// ---- Waiting requests ----

void VllmV1::ScheduleWaiting(Context& context, DeviceId device, std::uint32_t budget) {
  Engine& engine = engines_[device.value];
  if (!engine.ahead.owed.empty()) return;  // fenced blocks go to who runs
  const DeviceView& view = context.device(device);
  Cache& cache = context.cache(device);
  const std::uint32_t growth = StandingGrowth(context, device);
  const auto watermark = static_cast<std::uint32_t>(watermark_ * view.total_blocks);
  while (!engine.waiting.empty() && budget > 0 && engine.running.size() < max_num_seqs_) {
    const RequestId request = engine.waiting.front();
    const std::uint32_t hit = cache.HitTokens(request);
    const std::uint32_t left = context.request(request).next_tokens() - hit;
    const bool long_prefill =
        long_prefill_token_threshold_ > 0 && left > long_prefill_token_threshold_;
    const std::uint32_t wanted = long_prefill ? long_prefill_token_threshold_ : left;
    if (!chunked_prefill_ && wanted > budget) break;
    const std::uint32_t tokens = std::min(wanted, budget);
    const std::uint32_t keep = growth + (engine.running.empty() ? 0 : watermark);
    const std::uint32_t covered = hit + (full_sequence_must_fit_ ? left : tokens);
    // Cached blocks that nobody uses are among the free ones, and are taken like any other.
    const std::uint32_t blocks =
        BlocksFor(covered, view.block_tokens) -
        (hit == 0 ? 0 : hit / view.block_tokens - cache.HitFreeBlocks(request));
    if (blocks + keep > view.free_blocks) break;
    if (hit > 0) cache.Adopt(request, hit);
    context.memory(device).Reserve(request, hit + tokens);
    engine.waiting.PopFront();
    engine.running.push_back(request);
    entries_.push_back({request, tokens});
    budget -= tokens;
  }
}

}  // namespace schedtwin
