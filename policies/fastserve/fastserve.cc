#include "policies/fastserve/fastserve.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>

#include "policies/parts/common_parameters.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 2> kPreempts = {"swap", "recompute"};

constexpr std::array<ParameterSpec, 12> kParameters = {{
    {.name = "max_batch_size",
     .default_text = "16",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests in one step, at most"},
    {.name = "max_tokens_per_batch",
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "prompt tokens that one step computes, at most"},
    {.name = "base_quantum",
     .type = ParameterType::kDuration,
     .default_text = "10ms",
     .min = 1,
     .max = 1'000'000'000'000,
     .meaning = "time that a request may be served at level 0 before it is demoted"},
    {.name = "quantum_growth",
     .default_text = "2",
     .min = 2,
     .max = 1'000'000,
     .meaning = "quantum of a level over that of the level before"},
    {.name = "skip_join",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning =
         "a request joins at the first level whose quantum covers its prefill; off: all join "
         "at level 0 (plain MLFQ)"},
    {.name = "prefill_time_per_token",
     .type = ParameterType::kDuration,
     .default_text = "100us",
     .meaning = "what skip-join goes by in a run without a profile"},
    {.name = "preempt",
     .type = ParameterType::kChoice,
     .default_text = "swap",
     .meaning = "who gives up its blocks is swapped out to the host tier, or computed again",
     .choices = kPreempts},
    {.name = "proactive",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "of swaps: keep a reserve of free blocks, and bring KV back ahead of need"},
    {.name = "min_free_blocks",
     .default_text = "0",
     .max = 1'000'000'000,
     .unit = "blocks",
     .meaning = "the reserve, if that is more than max_batch_size"},
    {.name = "min_free_host_percent",
     .default_text = "10",
     .max = 100,
     .unit = "percent of the host blocks",
     .meaning = "of swaps: no prompt is begun while fewer host blocks are free"},
    {.name = "starvation_period",
     .default_text = "1000",
     .min = 1,
     .unit = "batches",
     .meaning = "after so many the idle are promoted to level 0"},
    {.name = "starvation_idle",
     .type = ParameterType::kDuration,
     .default_text = "3s",
     .meaning = "who was not served for so long is idle"},
}};

std::string Check(const Parameters& parameters) {
  const bool reserves = parameters.flag("proactive") && parameters.choice("preempt") == "swap";
  if (parameters.integer("min_free_blocks") == 0 || reserves) return {};
  return "min_free_blocks is a reserve for swaps ahead of need; it goes with proactive=true and "
         "preempt=swap only";
}

constexpr PolicyInfo kInfo = {
    .name = "fastserve",
    .summary =
        "FastServe: skip-join multi-level feedback queue, iteration-level preemption, "
        "proactive KV swaps.",
    .source =
        "Wu et al., Fast Distributed Inference Serving for Large Language Models "
        "(arXiv:2305.05920); LLMServe/FastServe fastserve/scheduler.py (187a2742)",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<FastServe>(parameters);
    },
    .check = Check};

}  // namespace

const PolicyInfo& FastServeInfo() { return kInfo; }

FastServe::FastServe(const Parameters& parameters)
    : max_batch_size_(SmallInteger(parameters, "max_batch_size")),
      max_tokens_per_batch_(SmallInteger(parameters, "max_tokens_per_batch")),
      base_quantum_(parameters.duration("base_quantum")),
      quantum_growth_(parameters.integer("quantum_growth")),
      skip_join_(parameters.flag("skip_join")),
      prefill_time_per_token_(parameters.duration("prefill_time_per_token")),
      swap_(parameters.choice("preempt") == "swap"),
      proactive_(parameters.flag("proactive")),
      min_free_blocks_(SmallInteger(parameters, "min_free_blocks")),
      min_free_host_percent_(SmallInteger(parameters, "min_free_host_percent")),
      starvation_period_(static_cast<std::uint64_t>(parameters.integer("starvation_period"))),
      starvation_idle_(parameters.duration("starvation_idle")) {}

