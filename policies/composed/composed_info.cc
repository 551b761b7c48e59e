#include "policies/composed/composed_info.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "policies/composed/composed.h"
#include "policies/composed/continuous_batcher.h"
#include "policies/composed/static_batcher.h"
#include "policies/parts/bounded_queue.h"
#include "policies/parts/common_parameters.h"
#include "policies/parts/dynamo_kv.h"
#include "policies/parts/dynamo_kv_2025.h"
#include "policies/parts/early_rejection.h"
#include "policies/parts/hpa_outstanding.h"
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

constexpr std::array<Choice<Router>, 8> kRouters = {{
    {"round_robin", MakeOf<RoundRobin, Router>},
    {"least_outstanding", MakeOf<LeastOutstanding, Router>},
    {"power_of_two", MakeOf<PowerOfTwo, Router>},
    {"token_jsq", MakeOf<TokenJsq, Router>},
    {"reported_jsq",
     [](const Parameters& parameters) -> std::unique_ptr<Router> {
       return std::make_unique<ReportedJsq>(parameters.flag("optimistic_updates"));
     }},
    {"session_affinity", MakeOf<SessionAffinity, Router>},
    {"dynamo_kv",
     [](const Parameters& parameters) -> std::unique_ptr<Router> {
       return std::make_unique<DynamoKv>(DynamoKv::Options{
           .overlap_score_credit = parameters.number("overlap_score_credit"),
           .overlap_score_credit_decay = parameters.number("overlap_score_credit_decay"),
           .prefill_load_scale = parameters.number("prefill_load_scale"),
           .decode_active_request_weight = parameters.number("decode_active_request_weight"),
           .temperature = parameters.number("router_temperature")});
     }},
    {"dynamo_kv_2025",
     [](const Parameters& parameters) -> std::unique_ptr<Router> {
       return std::make_unique<DynamoKv2025>(parameters.flag("optimistic_updates"));
     }},
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
       return std::make_unique<ContinuousBatcher>(
           SmallInteger(parameters, "max_num_seqs"),
           SmallInteger(parameters, "max_num_batched_tokens"));
     }},
    {"static",
     [](const Parameters& parameters) -> std::unique_ptr<Batcher> {
       return std::make_unique<StaticBatcher>(SmallInteger(parameters, "max_num_seqs"));
     }},
}};

constexpr std::array<Choice<Scaler>, 2> kScalers = {{
    {"none", [](const Parameters&) -> std::unique_ptr<Scaler> { return nullptr; }},
    {"hpa",
     [](const Parameters& parameters) -> std::unique_ptr<Scaler> {
       const HpaScaler::Options options = {
           .target = parameters.number("scaler_target"),
           .min_replicas = SmallInteger(parameters, "min_devices"),
           .max_replicas = std::numeric_limits<std::uint32_t>::max(),
           .down_window = parameters.duration("scale_down_window")};
       return std::make_unique<HpaOutstanding>(options,
                                               parameters.choice("scaler_metric") == "mean",
                                               parameters.duration("scale_interval"));
     }},
}};

constexpr auto kRouterNames = NamesOf(kRouters);
constexpr auto kAdmissionNames = NamesOf(kAdmissions);
constexpr auto kBatcherNames = NamesOf(kBatchers);
constexpr auto kScalerNames = NamesOf(kScalers);
constexpr std::array<std::string_view, 2> kScalerMetrics = {"total", "mean"};

constexpr std::array<ParameterSpec, 26> kParameters = {{
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
    kMaxNumSeqsParameter,
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
    {.name = "optimistic_updates",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "count what was sent since the last report (router reported_jsq, dynamo_kv_2025)"},
    {.name = "overlap_score_credit",
     .type = ParameterType::kNumber,
     .default_text = "1",
     .min = 0,
     .max = 1000,
     .unit = "blocks",
     .meaning = "credit for each cached block of the prompt (router dynamo_kv)"},
    {.name = "overlap_score_credit_decay",
     .type = ParameterType::kNumber,
     .default_text = "0",
     .min = 0,
     .max = 1000,
     .meaning =
         "how fast that credit goes with prompts waiting there; 0: never (router dynamo_kv)"},
    {.name = "prefill_load_scale",
     .type = ParameterType::kNumber,
     .default_text = "1",
     .min = 0,
     .max = 1000,
     .meaning = "cost of a block of prompt to compute (router dynamo_kv)"},
    {.name = "decode_active_request_weight",
     .type = ParameterType::kNumber,
     .default_text = "0",
     .min = 0,
     .max = 1'000'000,
     .unit = "blocks",
     .meaning = "cost of each request that is there (router dynamo_kv)"},
    {.name = "router_temperature",
     .type = ParameterType::kNumber,
     .default_text = "0",
     .min = 0,
     .max = 1000,
     .meaning = "of the draw among devices; 0: the cheapest (router dynamo_kv)"},
    {.name = "scaler",
     .type = ParameterType::kChoice,
     .default_text = "none",
     .meaning = "how many devices there are to be",
     .choices = kScalerNames},
    {.name = "scaler_metric",
     .type = ParameterType::kChoice,
     .default_text = "total",
     .meaning = "total: requests outstanding over the target; mean: of the ready devices' (scaler "
                "hpa)",
     .choices = kScalerMetrics},
    {.name = "scaler_target",
     .type = ParameterType::kNumber,
     .default_text = "64",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests outstanding for each device (scaler hpa)"},
    {.name = "scale_interval",
     .type = ParameterType::kDuration,
     .default_text = "15s",
     .min = 1,
     .meaning = "how often the scaler is asked"},
    {.name = "scale_down_window",
     .type = ParameterType::kDuration,
     .default_text = "300s",
     .min = 0,
     .meaning = "down goes no further than the most that was asked for in it (scaler hpa)"},
    {.name = "min_devices",
     .default_text = "1",
     .min = 1,
     .max = 1'000'000,
     .unit = "devices",
     .meaning = "devices, at least (scaler hpa)"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "composed",
    .summary =
        "Made of parts: a router, an admission, a batcher, a victim order and a scaler of choice.",
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

ComposedParts MakeParts(const Parameters& parameters) {
  return {.victim_order = ParseVictimOrder(parameters.choice("victim_order")),
          .router = Make(kRouters, "router", parameters),
          .admission = Make(kAdmissions, "admission", parameters),
          .batcher = Make(kBatchers, "batcher", parameters),
          .scaler = Make(kScalers, "scaler", parameters)};
}

}  // namespace schedtwin
