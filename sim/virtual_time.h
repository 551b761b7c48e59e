// VirtualTimeSource: the clock of the simulated world. Time is wherever the next event is; nothing
// waits.
#ifndef SCHEDTWIN_SIM_VIRTUAL_TIME_H_
#define SCHEDTWIN_SIM_VIRTUAL_TIME_H_

#include "policies/runtime/time_source.h"

namespace schedtwin {

class VirtualTimeSource final : public TimeSource {
 public:
  Time Advance(Time next) override { return next; }
  bool MayWake() const override { return false; }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_VIRTUAL_TIME_H_
