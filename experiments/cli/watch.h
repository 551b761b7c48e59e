// Watching a run from the outside: Interrupt catches SIGINT and SIGTERM for the length of its life
// and sets a flag that the run looks at, so that an open run is removed before the program ends (a
// second signal ends it at once, which is safe too). Progress draws a bar on a terminal for what
// takes over two seconds, from a thread of its own that only reads a counter. Make one of each, on
// the main thread.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_WATCH_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_WATCH_H_

#include <signal.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace schedtwin::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>* flag() const;
  bool raised() const { return flag()->load(); }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_ = {};  ///< what they did before, for afterwards
};

/// What a command says when it was interrupted.
absl::Status InterruptedError();
/// The exit status that goes with it: 130 for SIGINT, 143 for SIGTERM, as shells have it.
int InterruptedExitStatus();

class Progress {
 public:
  /// `unit` names what is counted, such as "requests". Does nothing when standard error is no
  /// terminal.
  Progress(std::string label, std::string unit, std::uint64_t total);
  /// Erases the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// To be counted up by whoever makes progress; null when nobody would see it.
  std::atomic<std::uint64_t>* counter() { return active_ ? &done_ : nullptr; }

 private:
  void Draw();
  void Loop();

  std::string label_, unit_;
  std::uint64_t total_;
  bool active_;
  std::atomic<std::uint64_t> done_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  bool drawn_ = false;
  std::thread thread_;
};

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_WATCH_H_
