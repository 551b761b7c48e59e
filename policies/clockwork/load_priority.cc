#include "policies/clockwork/load_priority.h"

namespace schedtwin::clockwork {
namespace {

bool Has(std::uint64_t models, std::size_t model) { return (models >> model & 1) != 0; }

/// Devices share a model's demand in inverse proportion to what they have to do.
double TotalWeight(std::span<const std::uint64_t> has, std::span<const double> outstanding_ns,
                   std::size_t model, double capacity_ns) {
  double total = 0;
  for (std::size_t device = 0; device < has.size(); ++device) {
    if (Has(has[device], model)) total += capacity_ns / outstanding_ns[device];
  }
  return total;
}

}  // namespace

void LoadPriority::Compute(std::span<const Demand> demand, std::span<const std::uint64_t> has,
                           double capacity_ns) {
  outstanding_ns_.assign(has.size(), kLeastOutstandingNs);
  for (std::size_t model = 0; model < demand.size(); ++model) {
    const double total = TotalWeight(has, outstanding_ns_, model, capacity_ns);
    for (std::size_t device = 0; device < has.size(); ++device) {
      if (!Has(has[device], model)) continue;
      const double share = capacity_ns / outstanding_ns_[device] / total;
      outstanding_ns_[device] += demand[model].exec * share;
    }
  }
  priority_.assign(demand.size(), 0);
  for (std::size_t model = 0; model < demand.size(); ++model) {
    const double total = TotalWeight(has, outstanding_ns_, model, capacity_ns);
    priority_[model] = demand[model].load;
    for (std::size_t device = 0; device < has.size(); ++device) {
      if (!Has(has[device], model)) continue;
      const double required = demand[model].load * (capacity_ns / outstanding_ns_[device] / total);
      priority_[model] -= capacity_ns * required / outstanding_ns_[device];
    }
  }
}

}  // namespace schedtwin::clockwork
