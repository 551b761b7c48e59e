// HpaOutstanding: Kubernetes' HPA by the requests outstanding: their total over the target
// (AverageValue), or their mean over the ready devices, which multiplies by the ready ones alone
// (Value, and per-pod metrics; the trap that hpa_scaler.h tells of). The metric is the policy's own
// count at the instant of the tick.
#ifndef SCHEDTWIN_POLICIES_PARTS_HPA_OUTSTANDING_H_
#define SCHEDTWIN_POLICIES_PARTS_HPA_OUTSTANDING_H_

#include <algorithm>
#include <cstdint>

#include "policies/parts/hpa_scaler.h"
#include "policies/parts/scaler.h"

namespace schedtwin {

class HpaOutstanding final : public Scaler {
 public:
  HpaOutstanding(const HpaScaler::Options& options, bool by_mean, Duration interval)
      : hpa_(options), by_mean_(by_mean), interval_(interval) {}

  Duration interval() const override { return interval_; }
  std::uint32_t Devices(const FleetLoad& load) override {
    hpa_.LimitTo(load.most);
    const auto total = static_cast<double>(load.outstanding);
    if (!by_mean_) return hpa_.FromTotal(load.now, load.current, total);
    // Without a ready pod there is no mean to go by.
    if (load.ready == 0) return load.current;
    return hpa_.FromMean(load.now, load.current, load.ready, total / load.ready);
  }

 private:
  HpaScaler hpa_;
  bool by_mean_;
  Duration interval_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_HPA_OUTSTANDING_H_
