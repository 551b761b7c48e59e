#include "policies/dynamic_batch/dynamic_batch.h"

#include <array>
#include <memory>

#include "policies/parts/batch_limit.h"

namespace schedtwin {
namespace {

constexpr std::array<ParameterSpec, 2> kParameters = {{
    {.name = "max_batch_size",
     .type = ParameterType::kInteger,
     .default_text = "32",
     .min = 1,
     .max = 1'000'000,
     .unit = "units",
     .meaning =
         "units (images, sequences) in one launch, at most; never more than the device takes"},
    {.name = "max_queue_delay",
     .type = ParameterType::kDuration,
     .default_text = "5ms",
     .meaning = "how long the oldest request may wait for a fuller batch"},
}};

constexpr PolicyInfo kInfo = {
    .name = "dynamic_batch",
    .summary =
        "Batches up to a maximum size, waiting at most a maximum queue delay for it to fill.",
    .source =
        "the core of dynamic batching as in Triton Inference Server, without its queue policies",
    .one_shot = true,
    .decoder = false,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<DynamicBatch>(parameters);
    }};

}  // namespace

const PolicyInfo& DynamicBatchInfo() { return kInfo; }

DynamicBatch::DynamicBatch(const Parameters& parameters)
    : max_batch_size_(static_cast<std::uint32_t>(parameters.integer("max_batch_size"))),
      max_queue_delay_(parameters.duration("max_queue_delay")) {}

void DynamicBatch::OnStart(Context& context) {
  idle_.AddAll(context);
  max_batch_size_ = BatchLimit(context, max_batch_size_);
}

bool DynamicBatch::Due(const Context& context) const {
  return waiting_units_ >= max_batch_size_ ||
         context.now() - context.request(waiting_.front()).arrival() >= max_queue_delay_;
}

void DynamicBatch::OnArrival(Context& context, RequestId request) {
  waiting_.PushBack(request);
  waiting_units_ += context.request(request).units();
  idle_.WakeOne(context);
}

void DynamicBatch::OnCancel(Context& context, RequestId request, CancelBy) {
  if (waiting_.Remove(request)) waiting_units_ -= context.request(request).units();
}

void DynamicBatch::OnPlanDone(Context& context, const PlanDone& done) {
  if (done.why != PlanEnd::kFailed) return;
  waiting_.PutBack(done.entries);
  for (const Entry& entry : done.entries) waiting_units_ += entry.tokens;
  idle_.WakeOne(context);
}

void DynamicBatch::OnTimer(Context& context, std::uint64_t) {
  timer_ = TimerId{};
  idle_.WakeOne(context);
}

void DynamicBatch::OnSlotFree(Context& context, DeviceId device) {
  if (!waiting_.empty() && Due(context)) {
    LaunchBatch(context, device);
    return;
  }
  idle_.Add(device);
  if (waiting_.empty() || timer_.valid()) return;
  timer_ = context.clock().Arm(context.request(waiting_.front()).arrival() + max_queue_delay_, 0);
}

void DynamicBatch::LaunchBatch(Context& context, DeviceId device) {
  batch_.clear();
  std::uint32_t units = 0;
  while (!waiting_.empty()) {
    const RequestId next = waiting_.front();
    const std::uint32_t more = context.request(next).units();
    if (!batch_.empty() && units + more > max_batch_size_) break;
    batch_.push_back({next, more});
    units += more;
    waiting_.PopFront();
  }
  waiting_units_ -= units;
  context.clock().Cancel(timer_);  // it was for a request that is in this batch
  timer_ = TimerId{};
  context.actions().Launch({.device = device, .entries = batch_});
  if (waiting_.empty() || idle_.empty()) return;
  // Another device waits: it takes what is due already, or keeps the time of what is left.
  idle_.WakeOne(context);
}

}  // namespace schedtwin
