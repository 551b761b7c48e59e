#include "policies/vtc/vtc.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "policies/parts/common_parameters.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 2> kForms = {"paper", "released"};

constexpr std::array<ParameterSpec, 9> kParameters = {{
    {.name = "form",
     .type = ParameterType::kChoice,
     .default_text = "paper",
     .meaning =
         "as in the paper, or as in the released code: lift where nobody waits, first token, "
         "admission by peak memory",
     .choices = kForms},
    {.name = "input_weight",
     .default_text = "1",
     .min = 0,
     .max = 1000,
     .meaning = "price of a prompt token"},
    {.name = "output_weight",
     .default_text = "2",
     .min = 0,
     .max = 1000,
     .meaning = "price of an output token"},
    {.name = "weights",
     .type = ParameterType::kIntegers,
     .default_text = "",
     .min = 1,
     .max = 1000,
     .meaning = "shares of the tenants 0, 1, ...; of those beyond: 1"},
    kMaxNumSeqsParameter,
    {.name = "max_num_batched_tokens",
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "prompt tokens that one step computes, at most; a longer prompt comes alone"},
    {.name = "max_total_tokens",
     .default_text = "0",
     .min = 0,
     .max = 1'000'000'000,
     .unit = "tokens",
     .meaning = "what the peak of a batch has to stay below (form released); 0: the device's KV"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "vtc",
    .summary = "Fair service for each tenant by virtual token counters, weighted.",
    .source =
        "Sheng et al., Fairness in Serving Large Language Models (OSDI'24); "
        "Ying1123/VTC-artifact 192c2e20",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Vtc>(parameters);
    }};

vtc::Prices PricesOf(const Parameters& parameters) {
  vtc::Prices prices;
  prices.input = static_cast<std::uint64_t>(parameters.integer("input_weight"));
  prices.output = static_cast<std::uint64_t>(parameters.integer("output_weight"));
  for (const std::int64_t weight : parameters.integers("weights")) {
    prices.weights.push_back(static_cast<std::uint64_t>(weight));
  }
  return prices;
}

}  // namespace

const PolicyInfo& VtcInfo() { return kInfo; }

Vtc::Vtc(const Parameters& parameters)
    : mode_(parameters),
      form_{.released = parameters.choice("form") == "released",
            .max_total_tokens = static_cast<std::uint64_t>(parameters.integer("max_total_tokens"))},
      counters_(PricesOf(parameters), !form_.released),
      batcher_(SmallInteger(parameters, "max_num_seqs"),
               SmallInteger(parameters, "max_num_batched_tokens")) {}

void Vtc::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.push_back(std::make_unique<Engine>(this, device.id));
  }
}

void Vtc::ChargeOutput(const Context& context) {
  for (const auto& engine : engines_) engine->waiting.ChargeOutput(context);
}

void Vtc::OnArrival(Context& context, RequestId request) {
  const DeviceId device = router_.Next(context);
  if (!engine(device).waiting.CouldEverJoin(context, request)) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  context.actions().Route(request, device);
  ChargeOutput(context);  // a newcomer is lifted to what the others have been served until now
  Engine& to = engine(device);
  to.waiting.Add(context, request);
  const bool its_turn = to.waiting.Head(context) == request;
  to.batching.OnQueued(context, its_turn || to.waiting.HeadMayChange());
}

void Vtc::OnCancel(Context& context, RequestId request, CancelBy) {
  // Its own device it may not know: it was sent to one that is down.
  for (const auto& engine : engines_) {
    const bool here =
        engine->waiting.OnEnd(context, request) || engine->waiting.Remove(context, request);
    if (here) return engine->batching.Remove(context, request);
  }
}

void Vtc::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kFailed) engine(device).batching.OnFailed(context);
}

void Vtc::OnPlanDone(Context& context, const PlanDone& done) {
  Engine& on = engine(done.device);
  on.waiting.ChargeOutput(context);
  for (const RequestId request : done.finished) {
    // Else it was preempted while its last token was being made.
    if (!on.waiting.OnEnd(context, request)) on.waiting.Remove(context, request);
  }
  on.batching.OnPlanDone(context, done);
}

void Vtc::OnSlotFree(Context& context, DeviceId device) {
  ChargeOutput(context);
  engine(device).batching.OnSlotFree(context);
}

}  // namespace schedtwin
