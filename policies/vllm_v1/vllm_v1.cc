#include "policies/vllm_v1/vllm_v1.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace schedtwin {
namespace {

/// Of async scheduling: one that runs, and one decided ahead.
constexpr std::uint32_t kStepsInFlight = 2;

constexpr std::array<std::string_view, 2> kPolicies = {"fcfs", "priority"};

constexpr std::array<ParameterSpec, 10> kParameters = {{
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
    {.name = "scheduling_policy",
     .type = ParameterType::kChoice,
     .default_text = "fcfs",
     .meaning = "fcfs: the first come is served first, the last admitted preempted; priority: by "
                "priority (the smaller the more urgent), then arrival",
     .choices = kPolicies},
    {.name = "long_prefill_token_threshold",
     .type = ParameterType::kInteger,
     .default_text = "0",
     .min = 0,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens of one prompt in one step, at most; 0: the budget alone limits them"},
    {.name = "chunked_prefill",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "split a prompt that exceeds the budget over several steps"},
    {.name = "full_sequence_must_fit",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "admit a request only when all of its known tokens fit in the free blocks "
                "(vllm#37307, from 2026); off: only its first chunk (2025)"},
    {.name = "watermark",
     .type = ParameterType::kNumber,
     .default_text = "0",
     .min = 0,
     .max = 1,
     .unit = "of all blocks",
     .meaning = "share of the blocks that an admission must leave free while others run "
                "(vllm#44594)"},
    {.name = "async_scheduling",
     .type = ParameterType::kFlag,
     .default_text = "false",
     .meaning = "decide the next step while one runs, one ahead: needs --queue-depth 2; lists its "
                "decodes, whatever standing_set and plan_steps say"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "vllm_v1",
    .summary =
        "vLLM v1: token budget, running first, chunked prefill, paged KV, recompute "
        "preemption.",
    .source =
        "vllm-project/vllm vllm/v1/core/sched/scheduler.py and async_scheduler.py (00024d31, "
        "b4622cf9, 014b2350)",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<VllmV1>(parameters);
    },
    .min_queue_depth = [](const Parameters& parameters) -> std::uint32_t {
      return parameters.flag("async_scheduling") ? kStepsInFlight : 1;
    }};

}  // namespace

const PolicyInfo& VllmV1Info() { return kInfo; }

VllmV1::VllmV1(const Parameters& parameters)
    : mode_(parameters),
      max_num_batched_tokens_(
          static_cast<std::uint32_t>(parameters.integer("max_num_batched_tokens"))),
      max_num_seqs_(static_cast<std::uint32_t>(parameters.integer("max_num_seqs"))),
      long_prefill_token_threshold_(
          static_cast<std::uint32_t>(parameters.integer("long_prefill_token_threshold"))),
      chunked_prefill_(parameters.flag("chunked_prefill")),
      full_sequence_must_fit_(parameters.flag("full_sequence_must_fit")),
      by_priority_(parameters.choice("scheduling_policy") == "priority"),
      async_(parameters.flag("async_scheduling")),
      watermark_(parameters.number("watermark")) {
  if (!async_) return;
  mode_.standing_set = false;
  mode_.plan_steps = 1;
}

void VllmV1::OnStart(Context& context) {
  engines_.resize(context.devices().size(), Engine(by_priority_));
}

// ---- Requests ----

void VllmV1::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  context.actions().Route(request, device);
  Engine& engine = engines_[device.value];
  engine.waiting.Add(context, request);
  if (engine.in_flight == 0) {
    context.actions().Poke(device);
  } else if (engine.waiting.front() == request && engine.running.size() < max_num_seqs_) {
    // Behind one that waits already, it could change nothing before a running one ends.
    Cut(context, engine);
  }
}

void VllmV1::OnCancel(Context& context, RequestId request, CancelBy) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    Engine& engine = engines_[i];
    if (!engine.waiting.Remove(request) && std::erase(engine.running, request) == 0) continue;
    engine.ahead.Waste(request);
    // Also where it waited: the one behind it may fit.
    Cut(context, engine);
    if (engine.in_flight == 0 && !engine.waiting.empty()) {
      context.actions().Poke({static_cast<std::uint32_t>(i)});
    }
    return;
  }
}

void VllmV1::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change != DeviceChange::kFailed) return;
  // They wait for the device to come back, and are computed again in the order they were in.
  Engine& engine = engines_[device.value];
  for (; !engine.running.empty(); engine.running.pop_back()) {
    engine.waiting.PutBack(context, engine.running.back());
  }
  engine.ahead.Clear();
}

// ---- Plans ----

void VllmV1::Cut(Context& context, Engine& engine) {
  if (!engine.cuttable) return;
  engine.cuttable = false;
  context.actions().Abort(engine.plan, AbortAt::kStep);
}

