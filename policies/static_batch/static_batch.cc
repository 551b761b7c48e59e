#include "policies/static_batch/static_batch.h"

#include <algorithm>
#include <array>
#include <memory>

#include "policies/parts/batch_limit.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 2> kReserveChoices = {"max_model_len", "max_new_tokens"};

constexpr std::array<ParameterSpec, 5> kParameters = {{
    {.name = "max_batch_size",
     .type = ParameterType::kInteger,
     .default_text = "32",
     .min = 1,
     .max = 1'000'000,
     .unit = "requests",
     .meaning = "requests (decoder) or units (one-shot) in one batch, at most"},
    {.name = "reserve",
     .type = ParameterType::kChoice,
     .default_text = "max_model_len",
     .meaning = "KV that each request of a batch reserves: the model's whole length (Orca's "
                "released form), or its prompt and max_new_tokens (Orca's paper)",
     .choices = kReserveChoices},
    {.name = "keep_padding",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "prompts are padded to the longest of the batch, and slots of ended requests are "
                "computed until the last ends"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

constexpr PolicyInfo kInfo = {
    .name = "static_batch",
    .summary = "FasterTransformer: takes a batch from the queue and runs it to completion.",
    .source =
        "NVIDIA/FasterTransformer; admission as in microsoft/sarathi-serve's "
        "faster_transformer_scheduler",
    .one_shot = true,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<StaticBatch>(parameters);
    }};

bool HasKv(const Context& context, DeviceId device) {
  return context.device(device).total_blocks > 0;
}

}  // namespace

const PolicyInfo& StaticBatchInfo() { return kInfo; }

StaticBatch::StaticBatch(const Parameters& parameters)
    : mode_(parameters),
      max_batch_size_(static_cast<std::uint32_t>(parameters.integer("max_batch_size"))),
      reserve_model_len_(parameters.choice("reserve") == "max_model_len"),
      keep_padding_(parameters.flag("keep_padding")) {}

void StaticBatch::OnStart(Context& context) {
  batches_.resize(context.devices().size());
  idle_.AddAll(context);
  max_batch_size_ = BatchLimit(context, max_batch_size_);
}

void StaticBatch::OnArrival(Context& context, RequestId request) {
  waiting_.PushBack(request);
  idle_.WakeOne(context);
}

void StaticBatch::OnCancel(Context&, RequestId request, CancelBy) {
  waiting_.Remove(request);
  for (Batch& batch : batches_) std::erase(batch.unfinished, request);
}

void StaticBatch::OnPlanDone(Context& context, const PlanDone& done) {
  std::vector<RequestId>& unfinished = batches_[done.device.value].unfinished;
  for (const RequestId request : done.finished) std::erase(unfinished, request);
  if (done.why == PlanEnd::kFailed) {
    waiting_.PutBack(&unfinished);
    idle_.WakeOne(context);
    return;
  }
  if (!mode_.standing_set || !HasKv(context, done.device)) return;
  for (const RequestId request : unfinished) {
    if (context.request(request).state() == RequestState::kWaiting) {
      context.actions().Join(done.device, request);
    }
  }
}

void StaticBatch::OnSlotFree(Context& context, DeviceId device) {
  if (!batches_[device.value].unfinished.empty()) {
    LaunchDecode(context, device);
  } else if (Admit(context, device)) {
    LaunchAdmitted(context, device);
  } else {
    idle_.Add(device);
  }
}

std::uint32_t StaticBatch::ReservedTokens(const Context& context, DeviceId device,
                                          RequestId request) const {
  const RequestView view = context.request(request);
  const DeviceView& on = context.device(device);
  if (!reserve_model_len_ || on.max_model_len_tokens == 0) {
    return view.prompt_tokens() + view.max_new_tokens();
  }
  // No request outgrows the pool, so a model longer than that reserves all of it.
  return std::min(on.max_model_len_tokens, on.total_blocks * on.block_tokens);
}

bool StaticBatch::Admit(Context& context, DeviceId device) {
  Batch& batch = batches_[device.value];
  std::uint32_t size = 0;
  while (!waiting_.empty()) {
    const RequestId request = waiting_.front();
    const std::uint32_t more = HasKv(context, device) ? 1 : context.request(request).units();
    if (size > 0 && size + more > max_batch_size_) break;
    if (HasKv(context, device) &&
        !context.memory(device).Reserve(request, ReservedTokens(context, device, request))) {
      break;
    }
    batch.unfinished.push_back(request);
    size += more;
    waiting_.PopFront();
  }
  batch.slots = static_cast<std::uint32_t>(batch.unfinished.size());
  return batch.slots > 0;
}

void StaticBatch::LaunchAdmitted(Context& context, DeviceId device) {
  entries_.clear();
  std::uint32_t longest = 0, total = 0;
  for (const RequestId request : batches_[device.value].unfinished) {
    const std::uint32_t tokens = context.request(request).next_tokens();
    entries_.push_back({request, tokens});
    longest = std::max(longest, tokens);
    total += tokens;
  }
  const auto count = static_cast<std::uint32_t>(entries_.size());
  const bool pads = keep_padding_ && HasKv(context, device);
  context.actions().Launch({.device = device,
                            .entries = entries_,
                            .padding_tokens = pads ? longest * count - total : 0});
}

void StaticBatch::LaunchDecode(Context& context, DeviceId device) {
  const Batch& batch = batches_[device.value];
  const auto left = static_cast<std::uint32_t>(batch.unfinished.size());
  Plan plan{.device = device,
            .standing = mode_.standing_set,
            .max_steps = mode_.plan_steps,
            .padding_tokens = keep_padding_ ? batch.slots - left : 0};
  if (!mode_.standing_set) {
    entries_.clear();
    for (const RequestId request : batch.unfinished) entries_.push_back({request, 1});
    plan.entries = entries_;
  }
  context.actions().Launch(plan);
}

}  // namespace schedtwin