// ---- Requests come and go ----

void FastServe::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.push_back({.queues = LevelQueues(base_quantum_, quantum_growth_),
                        .kv = KvSwapper(context, device.id, swap_),
                        .batch = {},
                        .formed = {},
                        .plan = {}});
  }
}

void FastServe::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  context.actions().Route(request, device);
  Engine& engine = engines_[device.value];
  engine.queues.Add(request, LevelAtArrival(context, device, request));
  if (engine.batch.empty()) context.actions().Poke(device);
}

std::uint32_t FastServe::LevelAtArrival(Context& context, DeviceId device, RequestId request) {
  if (!skip_join_) return 0;
  const Entry prompt = {request, context.request(request).prompt_tokens()};
  const Duration prefill = context.services()
                               .Predict({.device = device, .entries = {&prompt, 1}})
                               .value_or(prefill_time_per_token_ * prompt.tokens);
  return engines_[device.value].queues.LevelFor(prefill);
}

void FastServe::OnCancel(Context& context, RequestId request, CancelBy) {
  for (std::uint32_t i = 0; i < engines_.size(); ++i) {
    Engine& engine = engines_[i];
    if (const LevelQueues::Index job = engine.queues.Find(request); job != LevelQueues::kNone) {
      engine.queues.Unqueue(job);
      engine.queues.Remove(job);
      return;
    }
    const auto is_it = [&](LevelQueues::Index job) {
      return job != LevelQueues::kNone && engine.queues.job(job).request == request;
    };
    const auto at = std::find_if(engine.batch.begin(), engine.batch.end(), is_it);
    const bool unfinished = is_it(engine.unfinished);
    if (at == engine.batch.end() && !unfinished) continue;
    engine.queues.Remove(unfinished ? engine.unfinished : *at);
    if (at != engine.batch.end()) engine.batch.erase(at);
    if (unfinished) engine.unfinished = LevelQueues::kNone;
    // The others may have waited for its copy alone.
    if (!engine.plan.valid()) context.actions().Poke({i});
    return;
  }
}

void FastServe::OnDeviceChange(Context&, DeviceId device, DeviceChange change) {
  if (change != DeviceChange::kFailed) return;
  Engine& engine = engines_[device.value];
  PutBackBatch(engine);
  if (engine.unfinished == LevelQueues::kNone) return;
  engine.queues.PushFront(engine.unfinished);  // what it had is gone
  engine.unfinished = LevelQueues::kNone;
}

void FastServe::PutBackBatch(Engine& engine) {
  for (; !engine.batch.empty(); engine.batch.pop_back()) {
    if (engine.batch.back() != engine.unfinished) engine.queues.PushFront(engine.batch.back());
  }
}

// ---- Steps ----

void FastServe::OnSlotFree(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  if (engine.plan.valid()) return;
  if (engine.batch.empty()) Form(context, device);
  if (!engine.batch.empty()) LaunchBatch(context, device);
}

void FastServe::OnOperationDone(Context& context, const OperationDone& done) {
  Engine& engine = engines_[done.device.value];
  engine.kv.OnDone(done);
  if (!engine.plan.valid()) context.actions().Poke(done.device);
}

void FastServe::OnPlanDone(Context& context, const PlanDone& done) {
  Engine& engine = engines_[done.device.value];
  engine.plan = PlanId{};
  if (done.steps == 0) {
    PutBackBatch(engine);
  } else {
    Charge(engine, done);
  }
  if (context.device(done.device).up()) MakeRoom(context, done.device);
}