void VllmV1::OnPlanDone(Context& context, const PlanDone& done) {
  Engine& engine = engines_[done.device.value];
  --engine.in_flight;
  engine.cuttable = false;
  if (done.id == engine.ahead.plan) engine.ahead.Clear();  // it never started
  for (const RequestId finished : done.finished) {
    const auto at = std::find(engine.running.begin(), engine.running.end(), finished);
    if (at != engine.running.end()) {
      engine.running.erase(at);
    } else {
      engine.waiting.Remove(finished);  // preempted while its last token was being made
    }
    engine.ahead.Waste(finished);
  }
  if (mode_.standing_set) JoinDecodes(context, done.device, done);
}

void VllmV1::JoinDecodes(Context& context, DeviceId device, const PlanDone& done) {
  Engine& engine = engines_[device.value];
  const auto join = [&](RequestId request) {
    const RequestView view = context.request(request);
    if (view.state() == RequestState::kWaiting && view.phase() == Phase::kDecode) {
      context.actions().Join(device, request);
    }
  };
  if (engine.dissolved) {  // also those that the step had nothing for
    std::for_each(engine.running.begin(), engine.running.end(), join);
    engine.dissolved = false;
  } else {
    for (const Entry& entry : done.entries) join(entry.request);
  }
}

void VllmV1::OnSlotFree(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  if (engine.in_flight >= (async_ ? kStepsInFlight : 1)) return;
  if (!engine.ahead.owed.empty()) return LaunchOwed(context, device);
  engine.ahead.Clear();
  entries_.clear();
  std::uint32_t budget = max_num_batched_tokens_;
  const bool preempted = mode_.standing_set ? ScheduleRunningStanding(context, device, &budget)
                                            : ScheduleRunningListed(context, device, &budget);
  if (!preempted) ScheduleWaiting(context, device, budget);
  if (engine.in_flight > 0) return LaunchAhead(context, device);
  const bool standing = mode_.standing_set && context.device(device).standing > 0;
  if (entries_.empty() && !standing) {
    // Who stood first made room for those behind it: they are asked next.
    if (preempted) context.actions().Poke(device);
    return;
  }
  const bool decodes_only = std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return context.request(entry.request).phase() == Phase::kDecode;
  });
  // After a step that preempted, the first chunk of what waits may fit at once.
  const std::uint32_t steps = decodes_only && !preempted ? mode_.plan_steps : 1;
  Launch(context,
         {.device = device, .entries = entries_, .standing = standing, .max_steps = steps});
}

PlanId VllmV1::Launch(Context& context, const Plan& plan) {
  const Launched launched = context.actions().Launch(plan);
  if (!launched.ok()) return {};
  Engine& engine = engines_[plan.device.value];
  ++engine.in_flight;
  engine.plan = launched.id;
  engine.cuttable = plan.max_steps > 1;
  // Another decision, at this instant: filling the queue goes before waiting for what it does.
  const bool more = async_ && engine.in_flight < kStepsInFlight;
  if (more && context.device(plan.device).depth_left() > 0) context.actions().Poke(plan.device);
  return launched.id;
}

// ---- Async scheduling ----

void VllmV1::LaunchAhead(Context& context, DeviceId device) {
  if (entries_.empty()) return;
  StepAhead& ahead = engines_[device.value].ahead;
  ahead.entries = entries_;
  ahead.plan = Launch(context, {.device = device, .entries = entries_, .late_binding = true});
}

void VllmV1::LaunchOwed(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  if (engine.in_flight > 0) return;
  entries_.clear();
  EnterOwed(context, device);
  const std::uint32_t wasted = engine.ahead.wasted_tokens;
  engine.ahead.Clear();
  Launch(context, {.device = device, .entries = entries_, .padding_tokens = wasted});
}

void VllmV1::EnterOwed(Context& context, DeviceId device) {
  // They fit: the step that fenced their blocks has ended, and nobody has taken any since.
  for (const Entry& entry : engines_[device.value].ahead.owed) {
    const std::uint32_t scheduled = context.request(entry.request).scheduled_tokens();
    context.memory(device).Reserve(entry.request, scheduled + entry.tokens);
    entries_.push_back(entry);
  }
}

void VllmV1::OnPlanStarting(Context& context, PlanId plan) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    StepAhead& ahead = engines_[i].ahead;
    if (ahead.plan != plan) continue;
    const DeviceId device = {static_cast<std::uint32_t>(i)};
    entries_ = ahead.entries;
    EnterOwed(context, device);
    if (!ahead.complete() && !entries_.empty()) {
      context.actions().Amend(plan, {.device = device,
                                     .entries = entries_,
                                     .padding_tokens = ahead.wasted_tokens,
                                     .late_binding = true});
    }
    ahead.Clear();
    return;
  }
}

}  // namespace schedtwin
