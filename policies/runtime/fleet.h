// Fleet: which devices there are and what state each is in: scaling up and down, roles, and the
// faults that a run injects. A device that is added loads its models before it is ready; one that
// is too many is drained first, and removed when nothing is left on it; one that fails loses all it
// holds.
//
// The changes are told to the policy in their place in the order of events. Owned by World; policy
// thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_FLEET_H_
#define SCHEDTWIN_POLICIES_RUNTIME_FLEET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/api/plan.h"
#include "policies/runtime/operations.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world.h"

namespace schedtwin {

class Fleet {
 public:
  /// All outlive this.
  Fleet(RunCore* core, std::span<const std::unique_ptr<DeviceDriver>> drivers,
        std::span<DeviceView> views, Operations* operations, const WorldOptions* options);

  // Decisions.
  Refusal Scale(std::uint32_t devices);
  Refusal SetRole(DeviceId device, DeviceRole role);

  /// The run's fault number `index` begins, or ends.
  void OnFault(std::uint32_t index, bool ends);
  /// The answer has come to the step that a device was at when it failed.
  void OnLostReply(std::uint32_t device);
  /// All that a device which was added had to load is there.
  void OnStarted(std::uint32_t device);
  /// Removes the drained devices on which nothing is left. After every callback.
  void RemoveDrained() {
    if (draining_ > 0) [[unlikely]]
      RemoveEmpty();
  }
  /// A device is on its way to be ready, or will recover.
  bool changes_to_come() const { return faults_to_come_ > 0 || starting_ > 0; }

 private:
  void Drain(std::uint32_t device);
  void Fail(std::uint32_t device, bool loses_requests);
  void Recover(std::uint32_t device);
  void RemoveEmpty();
  bool Holds(std::uint32_t device) const;

  RunCore* core_;
  std::span<const std::unique_ptr<DeviceDriver>> drivers_;
  std::span<DeviceView> views_;
  Operations* operations_;
  const WorldOptions* options_;
  std::uint32_t wanted_;
  std::uint32_t draining_ = 0;
  std::uint32_t starting_ = 0;
  std::uint32_t faults_to_come_ = 0;     ///< begins and ends
  std::vector<std::uint32_t> failures_;  ///< by device: faults that have begun and not ended
  std::vector<bool> unready_;            ///< by device: failed while it started
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_FLEET_H_
