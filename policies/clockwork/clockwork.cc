#include "policies/clockwork/clockwork.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "policies/parts/batch_limit.h"

namespace schedtwin {
namespace {

using clockwork::ModelQueue;
using clockwork::Strategy;
using clockwork::Waiting;

constexpr std::uint64_t kDeadlineTag = 0;
constexpr std::uint64_t kScheduleTag = 1;
constexpr std::int64_t kMostNs = 3'600'000'000'000;  // an hour: sums stay far from overflow

constexpr std::array<ParameterSpec, 10> kParameters = {{
    {.name = "batch_sizes",
     .type = ParameterType::kIntegers,
     .default_text = "1:2:4:8:16",
     .min = 1,
     .max = 1'000'000,
     .unit = "units",
     .meaning = "batch sizes that are run, rising from 1; never more than the device takes"},
    {.name = "default_slo",
     .type = ParameterType::kDuration,
     .default_text = "100ms",
     .min = 1,
     .max = kMostNs,
     .meaning = "time for a request that has no deadline of its own"},
    {.name = "slo_buffer",
     .type = ParameterType::kDuration,
     .default_text = "5ms",
     .max = kMostNs,
     .meaning = "how much before its deadline a request is to be through"},
    {.name = "schedule_ahead",
     .type = ParameterType::kDuration,
     .default_text = "10ms",
     .min = 1,
     .max = kMostNs,
     .meaning = "a device is given more while it is estimated to be free within this"},
    {.name = "latest_delta",
     .type = ParameterType::kDuration,
     .default_text = "10ms",
     .max = kMostNs,
     .meaning = "how far behind its estimated start a batch may start before it is dropped"},
    {.name = "network_delay",
     .type = ParameterType::kDuration,
     .default_text = "1ms",
     .max = kMostNs,
     .meaning = "no batch is estimated to start sooner than this from now"},
    {.name = "lag",
     .type = ParameterType::kDuration,
     .default_text = "10ms",
     .max = kMostNs,
     .meaning = "how long work may be overdue before what is behind it is estimated to be late"},
    {.name = "max_load_slo",
     .type = ParameterType::kDuration,
     .default_text = "25ms",
     .max = kMostNs,
     .meaning = "a request is a reason to load its model for this long, at most"},
    {.name = "estimate_window",
     .type = ParameterType::kInteger,
     .default_text = "10",
     .min = 1,
     .max = 10'000,
     .unit = "measurements",
     .meaning = "last measurements of which the 99th percentile is the estimate"},
    {.name = "default_estimate",
     .type = ParameterType::kDuration,
     .default_text = "100us",
     .min = 1,
     .max = kMostNs,
     .meaning = "estimate of a batch that was never measured, where the run has no profile"},
}};

std::string Check(const Parameters& parameters) {
  const auto sizes = parameters.integers("batch_sizes");
  if (sizes.empty() || sizes.front() != 1 ||
      std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end()) {
    return "batch_sizes must rise from 1, such as 1:2:4:8:16";
  }
  if (parameters.duration("schedule_ahead") <= parameters.duration("network_delay")) {
    return "schedule_ahead must be longer than network_delay, or nothing is ever scheduled";
  }
  return {};
}

constexpr PolicyInfo kInfo = {
    .name = "clockwork",
    .summary =
        "Plans every batch with a window for its start, drops what would be late, loads models by "
        "demand.",
    .source = "Clockwork (OSDI'20); NeoLou/clockwork_fork 0d339e23, controller/infer5",
    .one_shot = true,
    .decoder = false,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Clockwork>(parameters);
    },
    .check = Check};

}  // namespace

const PolicyInfo& ClockworkInfo() { return kInfo; }

Clockwork::Clockwork(const Parameters& parameters)
    : default_slo_(parameters.duration("default_slo")),
      slo_buffer_(parameters.duration("slo_buffer")),
      schedule_ahead_(parameters.duration("schedule_ahead")),
      latest_delta_(parameters.duration("latest_delta")),
      network_delay_(parameters.duration("network_delay")),
      lag_(parameters.duration("lag")),
      max_load_slo_(parameters.duration("max_load_slo")),
      default_estimate_(parameters.duration("default_estimate")),
      estimate_window_(static_cast<std::size_t>(parameters.integer("estimate_window"))) {
  for (const std::int64_t size : parameters.integers("batch_sizes")) {
    sizes_.push_back(static_cast<std::uint32_t>(size));
  }
}

