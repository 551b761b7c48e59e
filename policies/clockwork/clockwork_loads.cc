// The part of clockwork that decides which models are where.
#include <algorithm>

#include "policies/clockwork/clockwork.h"

namespace schedtwin {
namespace {

constexpr std::uint64_t BitOf(std::uint32_t model) { return std::uint64_t{1} << model; }

}  // namespace

void Clockwork::Touch(DeviceId device, std::uint32_t model) {
  devices_[device.value].last_used[model] = ++uses_;
}

void Clockwork::ScheduleLoads(Context& context) {
  for (const DeviceView& device : context.devices()) {
    while (WantsLoad(context, device.id) && ScheduleLoad(context, device.id)) {
    }
  }
}

bool Clockwork::WantsLoad(const Context& context, DeviceId id) const {
  const DeviceView& view = context.device(id);
  const Device& device = devices_[id.value];
  if (view.state != DeviceState::kUp || !device.can_load || device.unloads > 0) return false;
  const std::uint64_t never = view.loaded_models | device.loading | device.too_large;
  for (std::uint32_t i = 0; i < models_.size() && i < kMostModels; ++i) {
    if (!models_[i].queue.empty() && (never & BitOf(i)) == 0) {
      return device.loads.Available(context.now(), lag_, network_delay_) <
             context.now() + schedule_ahead_;
    }
  }
  return false;
}

void Clockwork::ComputeLoadPriority(const Context& context) {
  demand_.assign(std::min<std::size_t>(models_.size(), kMostModels), {});
  for (std::size_t i = 0; i < demand_.size(); ++i) {
    demand_[i].exec = models_[i].executing_demand;
    for (const clockwork::Waiting& request : models_[i].queue.waiting()) {
      demand_[i].exec += request.exec_demand;
      if (request.load_by > context.now()) demand_[i].load += request.load_demand;
    }
  }
  has_.clear();
  for (const DeviceView& device : context.devices()) {
    const bool up = device.state == DeviceState::kUp;
    has_.push_back(up ? device.loaded_models | devices_[device.id.value].loading : 0);
  }
  load_priority_.Compute(demand_, has_, static_cast<double>(default_slo_.ns()));
}

std::uint32_t Clockwork::ModelToLoad(const Context& context, DeviceId id) const {
  const Device& device = devices_[id.value];
  const std::uint64_t never = context.device(id).loaded_models | device.loading | device.too_large;
  std::uint32_t best = ModelId::kNone;
  for (std::uint32_t i = 0; i < demand_.size(); ++i) {
    if ((never & BitOf(i)) != 0 || !(load_priority_.of(i) > 0)) continue;
    const bool better = best == ModelId::kNone || load_priority_.of(i) > load_priority_.of(best) ||
                        (load_priority_.of(i) == load_priority_.of(best) &&
                         device.last_used[i] > device.last_used[best]);
    if (better) best = i;
  }
  return best;
}

bool Clockwork::ScheduleLoad(Context& context, DeviceId id) {
  ComputeLoadPriority(context);
  const std::uint32_t model = ModelToLoad(context, id);
  if (model == ModelId::kNone) return false;
  Device& device = devices_[id.value];
  const Started load = context.actions().Load(id, {model});
  if (load.refusal == Refusal::kNone) {
    device.loads.Add(load.id.word(), models_[model].load_estimate, context.now());
    device.loading |= BitOf(model);
    Touch(id, model);
    return true;
  }
  if (load.refusal != Refusal::kNoMemory) {
    device.can_load = false;  // there is no way for weights
    return false;
  }
  if (Evict(context, id)) return false;  // goes on when there is room
  if (context.device(id).loaded_models != 0 || device.loading != 0) return false;
  device.too_large |= BitOf(model);
  return true;
}

bool Clockwork::Evict(Context& context, DeviceId id) {
  Device& device = devices_[id.value];
  std::uint32_t victim = ModelId::kNone;
  bool victim_wanted = false;
  for (std::uint32_t i = 0; i < kMostModels; ++i) {
    if (!context.device(id).loaded({i})) continue;
    const bool in_use = std::any_of(device.plans.begin(), device.plans.end(),
                                    [i](const InFlight& plan) { return plan.model == i; });
    if (in_use) continue;
    const bool wanted = i < demand_.size() && (demand_[i].exec > 0 || demand_[i].load > 0);
    if (victim != ModelId::kNone &&
        (wanted != victim_wanted ? wanted : device.last_used[i] >= device.last_used[victim])) {
      continue;
    }
    victim = i;
    victim_wanted = wanted;
  }
  if (victim == ModelId::kNone) return false;
  if (context.actions().Unload(id, {victim}).refusal != Refusal::kNone) return false;
  ++device.unloads;
  return true;
}

void Clockwork::OnOperationDone(Context& context, const OperationDone& done) {
  Device& device = devices_[done.device.value];
  if (done.kind == OperationKind::kUnload) {
    --device.unloads;
  } else if (done.kind == OperationKind::kLoad) {
    device.loading &= ~BitOf(done.model.value);
    device.loads.End(done.id.word(), done.end);
    if (done.ok) {
      Model& model = models_[done.model.value];
      model.loads.Add(done.end - done.start);
      model.load_estimate = model.loads.Percentile99();
      Touch(done.device, done.model.value);
    }
  }
  Wake(context);
}

}  // namespace schedtwin
