#include "policies/composed/composed.h"

#include <memory>

namespace schedtwin {

Composed::Composed(const Parameters& parameters)
    : mode_(parameters),
      parts_(MakeParts(parameters)),
      cache_(static_cast<std::size_t>(parameters.integer("response_cache")),
             parameters.duration("response_ttl")) {}

void Composed::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    engines_.push_back(std::make_unique<Engine>(*this, device.id));
  }
  ArmScaler(context);
}

void Composed::ArmScaler(Context& context) {
  if (parts_.scaler == nullptr) return;
  context.clock().Arm(context.now() + parts_.scaler->interval(), kScale);
}

void Composed::OnTimer(Context& context, std::uint64_t) {
  FleetLoad load{.now = context.now(), .outstanding = outstanding_};
  for (const DeviceView& device : context.devices()) {
    ++load.most;
    if (device.state == DeviceState::kOff || device.state == DeviceState::kDraining) continue;
    ++load.current;
    if (TakesRequests(device)) ++load.ready;
  }
  const std::uint32_t devices = parts_.scaler->Devices(load);
  if (devices != load.current) context.actions().Scale(devices);
  ArmScaler(context);
}

void Composed::OnReport(Context&, const DeviceReport& report) { parts_.router->OnReport(report); }

void Composed::OnArrival(Context& context, RequestId request) {
  const std::uint64_t key = ResponseKey(context.request(request));
  if (key != 0 && cache_.Lookup(key, context.now())) {
    context.actions().Finish(request, EndReason::kCached);
    return;
  }
  const DeviceId device = parts_.router->Pick(context, request);
  if (!device.valid() || !parts_.admission->Admit(context, request,
                                                  {device, engine(device).waiting.size(),
                                                   engine(device).waiting.tokens()})) {
    context.actions().Finish(request, EndReason::kRejected);
    return;
  }
  ++outstanding_;
  Send(context, request, device);
}

void Composed::Send(Context& context, RequestId request, DeviceId device) {
  parts_.router->OnSent(context, request, device);
  context.actions().Route(request, device);
  Engine& to = engine(device);
  const bool first = to.waiting.empty();
  to.waiting.PushBack(context, request);
  to.batching.OnQueued(context, first);  // behind a head that was refused it can change nothing
}

void Composed::SendOn(Context& context, DeviceId from) {
  FcfsQueue& waiting = engine(from).waiting;
  while (!waiting.empty()) {
    const RequestId request = waiting.Head(context);
    waiting.PopHead(context);
    parts_.router->OnEnd(context, request, from);
    const DeviceId picked = parts_.router->Pick(context, request);
    const DeviceId device = picked.valid() ? picked : kNeverRemoved;
    Send(context, request, device);
    // Its prompt is not told of twice, though it is computed again.
    if (context.request(request).output_tokens() > 0) {
      parts_.router->OnPrefilled(context, request, device);
    }
  }
}

DeviceId Composed::HomeOf(const Context& context, RequestId request) const {
  for (const auto& engine : engines_) {
    if (engine->waiting.Contains(request)) return engine->batching.device();
  }
  return context.request(request).device();
}

void Composed::OnCancel(Context& context, RequestId request, CancelBy) {
  const DeviceId device = HomeOf(context, request);
  parts_.router->OnEnd(context, request, device);
  --outstanding_;
  engine(device).batching.Remove(context, request);
}

void Composed::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kFailed) engine(device).batching.OnFailed(context);
  if (change == DeviceChange::kDraining) SendOn(context, device);
}

void Composed::OnPlanDone(Context& context, const PlanDone& done) {
  engine(done.device).batching.OnPlanDone(context, done);
  for (const Entry& entry : done.entries) {
    const RequestView view = context.request(entry.request);
    const bool over =
        view.state() != RequestState::kWaiting && view.state() != RequestState::kStanding;
    if (done.steps > 0 && !over && view.output_tokens() == 1) {
      parts_.router->OnPrefilled(context, entry.request, done.device);
    }
  }
  for (const RequestId request : done.finished) OnEnd(context, request, done.device);
}

void Composed::OnEnd(Context& context, RequestId request, DeviceId device) {
  const RequestView view = context.request(request);
  if (view.output_tokens() == 1) parts_.router->OnPrefilled(context, request, device);
  parts_.router->OnEnd(context, request, device);
  --outstanding_;
  if (const std::uint64_t key = ResponseKey(view); key != 0) cache_.Insert(key, context.now());
}

void Composed::OnSlotFree(Context& context, DeviceId device) {
  engine(device).batching.OnSlotFree(context);
  // Who was preempted there holds nothing any more, and the device does not wait for it.
  if (context.device(device).state == DeviceState::kDraining) SendOn(context, device);
}

}  // namespace schedtwin
