#include "policies/conserve/conserve.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "policies/parts/common_parameters.h"

namespace schedtwin {
namespace {

constexpr std::array<ParameterSpec, 10> kParameters = {{
    {.name = "offline_class",
     .default_text = "1",
     .max = 0xffffffff,
     .unit = "index of a class",
     .meaning = "requests of this class are offline; all others are online"},
    {.name = "tbt_target",
     .type = ParameterType::kDuration,
     .default_text = "100ms",
     .min = 1,
     .meaning = "predicted time of a step with online work to which offline work is added"},
    {.name = "ttft_target",
     .type = ParameterType::kDuration,
     .default_text = "500ms",
     .min = 1,
     .meaning =
         "an online arrival that would wait longer for its first token cuts an offline step"},
    {.name = "token_sizing",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "size steps by predicted time; off: offline work fills each step to "
                "max_num_batched_tokens"},
    {.name = "layer_abort",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "cut steps of offline work at a layer's end; off: they run to their own"},
    {.name = "offline_kv",
     .type = ParameterType::kChoice,
     .default_text = "checkpoint",
     .meaning = "offline KV is copied to the host tier as it grows, or when it has to go, or is "
                "dropped and computed again",
     .choices = kOfflineKvNames},
    {.name = "max_num_batched_tokens",
     .default_text = "8192",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens that one step computes, at most"},
    {.name = "max_num_seqs",
     .default_text = "256",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests in one step, at most"},
    {.name = "fallback_tokens",
     .default_text = "64",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "offline tokens beside online work in a step whose time cannot be told"},
    {.name = "fit_steps",
     .default_text = "16",
     .min = 1,
     .max = 1'000'000,
     .unit = "steps",
     .meaning = "in a run without a profile: measured before a step's time can be told"},
}};

constexpr PolicyInfo kInfo = {
    .name = "conserve",
    .summary =
        "ConServe: offline work beside online work within a TBT target, steps cut at a layer for "
        "online arrivals, offline KV checkpointed to the host tier.",
    .source =
        "Qiao et al., ConServe: Fine-Grained GPU Harvesting for LLM Online and Offline Co-Serving "
        "(arXiv:2410.01228v2); no public code found",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Conserve>(parameters);
    }};

HybridRules RulesOf(const Parameters& parameters) {
  const bool sized = parameters.flag("token_sizing");
  return {.max_tokens = SmallInteger(parameters, "max_num_batched_tokens"),
          .max_requests = SmallInteger(parameters, "max_num_seqs"),
          .beside_online = sized ? std::optional(parameters.duration("tbt_target")) : std::nullopt,
          .offline_only = std::nullopt,
          .best_throughput = sized,
          .fallback_tokens = SmallInteger(parameters, "fallback_tokens")};
}

/// T(P, C): tokens computed now, and what they and the decodes attend to.
StepPredictor::Fit::Features FeaturesOf(const StepSums& sums) {
  return {1, sums.prefill_tokens + sums.decodes, sums.prefill_work, sums.decode_context_tokens,
          sums.decodes};
}

}  // namespace

const PolicyInfo& ConserveInfo() { return kInfo; }

Conserve::Conserve(const Parameters& parameters)
    : offline_class_(SmallInteger(parameters, "offline_class")),
      ttft_target_(parameters.duration("ttft_target")),
      layer_abort_(parameters.flag("layer_abort")),
      kv_mode_(OfflineKvModeOf(parameters.choice("offline_kv"))),
      rules_(RulesOf(parameters)),
      predictor_(/*asks_profile=*/true, FeaturesOf, SmallInteger(parameters, "fit_steps")) {}

void Conserve::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.emplace_back(context, device.id, rules_, kv_mode_, predictor_);
  }
}

void Conserve::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  context.actions().Route(request, device);
  Engine& engine = engines_[device.value];
  if (context.request(request).request_class() == offline_class_) {
    engine.offline.PushBack(context, request);
    engine.engine.Wake(context);
    return;
  }
  engine.engine.AddOnline(context, request);
  if (layer_abort_ && engine.engine.offline_only()) CutForOnline(context, device, request);
}

void Conserve::CutForOnline(Context& context, DeviceId device, RequestId request) {
  Engine& engine = engines_[device.value];
  const PlanId plan = engine.engine.plan();
  if (engine.cut == plan) return;
  const RequestView view = context.request(request);
  const std::uint32_t left = view.next_tokens() - context.cache(device).HitTokens(request);
  const Entry prefill = {request, std::min(left, rules_.max_tokens)};
  const auto rest = engine.engine.PredictedRest(context.now());
  const auto own = engine.engine.predictor().Predict(context, device, {&prefill, 1});
  if (!rest.has_value() || !own.has_value()) return;
  const Duration waited = context.now() - view.arrival();
  if (waited + *rest + *own <= ttft_target_) return;
  context.actions().Abort(plan, AbortAt::kLayer);
  engine.cut = plan;
}

void Conserve::OnCancel(Context& context, RequestId request, CancelBy) {
  for (Engine& engine : engines_) {
    if (engine.engine.Remove(context, request)) return;
  }
}

void Conserve::OnOperationDone(Context& context, const OperationDone& done) {
  engines_[done.device.value].engine.OnOperationDone(context, done);
}

void Conserve::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kFailed) engines_[device.value].engine.OnFailed(context);
}

void Conserve::OnPlanDone(Context& context, const PlanDone& done) {
  engines_[done.device.value].engine.OnPlanDone(context, done);
}

void Conserve::OnSlotFree(Context& context, DeviceId device) {
  engines_[device.value].engine.OnSlotFree(context);
}

}  // namespace schedtwin
