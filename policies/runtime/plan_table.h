// PlanTable: plans from launch to end, in a slab with generations. Slots keep their vectors, so
// that a launch allocates nothing once the run is warm. One thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_PLAN_TABLE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_PLAN_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/api/plan.h"

namespace schedtwin {

enum class PlanState : std::uint8_t {
  kQueued,
  kStarting,  ///< late binding: OnPlanStarting is on its way
  kBound,     ///< late binding: OnPlanStarting was delivered
  kRunning,
  kEnded,  ///< its PlanDone is on its way
};

/// What the runtime keeps of an entry besides what the policy said.
struct EntryMark {
  std::uint32_t context_tokens = 0;  ///< in the cache before this entry's tokens
  std::uint8_t epoch = 0;            ///< of the request, when promised
  bool samples = false;  ///< it brings the request up to date, so the step makes a token
};

struct PlanRecord {
  std::uint32_t generation = 0;
  bool used = false;
  PlanState state = PlanState::kQueued;
  DeviceId device;
  std::vector<Entry> entries;
  std::vector<EntryMark> marks;
  bool standing = false;
  bool late_binding = false;
  bool cut = false;
  ModelId model = {0};
  std::int64_t decision_ns = -1;  ///< what launching it took
  std::uint32_t max_steps = 1;
  std::uint32_t padding_tokens = 0;
  std::uint32_t steps_done = 0;
  Time earliest;
  Time latest;
  Time start;
  PlanEnd why = PlanEnd::kSteps;

  /// All that a policy says in a plan, but for the device.
  void Take(const Plan& plan) {
    entries.assign(plan.entries.begin(), plan.entries.end());
    standing = plan.standing;
    late_binding = plan.late_binding;
    max_steps = plan.max_steps;
    padding_tokens = plan.padding_tokens;
    earliest = plan.earliest;
    latest = plan.latest;
  }
};

class PlanTable {
 public:
  PlanId Add() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(plans_.size()));
      plans_.push_back(std::make_unique<PlanRecord>());
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    plans_[slot]->used = true;
    return {slot, plans_[slot]->generation};
  }
  /// The plan, or null if it has ended. Stays where it is until it ends.
  PlanRecord* Find(PlanId id) {
    if (id.slot >= plans_.size()) return nullptr;
    PlanRecord& plan = *plans_[id.slot];
    return plan.used && plan.generation == id.generation ? &plan : nullptr;
  }
  void Remove(PlanId id) {
    PlanRecord& plan = *plans_[id.slot];
    plan.used = false;
    ++plan.generation;
    free_.push_back(id.slot);
  }

 private:
  std::vector<std::unique_ptr<PlanRecord>> plans_;  // a record stays where it is
  std::vector<std::uint32_t> free_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_PLAN_TABLE_H_