void Clockwork::OnStart(Context& context) {
  const std::uint32_t most = BatchLimit(context, sizes_.back());
  while (sizes_.back() > most) sizes_.pop_back();
  devices_.resize(context.devices().size());
  for (Device& device : devices_) device.last_used.assign(kMostModels, 0);
}

// ---- Requests ----

Clockwork::Model& Clockwork::ModelOf(Context& context, RequestId request) {
  const ModelId model = context.request(request).model();
  while (models_.size() <= model.value) {
    models_.push_back({.queue = ModelQueue(sizes_, estimate_window_),
                       .loads = clockwork::DurationWindow(estimate_window_),
                       .load_estimate = {},
                       .alone_estimate = {}});
  }
  Model& known = models_[model.value];
  if (known.alone_estimate > Duration()) return known;
  // The first request for it: a plan of one unit of this request and the rest padding stands for
  // any batch.
  const Entry entry{request, 1};
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const Plan plan{
        .device = {0}, .entries = {&entry, 1}, .padding_tokens = sizes_[i] - entry.tokens};
    known.queue.SetEstimate(i, context.services().Predict(plan).value_or(default_estimate_));
  }
  known.alone_estimate = known.queue.estimate(0);
  known.load_estimate = context.services().LoadTime({0}, model).value_or(Duration());
  return known;
}

Waiting Clockwork::MakeWaiting(Context& context, RequestId request) {
  const Model& model = ModelOf(context, request);
  const RequestView view = context.request(request);
  const Time arrival = view.arrival();
  const Duration slo = view.deadline().infinite() ? default_slo_ : view.deadline() - arrival;
  const Duration least = schedule_ahead_ + slo_buffer_;
  const Duration exec_slo = std::max(slo - slo_buffer_, least);
  const Duration after_load =
      slo - model.load_estimate - model.alone_estimate - slo_buffer_ - schedule_ahead_;
  const Duration load_slo = std::max(std::min(max_load_slo_, after_load), least);
  const double work =
      static_cast<double>(model.queue.estimate(0).ns()) * static_cast<double>(default_slo_.ns());
  return {.id = request,
          .units = view.units(),
          .deadline = arrival + exec_slo,
          .load_by = arrival + load_slo,
          .exec_demand = work / static_cast<double>(exec_slo.ns()),
          .load_demand = work / static_cast<double>(load_slo.ns())};
}

void Clockwork::OnArrival(Context& context, RequestId request) {
  if (context.request(request).units() > sizes_.back()) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  const Waiting waiting = MakeWaiting(context, request);
  ModelOf(context, request).queue.Add(waiting);
  ArmDeadline(context, waiting.deadline);
  Wake(context);
}

void Clockwork::OnCancel(Context& context, RequestId request, CancelBy) {
  const std::uint32_t model = context.request(request).model().value;
  if (model < models_.size()) models_[model].queue.Remove(request);
}

void Clockwork::Drop(Context& context, const std::vector<RequestId>& requests) {
  for (const RequestId request : requests) {
    context.actions().Finish(request, EndReason::kTimedOut);
  }
}

void Clockwork::ArmDeadline(Context& context, Time deadline) {
  if (deadline >= deadline_armed_) return;
  if (!context.clock().Rearm(deadline_timer_, deadline)) {
    deadline_timer_ = context.clock().Arm(deadline, kDeadlineTag);
  }
  deadline_armed_ = deadline;
}

void Clockwork::OnTimer(Context& context, std::uint64_t tag) {
  if (tag == kScheduleTag) {
    schedule_timer_ = TimerId{};
    Wake(context);
    return;
  }
  deadline_armed_ = Time::Infinite();
  overdue_.clear();
  for (Model& model : models_) model.queue.TakeOverdue(context.now(), &overdue_);
  Drop(context, overdue_);
  for (const Model& model : models_) {
    if (!model.queue.empty()) ArmDeadline(context, model.queue.waiting().front().deadline);
  }
}

// ---- Steps ----

void Clockwork::Wake(Context& context) {
  for (const DeviceView& device : context.devices()) {
    if (device.depth_left() == 0) continue;
    context.actions().Poke(device.id);
    return;
  }
  ScheduleLoads(context);  // no slot is free, but weights move beside the steps
}

