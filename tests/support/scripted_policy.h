// ScriptedPolicy: a policy whose callbacks are given by the test. It writes down every event in one
// line of text ("20 done 0 finish 1": at 20 ns, a plan of device 0 ended because a request
// finished, after 1 step), and complains if callbacks nest or time moves inside one. One thread;
// owned by the test.
#ifndef SCHEDTWIN_TESTS_SUPPORT_SCRIPTED_POLICY_H_
#define SCHEDTWIN_TESTS_SUPPORT_SCRIPTED_POLICY_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/policy.h"

namespace schedtwin {

inline const char* PlanEndName(PlanEnd why) {
  switch (why) {
    case PlanEnd::kSteps:
      return "steps";
    case PlanEnd::kFinish:
      return "finish";
    case PlanEnd::kCut:
      return "cut";
    case PlanEnd::kMemory:
      return "memory";
    case PlanEnd::kEmpty:
      return "empty";
    case PlanEnd::kMissed:
      return "missed";
    case PlanEnd::kAborted:
      return "aborted";
    case PlanEnd::kFailed:
      return "failed";
  }
  return "?";
}

inline const char* OperationName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kSwapOut:
      return "swap out";
    case OperationKind::kSwapIn:
      return "swap in";
    case OperationKind::kTransfer:
      return "transfer";
    case OperationKind::kStage:
      return "stage";
    case OperationKind::kLoad:
      return "load";
    case OperationKind::kUnload:
      return "unload";
  }
  return "?";
}

inline const char* DeviceChangeName(DeviceChange change) {
  switch (change) {
    case DeviceChange::kAdded:
      return "added";
    case DeviceChange::kReady:
      return "ready";
    case DeviceChange::kDraining:
      return "draining";
    case DeviceChange::kFailed:
      return "failed";
    case DeviceChange::kRecovered:
      return "recovered";
    case DeviceChange::kRole:
      return "role";
    case DeviceChange::kCapacity:
      return "capacity";
    case DeviceChange::kRemoved:
      return "removed";
  }
  return "?";
}

inline const char* CancelByName(CancelBy by) {
  switch (by) {
    case CancelBy::kClient:
      return "client";
    case CancelBy::kDeadline:
      return "deadline";
    case CancelBy::kFault:
      return "fault";
  }
  return "?";
}

class ScriptedPolicy final : public Policy {
 public:
  std::function<void(Context&)> on_start;
  std::function<void(Context&, RequestId)> on_arrival;
  std::function<void(Context&, std::uint64_t)> on_timer;
  std::function<void(Context&, DeviceId)> on_slot_free;
  std::function<void(Context&, PlanId)> on_plan_starting;
  std::function<void(Context&, const PlanDone&)> on_plan_done;
  std::function<void(Context&, const CacheChange&)> on_cache_change;
  std::function<void(Context&, RequestId, CancelBy)> on_cancel;
  std::function<void(Context&, const OperationDone&)> on_operation_done;
  std::function<void(Context&, DeviceId, DeviceChange)> on_device_change;
  std::function<void(Context&, const DeviceReport&)> on_report;

  std::vector<std::string> seen;

  void OnStart(Context& context) override { Call(context, "start", on_start); }
  void OnArrival(Context& context, RequestId request) override {
    Call(context, "arrival " + std::to_string(request.value), on_arrival, request);
  }
  void OnTimer(Context& context, std::uint64_t tag) override {
    Call(context, "timer " + std::to_string(tag), on_timer, tag);
  }
  void OnSlotFree(Context& context, DeviceId device) override {
    Call(context, "slot " + std::to_string(device.value), on_slot_free, device);
  }
  void OnPlanStarting(Context& context, PlanId plan) override {
    Call(context, "starting", on_plan_starting, plan);
  }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    Call(context,
         "done " + std::to_string(done.device.value) + " " + PlanEndName(done.why) + " " +
             std::to_string(done.steps),
         on_plan_done, done);
  }
  void OnCacheChange(Context& context, const CacheChange& change) override {
    Call(context,
         "cache " + std::to_string(change.device.value) + " +" +
             std::to_string(change.stored_blocks) + " -" + std::to_string(change.evicted_blocks),
         on_cache_change, change);
  }
  void OnCancel(Context& context, RequestId request, CancelBy by) override {
    Call(context, "cancel " + std::to_string(request.value) + " " + CancelByName(by), on_cancel,
         request, by);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    const std::uint32_t what = done.request.valid() ? done.request.value : done.model.value;
    Call(context,
         std::string(OperationName(done.kind)) + " " + std::to_string(what) + " at " +
             std::to_string(done.device.value) + (done.ok ? "" : " not done"),
         on_operation_done, done);
  }
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override {
    Call(context, "device " + std::to_string(device.value) + " " + DeviceChangeName(change),
         on_device_change, device, change);
  }
  void OnReport(Context& context, const DeviceReport& report) override {
    Call(context,
         "report " + std::to_string(report.id.value) + " of " + std::to_string(report.taken.ns()),
         on_report, report);
  }

 private:
  template <class Callback, class... Arguments>
  void Call(Context& context, const std::string& what, const Callback& callback,
            const Arguments&... arguments) {
    EXPECT_FALSE(inside_) << what << " was delivered inside another callback";
    inside_ = true;
    const Time now = context.now();
    seen.push_back(std::to_string(now.ns()) + " " + what);
    if (callback) callback(context, arguments...);
    EXPECT_EQ(context.now(), now) << "time moved inside a callback";
    inside_ = false;
  }

  bool inside_ = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_SCRIPTED_POLICY_H_
