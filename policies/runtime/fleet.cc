#include "policies/runtime/fleet.h"

#include <algorithm>

#include "policies/runtime/device_driver.h"

namespace schedtwin {

Fleet::Fleet(RunCore* core, std::span<const std::unique_ptr<DeviceDriver>> drivers,
             std::span<DeviceView> views, Operations* operations, const WorldOptions* options)
    : core_(core),
      drivers_(drivers),
      views_(views),
      operations_(operations),
      options_(options),
      wanted_(options->devices_at_start == 0 ? static_cast<std::uint32_t>(views.size())
                                             : options->devices_at_start),
      failures_(views.size(), 0),
      unready_(views.size(), false) {
  for (std::uint32_t i = 0; i < views_.size(); ++i) {
    if (i < wanted_) {
      operations_->LoadAtStart(i);
    } else {
      views_[i].state = DeviceState::kOff;
      views_[i].loaded_models = 0;
    }
  }
  for (std::uint32_t i = 0; i < options_->faults.size(); ++i) {
    const Fault& fault = options_->faults[i];
    const Event event = {EventKind::kFault, i, 0};
    core_->Push(fault.at, EventClass::kDeviceChange, fault.device.value, event);
    ++faults_to_come_;
  }
}

Refusal Fleet::Scale(std::uint32_t devices) {
  if (devices == 0 || devices > views_.size()) return Refusal::kBadArgument;
  if (core_->open_transactions > 0) return Refusal::kBadArgument;
  wanted_ = devices;
  for (std::uint32_t i = 0; i < views_.size(); ++i) {
    DeviceView& view = views_[i];
    if (i >= devices) {
      if (view.state == DeviceState::kUp) Drain(i);
    } else if (view.state == DeviceState::kDraining) {
      view.state = DeviceState::kUp;
      --draining_;
      core_->PushChange(i, DeviceChange::kReady);
      core_->turns.Add(i, /*slot_free=*/true);
    } else if (view.state == DeviceState::kOff) {
      view.state = DeviceState::kStarting;
      ++starting_;
      core_->PushChange(i, DeviceChange::kAdded);
      operations_->StartUp(i);
    }
  }
  return Refusal::kNone;
}

Refusal Fleet::SetRole(DeviceId device, DeviceRole role) {
  if (device.value >= views_.size()) return Refusal::kUnknownDevice;
  views_[device.value].role = role;
  core_->PushChange(device.value, DeviceChange::kRole);
  return Refusal::kNone;
}

void Fleet::Drain(std::uint32_t device) {
  views_[device].state = DeviceState::kDraining;
  ++draining_;
  core_->PushChange(device, DeviceChange::kDraining);
}

void Fleet::OnStarted(std::uint32_t device) {
  if (views_[device].state != DeviceState::kStarting) return;  // it failed meanwhile
  --starting_;
  views_[device].state = DeviceState::kUp;
  core_->PushChange(device, DeviceChange::kReady);
  core_->turns.Add(device, /*slot_free=*/true);
  if (device >= wanted_) Drain(device);
}

bool Fleet::Holds(std::uint32_t device) const {
  if (views_[device].queued > 0 || operations_->AtWork(device)) return true;
  bool holds = operations_->HeldBlocks(device, Tier::kDevice) > 0;
  core_->requests.ForEachLive([&](std::uint32_t id) {
    const RequestHot& hot = core_->requests.hot(id);
    holds = holds || (hot.device == device && HeldByDevice(hot));
  });
  return holds;
}

void Fleet::RemoveEmpty() {
  for (std::uint32_t i = 0; i < views_.size(); ++i) {
    if (views_[i].state != DeviceState::kDraining || Holds(i)) continue;
    operations_->ShutDown(i);
    drivers_[i]->memory().ForgetCache();
    views_[i].state = DeviceState::kOff;
    --draining_;
    core_->PushChange(i, DeviceChange::kRemoved);
  }
}

void Fleet::OnFault(std::uint32_t index, bool ends) {
  const Fault& fault = options_->faults[index];
  const std::uint32_t device = fault.device.value;
  DeviceView& view = views_[device];
  --faults_to_come_;
  core_->journal.Event(core_->now, EventCode::kFault, device, ends);
  if (ends) {
    if (failures_[device] > 0 && --failures_[device] == 0 && !drivers_[device]->lost_reply()) {
      Recover(device);
    }
    return;
  }
  if (view.state == DeviceState::kOff) return;  // nothing there that could fail
  if (failures_[device]++ == 0 && view.state != DeviceState::kFailed) {
    Fail(device, fault.loses_requests);
  }
  if (fault.until.infinite()) return;
  // After the failure was told, though a late clock may find that it is over.
  core_->Push(std::max(fault.until, core_->now), EventClass::kDeviceChange, device,
              {EventKind::kFault, index, 1});
  ++faults_to_come_;
}

void Fleet::Fail(std::uint32_t device, bool loses_requests) {
  DeviceView& view = views_[device];
  draining_ -= view.state == DeviceState::kDraining;
  unready_[device] = view.state == DeviceState::kStarting;
  starting_ -= unready_[device];
  view.state = DeviceState::kFailed;
  // Of those it has: afterwards nothing of a one-shot request shows that it was here.
  std::vector<std::uint32_t> held;
  core_->requests.ForEachLive([&](std::uint32_t id) {
    const RequestHot& hot = core_->requests.hot(id);
    if (hot.device == device && HeldByDevice(hot)) held.push_back(id);
  });
  drivers_[device]->Fail();
  operations_->OnDeviceFailed(device);
  for (const std::uint32_t id : held) {
    if (loses_requests) {
      core_->Push(core_->now, EventClass::kCancel, 0,
                  {EventKind::kCancel, static_cast<std::uint32_t>(CancelBy::kFault), id});
    }
    const RequestHot& hot = core_->requests.hot(id);
    if (hot.state == RequestState::kMoving) continue;  // when its operation ends
    core_->requests.fate(id).recomputed_tokens += hot.scheduled_tokens;
    drivers_[device]->memory().Drop(id);
  }
  drivers_[device]->memory().ForgetCache();
  core_->PushChange(device, DeviceChange::kFailed);
}

void Fleet::OnLostReply(std::uint32_t device) {
  if (views_[device].state == DeviceState::kFailed && failures_[device] == 0) Recover(device);
}

void Fleet::Recover(std::uint32_t device) {
  DeviceView& view = views_[device];
  core_->PushChange(device, DeviceChange::kRecovered);
  if (unready_[device]) {
    view.state = DeviceState::kStarting;
    ++starting_;
    if (!operations_->StartUp(device)) OnStarted(device);
    return;
  }
  view.state = DeviceState::kUp;
  core_->turns.Add(device, /*slot_free=*/true);
  if (device >= wanted_) Drain(device);
}

}  // namespace schedtwin
