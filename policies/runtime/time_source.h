// TimeSource: how the one loop gets from one instant to the next. Simulation jumps; a real clock
// waits for the earliest of deadline, completion and arrival. Called from the policy thread only.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_TIME_SOURCE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_TIME_SOURCE_H_

#include "policies/api/time.h"

namespace schedtwin {

class TimeSource {
 public:
  virtual ~TimeSource() = default;

  /// Moves on to the next instant at which something is due, at the latest `next` (infinite:
  /// nothing is planned), and returns it. What came in meanwhile has been posted to the run's
  /// ReplySink. Never goes back. A real clock may return early or late, but never the same instant
  /// twice: what two wakes brought must be told apart in the log.
  virtual Time Advance(Time next) = 0;
  /// True if a message may still come when nothing is planned: a step runs, or a client may send a
  /// request. A worker that has nothing to do does not count.
  virtual bool MayWake() const = 0;
  /// CPU time of the policy's thread so far, by which decisions are measured; negative: nobody
  /// measures (simulation).
  virtual Duration ThreadTime() const { return Duration::Nanos(-1); }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_TIME_SOURCE_H_
