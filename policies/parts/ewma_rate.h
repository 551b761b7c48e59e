// EwmaRate: a rate of events that forgets exponentially: one number, where RateWindow keeps the
// events. Instants must not go back. Owned by one policy; the same bits on every machine.
#ifndef SCHEDTWIN_POLICIES_PARTS_EWMA_RATE_H_
#define SCHEDTWIN_POLICIES_PARTS_EWMA_RATE_H_

#include <cstdint>

#include "policies/api/rng.h"
#include "policies/api/time.h"

namespace schedtwin {

class EwmaRate {
 public:
  /// REQUIRES: time_constant > 0. Of a step in the rate it shows 63% after that time.
  explicit EwmaRate(Duration time_constant) : time_constant_(time_constant) {}

  void Add(Time now, std::uint64_t weight = 1) {
    rate_ = PerSecond(now) +
            static_cast<double>(weight) * 1e9 / static_cast<double>(time_constant_.ns());
    last_ = now;
  }
  double PerSecond(Time now) const {
    return rate_ * FixedExp(-static_cast<double>((now - last_).ns()) /
                            static_cast<double>(time_constant_.ns()));
  }

 private:
  Duration time_constant_;
  Time last_;
  double rate_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_EWMA_RATE_H_
