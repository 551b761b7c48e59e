// WallClock: the time of a real run, in nanoseconds of the machine's steady clock since Start(),
// and the CPU time of a thread. Read from any thread once started.
#ifndef SCHEDTWIN_EXEC_WALL_CLOCK_H_
#define SCHEDTWIN_EXEC_WALL_CLOCK_H_

#include <time.h>

#include <chrono>
#include <cstdint>

#include "policies/api/time.h"

namespace schedtwin {

class WallClock {
 public:
  /// Now is time zero. Before any other thread reads the clock.
  void Start() { zero_ = std::chrono::steady_clock::now(); }
  Time Now() const {
    return Time::Nanos(std::chrono::nanoseconds(std::chrono::steady_clock::now() - zero_).count());
  }
  std::chrono::steady_clock::time_point At(Time time) const {
    return zero_ + std::chrono::nanoseconds(time.ns());
  }

 private:
  std::chrono::steady_clock::time_point zero_ = std::chrono::steady_clock::now();
};

/// CPU time, user and system, that the calling thread has used.
inline std::int64_t ThreadCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_WALL_CLOCK_H_
