// HpaScaler: how many replicas there should be, as Kubernetes' Horizontal Pod Autoscaler decides
// (replica_calculator.go and the behavior defaults of autoscaling/v2; ask it every 15 s). A metric
// within `tolerance` of its target changes nothing. Down goes only as far as the greatest
// recommendation of the last `down_window`, up at once but in one `up_period` by no more than the
// greater of `up_percent` and `up_replicas`.
//
// Trap kept: a mean is multiplied by the replicas that are ready, so replicas that are still
// starting are neither waited for nor counted. Pods without a sample are not modelled.
// Owned by one policy; the policy scales by what it returns.
#ifndef SCHEDTWIN_POLICIES_PARTS_HPA_SCALER_H_
#define SCHEDTWIN_POLICIES_PARTS_HPA_SCALER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin {

class HpaScaler {
 public:
  struct Options {
    double target = 1;  ///< of the metric, for each replica; above 0
    double tolerance = 0.1;
    std::uint32_t min_replicas = 1;
    std::uint32_t max_replicas = 1;
    Duration down_window = Duration::Seconds(300);
    Duration up_period = Duration::Seconds(15);
    std::uint32_t up_percent = 100;
    std::uint32_t up_replicas = 4;
  };

  explicit HpaScaler(const Options& options) : options_(options) {}

  /// There can be no more than `replicas`, whatever the options say.
  void LimitTo(std::uint32_t replicas) {
    options_.max_replicas = std::min(options_.max_replicas, replicas);
    options_.min_replicas = std::min(options_.min_replicas, replicas);
  }

  /// By the metric's mean over the ready replicas: ceil(ready * mean / target).
  std::uint32_t FromMean(Time now, std::uint32_t current, std::uint32_t ready, double mean) {
    const double ratio = mean / options_.target;
    return Bound(now, current, Close(ratio) ? current : Ceil(ratio * ready));
  }
  /// By a total to be shared, such as the length of a queue (AverageValue): ceil(total / target).
  std::uint32_t FromTotal(Time now, std::uint32_t current, double total) {
    const double ratio = total / (options_.target * current);
    return Bound(now, current, Close(ratio) ? current : Ceil(total / options_.target));
  }

 private:
  struct Mark {
    Time at;
    std::uint32_t replicas = 0;
  };

  bool Close(double ratio) const { return std::abs(ratio - 1) <= options_.tolerance; }
  std::uint32_t Ceil(double replicas) const {
    return static_cast<std::uint32_t>(std::ceil(std::min(replicas, 1e9)));
  }

  std::uint32_t Bound(Time now, std::uint32_t current, std::uint32_t recommended) {
    std::erase_if(recommended_, [&](Mark m) { return now - m.at > options_.down_window; });
    recommended_.push_back({now, recommended});
    std::uint32_t wanted = recommended;
    if (recommended < current) {
      for (const Mark& mark : recommended_) wanted = std::max(wanted, mark.replicas);
      wanted = std::min(wanted, current);
    }
    std::erase_if(added_, [&](Mark m) { return now - m.at >= options_.up_period; });
    std::uint32_t start = current;  // of the period
    for (const Mark& mark : added_) start -= std::min(start, mark.replicas);
    const double percent = std::ceil(start * (1 + options_.up_percent / 100.0));
    const std::uint32_t most = std::max(start + options_.up_replicas, Ceil(percent));
    wanted = std::min(wanted, std::max(most, current));
    wanted = std::clamp(wanted, options_.min_replicas, options_.max_replicas);
    if (wanted > current) added_.push_back({now, wanted - current});
    return wanted;
  }

  Options options_;
  std::vector<Mark> recommended_;  // in the last down_window
  std::vector<Mark> added_;        // in the last up_period
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_HPA_SCALER_H_
