// LogComparer: the recorder of a replay. Holds each line that the new run writes against the next
// recorded one, and raises `stop` at the first that differs; shows the recorded lines to come to
// whoever makes the new run's time pass. Owned by Replay; policy thread.
#ifndef SCHEDTWIN_SIM_LOG_COMPARER_H_
#define SCHEDTWIN_SIM_LOG_COMPARER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "policies/api/recorder.h"
#include "sim/replay.h"

namespace schedtwin {

class LogComparer final : public Recorder {
 public:
  /// `interrupt` and `lines_seen` may be null.
  LogComparer(RecordedLog* log, const std::atomic<bool>* interrupt,
              std::atomic<std::uint64_t>* lines_seen)
      : log_(log), interrupt_(interrupt), lines_seen_(lines_seen) {}

  void OnLog(const LogRecord& line) override;
  void OnRequest(const RequestRecord&) override {}
  void OnStep(const StepRecord&) override {}
  void OnNote(Time, std::string_view) override {}

  /// The recorded line that is `ahead` lines after the last one that was equal; null past the end.
  /// Valid until the next call of anything.
  const LogRecord* Peek(std::size_t ahead = 0);
  /// The new run has written no line where one was recorded, or goes on where the log has ended.
  void MissesLine() { Diverge(nullptr); }

  /// True once the new run should end: it has diverged, or was interrupted.
  bool Stopped();
  /// The same for World, which looks at it at every instant.
  const std::atomic<bool>* stop() const { return &stop_; }

  bool diverged() const { return divergence_.has_value(); }
  /// Moves lines, decisions and the divergence into the report.
  void Tell(ReplayReport* report);

 private:
  static constexpr std::size_t kLinesBefore = 8;
  static constexpr std::size_t kLinesFrom = 4;  ///< of each side, from the difference on

  void Diverge(const LogRecord* replayed);

  RecordedLog* log_;
  const std::atomic<bool>* interrupt_;
  std::atomic<std::uint64_t>* lines_seen_;
  std::deque<LogRecord> ahead_;  ///< read and not compared yet
  std::array<LogRecord, kLinesBefore> before_;
  std::optional<LogRecord> event_;  ///< the last that was equal
  std::uint64_t lines_ = 0;
  std::uint64_t decisions_ = 0;
  std::optional<Divergence> divergence_;
  std::atomic<bool> stop_ = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_LOG_COMPARER_H_
