// LoadPriority: how much each model is wanted on one device more: the demand of who waits for it,
// less what the devices that have it can serve. Demand is in shares of `capacity`, the time that a
// request has by default: a request of estimated time t that must be done within s asks for
// t * capacity / s. Computed anew for each decision: depends on nothing but its arguments. Owned by
// the policy; one thread.
#ifndef SCHEDTWIN_POLICIES_CLOCKWORK_LOAD_PRIORITY_H_
#define SCHEDTWIN_POLICIES_CLOCKWORK_LOAD_PRIORITY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace schedtwin::clockwork {

struct Demand {
  double exec = 0;  ///< of those that wait or run
  double load = 0;  ///< of those that wait and for which a load would not come too late
};

class LoadPriority {
 public:
  /// `has` by device: bit m: model m is loaded, or on its way. Afterwards of() tells of each model.
  void Compute(std::span<const Demand> demand, std::span<const std::uint64_t> has,
               double capacity_ns);
  double of(std::size_t model) const { return priority_[model]; }

 private:
  /// Every device counts as having so much to do, so that an idle one is not infinitely fast.
  static constexpr double kLeastOutstandingNs = 1e6;

  std::vector<double> priority_;
  std::vector<double> outstanding_ns_;  ///< by device
};

}  // namespace schedtwin::clockwork

#endif  // SCHEDTWIN_POLICIES_CLOCKWORK_LOAD_PRIORITY_H_
