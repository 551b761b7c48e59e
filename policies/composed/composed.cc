#include "policies/composed/composed.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "policies/composed/continuous_batcher.h"
#include "policies/composed/static_batcher.h"
#include "policies/parts/bounded_queue.h"
#include "policies/parts/early_rejection.h"
#include "policies/parts/least_outstanding.h"
#include "policies/parts/power_of_two.h"
#include "policies/parts/reported_jsq.h"
#include "policies/parts/round_robin.h"
#include "policies/parts/session_affinity.h"
#include "policies/parts/token_bucket.h"
#include "policies/parts/token_jsq.h"

namespace schedtwin {
namespace {

// What can be chosen: a new part is its own file and one row here.

template <class Part>
struct Choice {
  std::string_view name;
  std::unique_ptr<Part> (*make)(const Parameters& parameters);
};

template <class Part, std::size_t kCount>
constexpr std::array<std::string_view, kCount> NamesOf(
    const std::array<Choice<Part>, kCount>& choices) {
  std::array<std::string_view, kCount> names;
  for (std::size_t i = 0; i < kCount; ++i) names[i] = choices[i].name;
  return names;
}

template <class Part, std::size_t kCount>
std::unique_ptr<Part> Make(const std::array<Choice<Part>, kCount>& choices,
                           std::string_view parameter, const Parameters& parameters) {
  const auto chosen = std::find_if(choices.begin(), choices.end(), [&](const Choice<Part>& choice) {
    return choice.name == parameters.choice(parameter);
  });
  return chosen->make(parameters);
}

template <class Part, class Base>
std::unique_ptr<Base> MakeOf(const Parameters&) {
  return std::make_unique<Part>();
}

std::uint32_t Integer(const Parameters& parameters, std::string_view name) {
  return static_cast<std::uint32_t>(parameters.integer(name));
}

constexpr std::array<Choice<Router>, 6> kRouters = {{
    {"round_robin", MakeOf<RoundRobin, Router>},
    {"least_outstanding", MakeOf<LeastOutstanding, Router>},
    {"power_of_two", MakeOf<PowerOfTwo, Router>},
    {"token_jsq", MakeOf<TokenJsq, Router>},
    {"reported_jsq", MakeOf<ReportedJsq, Router>},
    {"session_affinity", MakeOf<SessionAffinity, Router>},
}};

constexpr std::array<Choice<Admission>, 4> kAdmissions = {{
    {"all", MakeOf<AdmitAll, Admission>},
    {"bounded_queue",
     [](const Parameters& parameters) -> std::unique_ptr<Admission> {
       return std::make_unique<BoundedQueue>(parameters.integer("max_waiting"));
     }},
    {"token_bucket",
     [](const Parameters& parameters) -> std::unique_ptr<Admission> {
       return std::make_unique<TokenBucket>(parameters.integer("tenant_rate"),
                                            parameters.integer("tenant_burst"));
     }},
    {"early_rejection",
     [](const Parameters& parameters) -> std::unique_ptr<Admission> {
       return std::make_unique<EarlyRejection>(parameters.duration("ttft_limit"));
     }},
}};

constexpr std::array<Choice<Batcher>, 2> kBatchers = {{
    {"continuous",
     [](const Parameters& parameters) -> std::unique_ptr<Batcher> {
       return std::make_unique<ContinuousBatcher>(Integer(parameters, "max_num_seqs"),
                                                  Integer(parameters, "max_num_batched_tokens"));
     }},
    {"static",
     [](const Parameters& parameters) -> std::unique_ptr<Batcher> {
       return std::make_unique<StaticBatcher>(Integer(parameters, "max_num_seqs"));
     }},
}};

constexpr auto kRouterNames = NamesOf(kRouters);
constexpr auto kAdmissionNames = NamesOf(kAdmissions);
constexpr auto kBatcherNames = NamesOf(kBatchers);

constexpr std::array<ParameterSpec, 14> kParameters = {{
    {.name = "router",
     .type = ParameterType::kChoice,
     .default_text = "round_robin",
     .meaning = "which device an arrival goes to",
     .choices = kRouterNames},
    {.name = "admission",
     .type = ParameterType::kChoice,
     .default_text = "all",
     .meaning = "which arrivals are let in; the others are rejected",
     .choices = kAdmissionNames},
    {.name = "batcher",
     .type = ParameterType::kChoice,
     .default_text = "continuous",
     .meaning = "what goes into a step",
     .choices = kBatcherNames},
    {.name = "victim_order",
     .type = ParameterType::kChoice,
     .default_text = "last_admitted",
     .meaning = "who is preempted when memory is short",
     .choices = kVictimOrderNames},
    {.name = "max_num_seqs",
     .default_text = "128",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests running at once on a device, at most"},
    {.name = "max_num_batched_tokens",
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens that one step computes, at most (batcher continuous)"},
    {.name = "max_waiting",
     .default_text = "64",
     .min = 1,
     .max = 1'000'000'000,
     .unit = "requests",
     .meaning = "requests waiting for a device, at most (admission bounded_queue)"},
    {.name = "tenant_rate",
     .default_text = "1",
     .min = 1,
     .max = 1'000'000'000,
     .unit = "requests/s",
     .meaning = "what each tenant may send in the long run (admission token_bucket)"},
    {.name = "tenant_burst",
     .default_text = "10",
     .min = 1,
     .max = 1'000'000'000,
     .unit = "requests",
     .meaning = "what each tenant may send at once (admission token_bucket)"},
    {.name = "ttft_limit",
     .type = ParameterType::kDuration,
     .default_text = "1s",
     .min = 1,
     .meaning = "predicted TTFT beyond which an arrival is rejected (admission early_rejection)"},
    {.name = "response_cache",
     .default_text = "0",
     .min = 0,
     .max = 1'000'000,
     .unit = "responses",
     .meaning = "responses kept to answer the same prompt again; 0: none"},
    {.name = "response_ttl",
     .type = ParameterType::kDuration,
     .default_text = "300s",
     .min = 1,
     .meaning = "how long a response is kept, at most"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "composed",
    .summary = "Made of parts: a router, an admission, a batcher and a victim order of choice.",
    .source = "policies/parts; each part names its own source",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Composed>(parameters);
    }};

VictimOrder ParseVictimOrder(std::string_view name) {
  const auto at = std::find(kVictimOrderNames.begin(), kVictimOrderNames.end(), name);
  return static_cast<VictimOrder>(at - kVictimOrderNames.begin());
}

/// Blocks that the request lacks for `tokens` tokens.
std::uint32_t MissingBlocks(const Context& context, DeviceId device, const RequestView& request,
                            std::uint32_t tokens) {
  const std::uint32_t needed = BlocksFor(tokens, context.device(device).block_tokens);
  return needed - std::min(needed, request.owned_blocks());
}

}  // namespace

const PolicyInfo& ComposedInfo() { return kInfo; }

Composed::Composed(const Parameters& parameters)
    : mode_(parameters),
      victim_order_(ParseVictimOrder(parameters.choice("victim_order"))),
      router_(Make(kRouters, "router", parameters)),
      admission_(Make(kAdmissions, "admission", parameters)),
      batcher_(Make(kBatchers, "batcher", parameters)),
      cache_(static_cast<std::size_t>(parameters.integer("response_cache")),
             parameters.duration("response_ttl")) {}

void Composed::OnStart(Context& context) { engines_.resize(context.devices().size()); }

void Composed::OnReport(Context&, const DeviceReport& report) { router_->OnReport(report); }

void Composed::OnArrival(Context& context, RequestId request) {
  const std::uint64_t key = ResponseKey(context.request(request));
  if (key != 0 && cache_.Lookup(key, context.now())) {
    context.actions().Finish(request, EndReason::kCached);
    return;
  }
  const DeviceId device = router_->Pick(context, request);
  if (!device.valid() ||
      !admission_->Admit(context, request,
                         {device, engine(device).waiting.size(), engine(device).waiting_tokens})) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  router_->OnSent(context, request, device);
  context.actions().Route(request, device);
  Engine& to = engine(device);
  const bool first = to.waiting.empty();
  to.waiting.PushBack(request);
  to.waiting_tokens += context.request(request).next_tokens();
  if (!to.plan.valid()) {
    context.actions().Poke(device);
  } else if (first) {  // behind a head that was refused it can change nothing
    Cut(context, to);
  }
}

void Composed::OnCancel(Context& context, RequestId request, CancelBy) {
  const DeviceId device = context.request(request).device();
  Engine& on = engine(device);
  if (on.waiting.Remove(request)) {
    on.waiting_tokens -= context.request(request).next_tokens();
  } else {
    std::erase(on.running, request);
    if (on.partial == request) on.partial = {};
  }
  router_->OnEnd(context, request, device);
  Cut(context, on);
}

void Composed::Cut(Context& context, Engine& engine) {
  if (!engine.cuttable) return;
  engine.cuttable = false;
  context.actions().Abort(engine.plan, AbortAt::kStep);
}

void Composed::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change != DeviceChange::kFailed) return;
  // They wait for the device to come back, and are computed again in the order they were in.
  Engine& on = engine(device);
  for (const RequestId request : on.running) {
    on.waiting_tokens += context.request(request).next_tokens();
  }
  on.waiting.PutBack(&on.running);
  on.partial = {};
}

void Composed::OnPlanDone(Context& context, const PlanDone& done) {
  Engine& on = engine(done.device);
  on.plan = {};
  on.cuttable = false;
  for (const Entry& entry : done.entries) {
    const RequestView view = context.request(entry.request);
    if (view.state() != RequestState::kWaiting) continue;  // it is over
    if (done.steps > 0 && view.output_tokens() == 1) {
      router_->OnPrefilled(context, entry.request, done.device);
    }
    if (view.phase() != Phase::kDecode) continue;
    if (on.partial == entry.request) on.partial = {};
    if (mode_.standing_set) context.actions().Join(done.device, entry.request);
  }
  for (const RequestId request : done.finished) OnEnd(context, request, done.device);
}

void Composed::OnEnd(Context& context, RequestId request, DeviceId device) {
  const RequestView view = context.request(request);
  std::erase(engine(device).running, request);
  if (view.output_tokens() == 1) router_->OnPrefilled(context, request, device);
  router_->OnEnd(context, request, device);
  if (const std::uint64_t key = ResponseKey(view); key != 0) cache_.Insert(key, context.now());
}

void Composed::OnSlotFree(Context& context, DeviceId device) {
  Engine& on = engine(device);
  entries_.clear();
  StepDraft step;
  if (const std::uint32_t most = context.device(device).max_step_tokens; most > 0) {
    step.max_tokens = most;
  }
  bool preempted = FitDecodes(context, device);
  step.running = static_cast<std::uint32_t>(on.running.size());
  step.decodes = step.running - (on.partial.valid() ? 1 : 0);
  preempted |= ContinuePrompt(context, device, &step);
  if (!preempted) AdmitWaiting(context, device, &step);
  // After a step that preempted, whoever waits may fit at the next boundary.
  const bool many_steps = entries_.empty() && !preempted;
  if (!mode_.standing_set) ListDecodes(context, device);
  Launch(context, device, many_steps);
}

bool Composed::FitDecodes(Context& context, DeviceId device) {
  bool preempted = false;
  while (Growth(context, device) > context.device(device).free_blocks) {
    PreemptOne(context, device);
    preempted = true;
  }
  return preempted;
}

bool Composed::ContinuePrompt(Context& context, DeviceId device, StepDraft* step) {
  Engine& on = engine(device);
  if (!on.partial.valid()) return false;
  const RequestId request = on.partial;
  const RequestView view = context.request(request);
  const std::uint32_t tokens = batcher_->PromptTokens(*step, view.next_tokens());
  if (tokens == 0) return false;
  bool preempted = false;
  while (!Fits(context, device, request, view.scheduled_tokens() + tokens)) {
    preempted = true;
    if (PreemptOne(context, device) == request) return true;
  }
  TakePrompt(context, device, request, tokens, step);
  return preempted;
}

void Composed::AdmitWaiting(Context& context, DeviceId device, StepDraft* step) {
  Engine& on = engine(device);
  // Prompts are computed one after another: behind one that is not done nobody is admitted.
  while (!on.waiting.empty() && !on.partial.valid() && batcher_->Admits(*step)) {
    const RequestId request = on.waiting.front();
    const std::uint32_t known = context.request(request).next_tokens();
    const std::uint32_t tokens = batcher_->PromptTokens(*step, known);
    if (tokens == 0 || !Fits(context, device, request, known)) return;
    on.waiting.PopFront();
    on.waiting_tokens -= known;
    on.running.push_back(request);
    ++step->running;
    ++step->admitted;
    TakePrompt(context, device, request, tokens, step);
  }
}

void Composed::TakePrompt(Context& context, DeviceId device, RequestId request,
                          std::uint32_t tokens, StepDraft* step) {
  const RequestView view = context.request(request);
  if (context.device(device).total_blocks > 0) {
    context.memory(device).Reserve(request, view.scheduled_tokens() + tokens);
  }
  engine(device).partial = tokens < view.next_tokens() ? request : RequestId{};
  entries_.push_back({request, tokens});
  step->prompt_tokens += tokens;
}

void Composed::ListDecodes(Context& context, DeviceId device) {
  for (const RequestId request : engine(device).running) {
    const RequestView view = context.request(request);
    if (view.phase() != Phase::kDecode) continue;
    if (context.device(device).total_blocks > 0) {
      context.memory(device).Reserve(request, view.scheduled_tokens() + 1);
    }
    entries_.push_back({request, 1});
  }
}

void Composed::Launch(Context& context, DeviceId device, bool many_steps) {
  const bool standing = mode_.standing_set && context.device(device).standing > 0;
  if (entries_.empty() && !standing) return;
  const std::uint32_t steps = many_steps ? mode_.plan_steps : 1;
  Engine& on = engine(device);
  on.plan =
      context.actions()
          .Launch({.device = device, .entries = entries_, .standing = standing, .max_steps = steps})
          .id;
  on.cuttable = steps > 1;
}

RequestId Composed::PreemptOne(Context& context, DeviceId device) {
  Engine& on = engine(device);
  const std::size_t at = PickVictim(victim_order_, context, on.running);
  const RequestId victim = on.running[at];
  on.running.erase(on.running.begin() + static_cast<std::ptrdiff_t>(at));
  if (on.partial == victim) on.partial = {};
  context.actions().Preempt(victim, PreemptMode::kRecompute);
  on.waiting.PushFront(victim);
  on.waiting_tokens += context.request(victim).next_tokens();
  return victim;
}

std::uint32_t Composed::Growth(Context& context, DeviceId device) {
  if (mode_.standing_set) return context.memory(device).StandingGrowth();
  std::uint32_t blocks = 0;
  for (const RequestId request : engine(device).running) {
    const RequestView view = context.request(request);
    if (view.phase() != Phase::kDecode) continue;
    blocks += MissingBlocks(context, device, view, view.scheduled_tokens() + 1);
  }
  return blocks;
}

bool Composed::Fits(Context& context, DeviceId device, RequestId request, std::uint32_t tokens) {
  const std::uint32_t missing = MissingBlocks(context, device, context.request(request), tokens);
  return missing + Growth(context, device) <= context.device(device).free_blocks;
}

}  // namespace schedtwin
