// WallTimeSource: the clock of a real run. The one loop sleeps in it until the earliest of the next
// planned instant (an arrival, a timer) and a message from a device. Everything that has come in by
// the time it wakes is posted before it returns, so that one wake is one instant.
//
// With Wait::kSleep it sleeps to the deadline, and is woken some tens of microseconds late. With
// Wait::kSpin it sleeps to 100 us before the deadline and then watches the clock, which takes a
// core of its own. Policy thread.
#ifndef SCHEDTWIN_EXEC_WALL_TIME_H_
#define SCHEDTWIN_EXEC_WALL_TIME_H_

#include <cstdint>
#include <memory>

#include "exec/mailbox.h"
#include "exec/wall_clock.h"
#include "policies/runtime/time_source.h"

namespace schedtwin {

enum class Wait : std::uint8_t { kSleep, kSpin };

class WallTimeSource final : public TimeSource {
 public:
  /// Both outlive this.
  WallTimeSource(const WallClock* clock, Mailbox* mailbox, Wait wait);
  ~WallTimeSource() override;

  /// Returns early, with nothing due, after a twentieth of a second: so that a run that is stopped
  /// from outside notices.
  Time Advance(Time next) override;
  bool MayWake() const override { return mailbox_->expected() > 0; }
  Duration ThreadTime() const override { return Duration::Nanos(ThreadCpuNs()); }

 private:
  struct Reactor;

  const WallClock* clock_;
  Mailbox* mailbox_;
  Wait wait_;
  Time last_;
  std::unique_ptr<Reactor> reactor_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_WALL_TIME_H_
