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

void Composed::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.push_back(std::make_unique<Engine>(*this, device.id));
  }
}

void Composed::OnReport(Context&, const DeviceReport& report) { router_->OnReport(report); }

void Composed::OnArrival(Context& context, RequestId request) {
  const std::uint64_t key = ResponseKey(context.request(request));
  if (key != 0 && cache_.Lookup(key, context.now())) {
    context.actions().Finish(request, EndReason::kCached);
    return;
  }
  const DeviceId device = router_->Pick(context, request);
  if (!device.valid() || !admission_->Admit(context, request,
                                            {device, engine(device).waiting.size(),
                                             engine(device).waiting.tokens()})) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  router_->OnSent(context, request, device);
  context.actions().Route(request, device);
  Engine& to = engine(device);
  const bool first = to.waiting.empty();
  to.waiting.PushBack(context, request);
  to.batching.OnQueued(context, first);  // behind a head that was refused it can change nothing
}

void Composed::OnCancel(Context& context, RequestId request, CancelBy) {
  const DeviceId device = context.request(request).device();
  router_->OnEnd(context, request, device);
  engine(device).batching.Remove(context, request);
}

void Composed::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kFailed) engine(device).batching.OnFailed(context);
}

void Composed::OnPlanDone(Context& context, const PlanDone& done) {
  engine(done.device).batching.OnPlanDone(context, done);
  for (const Entry& entry : done.entries) {
    const RequestView view = context.request(entry.request);
    const bool over =
        view.state() != RequestState::kWaiting && view.state() != RequestState::kStanding;
    if (done.steps > 0 && !over && view.output_tokens() == 1) {
      router_->OnPrefilled(context, entry.request, done.device);
    }
  }
  for (const RequestId request : done.finished) OnEnd(context, request, done.device);
}

void Composed::OnEnd(Context& context, RequestId request, DeviceId device) {
  const RequestView view = context.request(request);
  if (view.output_tokens() == 1) router_->OnPrefilled(context, request, device);
  router_->OnEnd(context, request, device);
  if (const std::uint64_t key = ResponseKey(view); key != 0) cache_.Insert(key, context.now());
}

void Composed::OnSlotFree(Context& context, DeviceId device) {
  engine(device).batching.OnSlotFree(context);
}

}  // namespace schedtwin
