#include "policies/vllm_v1/vllm_v1.h"

#include <algorithm>
#include <array>
#include <memory>

namespace schedtwin {
namespace {

constexpr std::array<ParameterSpec, 7> kParameters = {{
    {.name = "max_num_batched_tokens",
     .type = ParameterType::kInteger,
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens that one step computes, at most (the token budget)"},
    {.name = "max_num_seqs",
     .type = ParameterType::kInteger,
     .default_text = "128",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests running at once, at most"},
    {.name = "chunked_prefill",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "split a prompt that exceeds the budget over several steps"},
    {.name = "full_sequence_must_fit",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "admit a request only when all of its known tokens fit in the free blocks "
                "(vllm#37307, from 2026); off: only its first chunk (2025)"},
    {.name = "watermark_permille",
     .type = ParameterType::kInteger,
     .default_text = "0",
     .min = 0,
     .max = 1000,
     .unit = "thousandths of all blocks",
     .meaning = "blocks that an admission must leave free once something is scheduled "
                "(vllm#44594)"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "vllm_v1",
    .summary =
        "vLLM v1: token budget, running first, chunked prefill, paged KV, recompute "
        "preemption.",
    .source = "vllm-project/vllm vllm/v1/core/sched/scheduler.py (00024d31, b4622cf9), fcfs policy",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<VllmV1>(parameters);
    }};

}  // namespace

const PolicyInfo& VllmV1Info() { return kInfo; }

VllmV1::VllmV1(const Parameters& parameters)
    : mode_(parameters),
      max_num_batched_tokens_(
          static_cast<std::uint32_t>(parameters.integer("max_num_batched_tokens"))),
      max_num_seqs_(static_cast<std::uint32_t>(parameters.integer("max_num_seqs"))),
      chunked_prefill_(parameters.flag("chunked_prefill")),
      full_sequence_must_fit_(parameters.flag("full_sequence_must_fit")),
      watermark_permille_(static_cast<std::uint32_t>(parameters.integer("watermark_permille"))) {}

void VllmV1::OnStart(Context& context) { engines_.resize(context.devices().size()); }

void VllmV1::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  context.actions().Route(request, device);
  Engine& engine = engines_[device.value];
  // Behind a request that waits already, this one can change nothing before a running one ends.
  const bool may_admit = engine.waiting.empty() && engine.running.size() < max_num_seqs_;
  engine.waiting.PushBack(request);
  if (!engine.plan.valid()) {
    context.actions().Poke(device);
  } else if (may_admit) {
    Cut(context, engine);
  }
}

void VllmV1::OnCancel(Context& context, RequestId request, CancelBy) {
  for (Engine& engine : engines_) {
    // Also where it waited: the one behind it may fit.
    if (engine.waiting.Remove(request) || std::erase(engine.running, request) > 0) {
      return Cut(context, engine);
    }
  }
}

void VllmV1::OnDeviceChange(Context&, DeviceId device, DeviceChange change) {
  if (change != DeviceChange::kFailed) return;
  // They wait for the device to come back, and are computed again in the order they were in.
  Engine& engine = engines_[device.value];
  engine.waiting.PutBack(&engine.running);
}

void VllmV1::Cut(Context& context, Engine& engine) {
  if (!engine.cuttable) return;
  engine.cuttable = false;
  context.actions().Abort(engine.plan, AbortAt::kStep);
}

void VllmV1::OnPlanDone(Context& context, const PlanDone& done) {
  Engine& engine = engines_[done.device.value];
  engine.plan = PlanId{};
  engine.cuttable = false;
  for (const RequestId finished : done.finished) {
    const auto at = std::find(engine.running.begin(), engine.running.end(), finished);
    if (at != engine.running.end()) engine.running.erase(at);
  }
  if (!mode_.standing_set) return;
  for (const Entry& entry : done.entries) {
    const RequestView view = context.request(entry.request);
    if (view.state() == RequestState::kWaiting && view.phase() == Phase::kDecode) {
      context.actions().Join(done.device, entry.request);
    }
  }
}

void VllmV1::OnSlotFree(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  entries_.clear();
  std::uint32_t budget = max_num_batched_tokens_;
  const bool preempted = mode_.standing_set ? ScheduleRunningStanding(context, device, &budget)
                                            : ScheduleRunningListed(context, device, &budget);
  if (!preempted) ScheduleWaiting(context, device, budget);
  const bool standing = mode_.standing_set && context.device(device).standing > 0;
  if (entries_.empty() && !standing) return;
  const bool decodes_only = std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return context.request(entry.request).phase() == Phase::kDecode;
  });
  // After a step that preempted, the first chunk of what waits may fit at once.
  const std::uint32_t steps = decodes_only && !preempted ? mode_.plan_steps : 1;
  const Launched launched = context.actions().Launch(
      {.device = device, .entries = entries_, .standing = standing, .max_steps = steps});
  engine.plan = launched.id;
  engine.cuttable = steps > 1;
}

std::uint32_t VllmV1::StandingGrowth(Context& context, DeviceId device) const {
  return mode_.standing_set ? context.memory(device).StandingGrowth() : 0;
}

bool VllmV1::ScheduleRunningStanding(Context& context, DeviceId device, std::uint32_t* budget) {
  Engine& engine = engines_[device.value];
  bool preempted = false;
  while (StandingGrowth(context, device) > context.device(device).free_blocks) {
    PreemptLast(context, device);
    preempted = true;
  }
  *budget -= context.device(device).standing;
  // Only the last admitted can still be in its prompt: a chunk that leaves some of the prompt over
  // has spent the budget, and nobody is admitted after it until it is done.
  if (engine.running.empty()) return preempted;
  const RequestId last = engine.running.back();
  const RequestView view = context.request(last);
  if (view.state() == RequestState::kStanding) return preempted;
  const std::uint32_t tokens = std::min(view.next_tokens(), *budget);
  if (tokens == 0) return preempted;
  if (!Fits(context, device, last, view.scheduled_tokens() + tokens,
            StandingGrowth(context, device))) {
    PreemptLast(context, device);
    return true;
  }
  context.memory(device).Reserve(last, view.scheduled_tokens() + tokens);
  entries_.push_back({last, tokens});
  *budget -= tokens;
  return preempted;
}

bool VllmV1::ScheduleRunningListed(Context& context, DeviceId device, std::uint32_t* budget) {
  Engine& engine = engines_[device.value];
  bool preempted = false;
  for (std::size_t i = 0; i < engine.running.size() && *budget > 0; ++i) {
    const RequestId request = engine.running[i];
    const RequestView view = context.request(request);
    const std::uint32_t tokens = std::min(view.next_tokens(), *budget);
    while (!context.memory(device).Reserve(request, view.scheduled_tokens() + tokens)) {
      const bool self = engine.running.back() == request;
      PreemptLast(context, device);
      preempted = true;
      if (self) return true;
    }
    entries_.push_back({request, tokens});
    *budget -= tokens;
  }
  return preempted;
}

void VllmV1::PreemptLast(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  const RequestId victim = engine.running.back();
  engine.running.pop_back();
  context.actions().Preempt(victim, PreemptMode::kRecompute);
  engine.waiting.PushFront(victim);
}

bool VllmV1::Fits(const Context& context, DeviceId device, RequestId request, std::uint32_t tokens,
                  std::uint32_t keep_free_blocks) const {
  const DeviceView& view = context.device(device);
  const std::uint32_t needed = BlocksFor(tokens, view.block_tokens);
  const std::uint32_t owned = context.request(request).owned_blocks();
  const std::uint32_t missing = needed > owned ? needed - owned : 0;
  return missing + keep_free_blocks <= view.free_blocks;
}

void VllmV1::ScheduleWaiting(Context& context, DeviceId device, std::uint32_t budget) {
  Engine& engine = engines_[device.value];
  const DeviceView& view = context.device(device);
  Cache& cache = context.cache(device);
  const std::uint32_t growth = StandingGrowth(context, device);
  const auto watermark =
      static_cast<std::uint32_t>(std::uint64_t{view.total_blocks} * watermark_permille_ / 1000);
  while (!engine.waiting.empty() && budget > 0 && engine.running.size() < max_num_seqs_) {
    const RequestId request = engine.waiting.front();
    const std::uint32_t hit = cache.HitTokens(request);
    const std::uint32_t left = context.request(request).next_tokens() - hit;
    const std::uint32_t tokens = std::min(left, budget);
    if (!chunked_prefill_ && tokens < left) break;
    const bool something_scheduled = !entries_.empty() || view.standing > 0;
    const std::uint32_t keep = growth + (something_scheduled ? watermark : 0);
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