void FastServe::Charge(Engine& engine, const PlanDone& done) {
  for (const LevelQueues::Index index : engine.batch) {
    LevelQueues::Job& job = engine.queues.job(index);
    if (std::binary_search(done.finished.begin(), done.finished.end(), job.request)) {
      engine.queues.Remove(index);
      continue;
    }
    job.served += done.end - engine.formed;
    job.last_served = done.end;
    job.was_served = true;
    if (index == engine.unfinished) continue;
    if (job.served > engine.queues.Quantum(job.level)) {
      ++job.level;
      job.served = Duration();
    }
    engine.queues.PushFront(index);
  }
  engine.batch.clear();
}

void FastServe::Form(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  PopBatch(context, device);
  if (engine.batch.empty()) return;
  if (!MakeRoom(context, device)) return PutBackBatch(engine);
  engine.formed = context.now();
  if (++engine.batches % starvation_period_ == 0) {
    engine.queues.PromoteIdle(context.now(), starvation_idle_);
  }
}

void FastServe::PopBatch(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  const std::uint32_t device_tokens = context.device(device).max_step_tokens;
  const std::uint64_t most_tokens =
      device_tokens > 0 ? device_tokens : std::numeric_limits<std::uint64_t>::max();
  std::uint64_t prompt_tokens = 0, all_tokens = 0;
  if (engine.unfinished != LevelQueues::kNone) {
    const RequestId request = engine.queues.job(engine.unfinished).request;
    prompt_tokens = all_tokens = StepTokens(context.device(device), context.request(request));
    engine.batch.push_back(engine.unfinished);
  }
  skipped_.clear();
  while (!engine.queues.empty()) {
    const LevelQueues::Index job = engine.queues.First();
    const RequestView view = context.request(engine.queues.job(job).request);
    if (SkipsPrefill(context, device, view)) {
      engine.queues.Unqueue(job);
      skipped_.push_back(job);
      continue;
    }
    const std::uint32_t tokens = StepTokens(context.device(device), view);
    const bool fits = prompt_tokens + tokens <= max_tokens_per_batch_ &&
                      all_tokens + tokens <= most_tokens && engine.batch.size() < max_batch_size_;
    if (!fits) break;
    engine.queues.Unqueue(job);
    engine.batch.push_back(job);
    all_tokens += tokens;
    if (view.phase() == Phase::kPrefill) prompt_tokens += tokens;
  }
  for (const LevelQueues::Index job : skipped_) engine.queues.PushFront(job);
}

bool FastServe::SkipsPrefill(const Context& context, DeviceId device,
                             const RequestView& request) const {
  const Engine& engine = engines_[device.value];
  if (!engine.kv.swaps() || request.scheduled_tokens() > 0) return false;
  const std::uint64_t percent = min_free_host_percent_;
  return std::uint64_t{engine.kv.AvailableHostBlocks(context)} * 100 <
         percent * context.device(device).host_blocks;
}

std::uint32_t FastServe::StepTokens(const DeviceView& device, const RequestView& request) const {
  const std::uint32_t tokens = std::min(request.next_tokens(), max_tokens_per_batch_);
  return device.max_step_tokens > 0 ? std::min(tokens, device.max_step_tokens) : tokens;
}

void FastServe::LaunchBatch(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  bool waits = false;
  std::uint32_t missing = 0;
  for (const LevelQueues::Index job : engine.batch) {
    const RequestId request = engine.queues.job(job).request;
    const RequestView view = context.request(request);
    waits |= view.state() == RequestState::kMoving || view.tier() == Tier::kHost;
    if (view.state() == RequestState::kWaiting && view.tier() == Tier::kHost) {
      engine.kv.BringIn(context, request);
    }
    missing += MissingBlocks(context.device(device), view);
  }
  if (waits || missing > context.device(device).free_blocks) return;
  entries_.clear();
  engine.unfinished = LevelQueues::kNone;
  for (const LevelQueues::Index job : engine.batch) {
    const RequestId request = engine.queues.job(job).request;
    const RequestView view = context.request(request);
    const std::uint32_t tokens = StepTokens(context.device(device), view);
    context.memory(device).Reserve(request, view.scheduled_tokens() + tokens);
    entries_.push_back({request, tokens});
    if (tokens < view.next_tokens()) engine.unfinished = job;
  }
  engine.plan = context.actions().Launch({.device = device, .entries = entries_}).id;
}