void Clockwork::OnSlotFree(Context& context, DeviceId) {
  wake_at_ = Time::Infinite();
  for (bool any = true; any;) {
    any = false;
    for (const DeviceView& device : context.devices()) {
      any = ScheduleStep(context, device.id) || any;
    }
  }
  ScheduleLoads(context);
  if (wake_at_.infinite()) return;
  if (!context.clock().Rearm(schedule_timer_, wake_at_)) {
    schedule_timer_ = context.clock().Arm(wake_at_, kScheduleTag);
  }
}

bool Clockwork::ScheduleStep(Context& context, DeviceId device) {
  const DeviceView& view = context.device(device);
  if (view.state != DeviceState::kUp || view.depth_left() == 0) return false;
  const Time free_at = devices_[device.value].steps.Available(context.now(), lag_, network_delay_);
  size_limits_.assign(models_.size(), ModelQueue::kAnySize);
  for (;;) {
    Strategy first;
    std::uint32_t model = 0;
    for (std::uint32_t i = 0; i < models_.size(); ++i) {
      if (models_[i].queue.empty() || !view.loaded({i})) continue;
      const Strategy strategy = models_[i].queue.First(size_limits_[i]);
      if (strategy.size == 0) continue;
      const bool sooner =
          strategy.latest_start < first.latest_start ||
          (strategy.latest_start == first.latest_start && strategy.size < first.size);
      if (first.size != 0 && !sooner) continue;
      first = strategy;
      model = i;
    }
    if (first.size == 0) return false;
    if (free_at >= context.now() + schedule_ahead_) {
      wake_at_ = std::min(wake_at_, free_at - schedule_ahead_ + Duration::Nanos(1));
      return false;
    }
    models_[model].queue.Dequeue(free_at, first.size, &batch_);
    Drop(context, batch_.dropped);
    if (batch_.size != 0) return Launch(context, device, model, free_at);
    size_limits_[model] = first.size - 1;
  }
}

bool Clockwork::Launch(Context& context, DeviceId device, std::uint32_t model, Time free_at) {
  InFlight plan{.plan = {}, .model = model, .size = batch_.size};
  entries_.clear();
  for (const Waiting& request : batch_.requests) {
    entries_.push_back({request.id, request.units});
    plan.units += request.units;
    plan.exec_demand += request.exec_demand;
  }
  const Launched launched = context.actions().Launch({.device = device,
                                                      .entries = entries_,
                                                      .padding_tokens = batch_.size - plan.units,
                                                      .earliest = context.now(),
                                                      .latest = free_at + latest_delta_});
  if (!launched.ok()) {  // they wait for another device, or their deadline
    for (const Waiting& request : batch_.requests) models_[model].queue.Add(request);
    return false;
  }
  plan.plan = launched.id;
  Device& on = devices_[device.value];
  on.steps.Add(launched.id.word(), batch_.estimate, context.now());
  on.plans.push_back(plan);
  models_[model].executing_demand += plan.exec_demand;
  Touch(device, model);
  return true;
}

void Clockwork::BookEnd(const PlanDone& done, const InFlight& plan) {
  Model& model = models_[plan.model];
  model.executing_demand -= plan.exec_demand;
  devices_[done.device.value].steps.End(done.id.word(), done.end);
  if (done.steps == 0) return;
  Touch(done.device, plan.model);
  std::uint32_t units = 0;
  for (const Entry& entry : done.entries) units += entry.tokens;
  if (units == plan.units) model.queue.AddMeasurement(plan.size, done.end - done.start);
}

void Clockwork::OnPlanDone(Context& context, const PlanDone& done) {
  std::vector<InFlight>& plans = devices_[done.device.value].plans;
  const auto plan = std::find_if(plans.begin(), plans.end(),
                                 [&](const InFlight& some) { return some.plan == done.id; });
  BookEnd(done, *plan);
  plans.erase(plan);
  for (const Entry& entry : done.entries) {
    if (context.request(entry.request).state() == RequestState::kEnded) continue;
    if (done.why == PlanEnd::kMissed) {
      context.actions().Finish(entry.request, EndReason::kTimedOut);
    } else if (done.why == PlanEnd::kFailed) {
      const Waiting waiting = MakeWaiting(context, entry.request);
      ModelOf(context, entry.request).queue.Add(waiting);
      ArmDeadline(context, waiting.deadline);
    }
  }
  Wake(context);
}

void Clockwork::OnDeviceChange(Context& context, DeviceId, DeviceChange) { Wake(context); }

}  // namespace schedtwin
