// What a policy's Context leads to: the World's implementations of Clock, Actions and Services.
// Private to the runtime. Actions check, act, and write every decision with its answer into the
// journal.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_WORLD_FACETS_H_
#define SCHEDTWIN_POLICIES_RUNTIME_WORLD_FACETS_H_

#include <memory>
#include <vector>

#include "policies/runtime/device_driver.h"
#include "policies/runtime/fleet.h"
#include "policies/runtime/operations.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world.h"

namespace schedtwin {

class World::ClockFacet final : public Clock {
 public:
  explicit ClockFacet(RunCore* core) : core_(core) {}

  TimerId Arm(Time when, std::uint64_t tag) override;
  bool Rearm(TimerId timer, Time when) override;
  bool Cancel(TimerId timer) override;

  void Latch(Time now) { now_ = now; }

 private:
  static constexpr std::uint64_t kGone = ~std::uint64_t{0};
  /// The journal's number of a pending timer, or kGone.
  std::uint64_t NumberOf(TimerId timer) const;

  RunCore* core_;
};

class World::ActionsFacet final : public Actions {
 public:
  ActionsFacet(RunCore* core, const std::vector<std::unique_ptr<DeviceDriver>>* drivers,
               Operations* operations, Fleet* fleet)
      : core_(core), drivers_(drivers), operations_(operations), fleet_(fleet) {}

  Refusal Finish(RequestId request, EndReason reason) override;
  Refusal Route(RequestId request, DeviceId device, DeviceId decode_device,
                ModelId variant) override;
  Refusal Preempt(RequestId request, PreemptMode mode) override;
  Refusal HoldResponse(RequestId request) override;
  Refusal ReleaseResponse(RequestId request) override;
  Launched Launch(const Plan& plan) override;
  Launched Amend(PlanId plan, const Plan& replacement) override;
  Refusal Withdraw(PlanId plan) override;
  Refusal Abort(PlanId plan, AbortAt where) override;
  Refusal Join(DeviceId device, RequestId request) override;
  Refusal Leave(DeviceId device, RequestId request) override;
  Refusal Poke(DeviceId device) override;
  Started Transfer(const TransferSpec& transfer) override;
  Refusal CancelOperation(OpId operation) override;
  Refusal Pin(RequestId request, bool pinned) override;
  Refusal Evict(DeviceId device, std::uint32_t blocks) override;
  Started Load(DeviceId device, ModelId model) override;
  Started Unload(DeviceId device, ModelId model) override;
  Refusal Scale(std::uint32_t devices) override;
  Refusal SetRole(DeviceId device, DeviceRole role) override;
  void Note(std::string_view text) override;

 private:
  DeviceDriver* Driver(DeviceId device) const {
    return device.value < drivers_->size() ? (*drivers_)[device.value].get() : nullptr;
  }
  DeviceDriver* DriverOf(PlanId plan) const;
  Refusal TryFinish(RequestId request, EndReason reason);
  Refusal TryRoute(RequestId request, DeviceId device, DeviceId decode_device, ModelId variant);
  Refusal TryPreempt(RequestId request, PreemptMode mode);
  Refusal TryRelease(RequestId request);
  Started Answer(DecisionCode code, std::uint64_t a, std::uint64_t b, const Started& answer);
  void LogPlan(DecisionCode code, const Plan& plan, const Launched& answer);
  Refusal Answer(DecisionCode code, std::uint64_t a, std::uint64_t b, Refusal answer) {
    return core_->journal.Answer(core_->now, code, a, b, answer);
  }

  RunCore* core_;
  const std::vector<std::unique_ptr<DeviceDriver>>* drivers_;
  Operations* operations_;
  Fleet* fleet_;
};

class World::ServicesFacet final : public Services {
 public:
  ServicesFacet(const RunCore* core, const std::vector<std::unique_ptr<DeviceDriver>>* drivers,
                const Operations* operations, const LengthPredictor* lengths)
      : core_(core), drivers_(drivers), operations_(operations), lengths_(lengths) {}

  std::optional<Duration> Predict(const Plan& plan) const override;
  std::optional<Duration> TransferTime(DeviceId from, DeviceId to,
                                       std::uint32_t blocks) const override;
  std::optional<Duration> LoadTime(DeviceId device, ModelId model) const override;
  std::optional<std::uint32_t> OutputLength(RequestId request) const override;

 private:
  const RunCore* core_;
  const std::vector<std::unique_ptr<DeviceDriver>>* drivers_;
  const Operations* operations_;
  const LengthPredictor* lengths_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_WORLD_FACETS_H_
