#include "policies/hygen/hygen.h"

#include <array>
#include <memory>
#include <string>

#include "policies/parts/common_parameters.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 2> kPredictors = {"fitted", "profile"};
constexpr std::array<std::string_view, 2> kOrders = {"fcfs", "prefix"};
constexpr std::array<std::string_view, 2> kOfflineKv = {"swap", "recompute"};

constexpr std::array<ParameterSpec, 11> kParameters = {{
    {.name = "offline_class",
     .default_text = "1",
     .max = 0xffffffff,
     .unit = "index of a class",
     .meaning = "requests of this class are offline; all others are online"},
    {.name = "step_budget",
     .type = ParameterType::kDuration,
     .default_text = "50ms",
     .min = 1,
     .meaning = "predicted time of a step to which offline work is added, at most: calibrated so "
                "that the online requests keep their targets"},
    {.name = "predictor",
     .type = ParameterType::kChoice,
     .default_text = "fitted",
     .meaning = "a regression fitted to the steps measured, or the run's profile where it has one",
     .choices = kPredictors},
    {.name = "fit_steps",
     .default_text = "16",
     .min = 1,
     .max = 1'000'000,
     .unit = "steps",
     .meaning = "measured before the regression is asked"},
    {.name = "fallback_tokens",
     .default_text = "64",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "offline tokens of a step whose time cannot be told, or which would be empty"},
    {.name = "offline_order",
     .type = ParameterType::kChoice,
     .default_text = "fcfs",
     .meaning = "first come first served, or who shares most of its prompt with what is cached",
     .choices = kOrders},
    {.name = "prefix_window",
     .default_text = "64",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "with offline_order=prefix: of the oldest queued, looked at"},
    {.name = "oldest_percent",
     .default_text = "0",
     .max = 100,
     .unit = "percent",
     .meaning =
         "with offline_order=prefix: of those begun, the oldest in place of who shares most"},
    {.name = "offline_kv",
     .type = ParameterType::kChoice,
     .default_text = "swap",
     .meaning = "offline KV that has to go is swapped out to the host tier, or dropped and "
                "computed again",
     .choices = kOfflineKv},
    {.name = "max_num_batched_tokens",
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens that one step computes, at most (the chunk budget)"},
    {.name = "max_num_seqs",
     .default_text = "256",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests in one step, at most"},
}};

std::string Check(const Parameters& parameters) {
  if (parameters.integer("oldest_percent") == 0 || parameters.choice("offline_order") == "prefix") {
    return {};
  }
  return "oldest_percent mixes the oldest into offline_order=prefix; fcfs takes nobody else";
}

constexpr PolicyInfo kInfo = {
    .name = "hygen",
    .summary =
        "HyGen: online work first, then offline work while the predicted step keeps a calibrated "
        "budget; offline requests that share prefixes together.",
    .source =
        "Sun et al., HyGen: Efficient LLM Serving via Elastic Online-Offline Request Co-location "
        "(arXiv:2501.14808); its code was not read",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Hygen>(parameters);
    },
    .check = Check};

HybridRules RulesOf(const Parameters& parameters) {
  return {.max_tokens = SmallInteger(parameters, "max_num_batched_tokens"),
          .max_requests = SmallInteger(parameters, "max_num_seqs"),
          .beside_online = parameters.duration("step_budget"),
          .offline_only = parameters.duration("step_budget"),
          .best_throughput = false,
          .fallback_tokens = SmallInteger(parameters, "fallback_tokens")};
}

StepPredictor::Fit::Features FeaturesOf(const StepSums& sums) {
  const double prefill = sums.prefill_tokens, decode = sums.decode_context_tokens;
  return {1, prefill, decode, prefill * prefill, decode * decode, sums.prefills, sums.decodes};
}

}  // namespace

const PolicyInfo& HygenInfo() { return kInfo; }

Hygen::Hygen(const Parameters& parameters)
    : offline_class_(SmallInteger(parameters, "offline_class")),
      kv_mode_(OfflineKvModeOf(parameters.choice("offline_kv"))),
      order_({.by_prefix = parameters.choice("offline_order") == "prefix",
              .window = SmallInteger(parameters, "prefix_window"),
              .oldest_percent = SmallInteger(parameters, "oldest_percent")}),
      rules_(RulesOf(parameters)),
      predictor_(parameters.choice("predictor") == "profile", FeaturesOf,
                 SmallInteger(parameters, "fit_steps")) {}

void Hygen::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.emplace_back(context, device.id, *this);
  }
}

void Hygen::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  context.actions().Route(request, device);
  Engine& engine = engines_[device.value];
  if (context.request(request).request_class() == offline_class_) {
    engine.offline.PushBack(request);
    engine.engine.Wake(context);
  } else {
    engine.engine.AddOnline(context, request);
  }
}

void Hygen::OnCancel(Context& context, RequestId request, CancelBy) {
  for (Engine& engine : engines_) {
    if (engine.engine.Remove(context, request)) return;
  }
}

void Hygen::OnOperationDone(Context& context, const OperationDone& done) {
  engines_[done.device.value].engine.OnOperationDone(context, done);
}

void Hygen::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kFailed) engines_[device.value].engine.OnFailed(context);
}

void Hygen::OnPlanDone(Context& context, const PlanDone& done) {
  engines_[done.device.value].engine.OnPlanDone(context, done);
}

void Hygen::OnSlotFree(Context& context, DeviceId device) {
  engines_[device.value].engine.OnSlotFree(context);
}

}  // namespace schedtwin
