// Clock: time as a policy sees it. now() is latched for the whole callback, in every world; what
// the wall clock does meanwhile is not seen. Timers are cancelled eagerly: after Cancel has said
// true the timer will never fire, even when it was due at this very instant.
#ifndef SCHEDTWIN_POLICIES_API_CLOCK_H_
#define SCHEDTWIN_POLICIES_API_CLOCK_H_

#include <cstdint>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

class Clock {
 public:
  Time now() const { return now_; }

  /// Raises OnTimer(tag) at `when`, or at this instant if that has passed.
  virtual TimerId Arm(Time when, std::uint64_t tag) = 0;
  /// Moves a pending timer; false (and nothing changes) if it has fired or was cancelled.
  virtual bool Rearm(TimerId timer, Time when) = 0;
  /// True: it will never fire. False: it already has, or was cancelled before.
  virtual bool Cancel(TimerId timer) = 0;

 protected:
  ~Clock() = default;
  Time now_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_CLOCK_H_