// ---- Memory ----

std::uint32_t FastServe::Reserve(const Engine& engine) const {
  return proactive_ && engine.kv.swaps() ? std::max(max_batch_size_, min_free_blocks_) : 0;
}

std::uint32_t FastServe::MissingBlocks(const DeviceView& device, const RequestView& request) const {
  const std::uint32_t needed =
      BlocksFor(request.scheduled_tokens() + StepTokens(device, request), device.block_tokens);
  const std::uint32_t held = KvSwapper::HeldBlocks(request);
  return needed > held ? needed - held : 0;
}

FastServe::Demand FastServe::DemandOf(const Context& context, DeviceId device) const {
  const Engine& engine = engines_[device.value];
  Demand demand;
  for (const LevelQueues::Index job : engine.batch) {
    const RequestView view = context.request(engine.queues.job(job).request);
    demand.missing += MissingBlocks(context.device(device), view);
    if (KvSwapper::HeldBlocks(view) == 0) demand.to_return += view.owned_blocks();
  }
  return demand;
}

bool FastServe::MakeRoom(Context& context, DeviceId device) {
  Engine& engine = engines_[device.value];
  const Demand demand = DemandOf(context, device);
  const std::int64_t reserve = Reserve(engine);
  std::int64_t lacking = reserve + demand.missing - engine.kv.AvailableBlocks(context);
  if (lacking <= 0) {
    if (proactive_ && engine.kv.swaps()) BringBackAhead(context, device, demand);
    return true;
  }
  for (LevelQueues::Index job = engine.queues.Last(); job != LevelQueues::kNone && lacking > 0;
       job = engine.queues.Previous(job)) {
    const RequestId request = engine.queues.job(job).request;
    const RequestView view = context.request(request);
    if (!KvSwapper::CanPutOut(view)) continue;
    lacking -= view.owned_blocks();
    engine.kv.PutOut(context, request);
  }
  CutBatch(context, device, &lacking);
  return lacking <= reserve;
}

void FastServe::CutBatch(Context& context, DeviceId device, std::int64_t* lacking) {
  Engine& engine = engines_[device.value];
  cut_.clear();
  while (*lacking > 0 && engine.batch.size() > 1) {
    const LevelQueues::Index job = engine.batch.back();
    engine.batch.pop_back();
    cut_.push_back(job);
    const RequestId request = engine.queues.job(job).request;
    const RequestView view = context.request(request);
    *lacking -= MissingBlocks(context.device(device), view);
    if (!KvSwapper::CanPutOut(view)) continue;
    *lacking -= view.owned_blocks();
    engine.kv.PutOut(context, request);
  }
  for (; !cut_.empty(); cut_.pop_back()) engine.queues.PushFront(cut_.back());
}

void FastServe::BringBackAhead(Context& context, DeviceId device, const Demand& demand) {
  Engine& engine = engines_[device.value];
  const std::int64_t kept = Reserve(engine) + demand.missing + demand.to_return;
  std::uint32_t looked_at = 0;
  for (LevelQueues::Index job = engine.queues.First();
       job != LevelQueues::kNone && looked_at < max_batch_size_;
       job = engine.queues.Next(job), ++looked_at) {
    const RequestId request = engine.queues.job(job).request;
    const RequestView view = context.request(request);
    if (view.state() != RequestState::kWaiting || view.tier() != Tier::kHost) continue;
    const std::int64_t blocks = view.owned_blocks();
    if (engine.kv.AvailableBlocks(context) < kept + blocks) continue;
    if (context.device(device).free_blocks < demand.missing + blocks) continue;
    engine.kv.BringIn(context, request);
  }
}

}  // namespace schedtwin
