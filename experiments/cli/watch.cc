#include "experiments/cli/watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> interrupted = false;
std::atomic<int> caught = SIGINT;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void OnSignal(int signal) {
  caught.store(signal);
  interrupted.store(true);
}

}  // namespace

Interrupt::Interrupt() {
  interrupted.store(false);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the next one ends the program
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    // Who starts us with a signal ignored (nohup, a shell's background) means it.
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

const std::atomic<bool>* Interrupt::flag() const { return &interrupted; }

int InterruptedExitStatus() { return 128 + caught.load(); }

absl::Status InterruptedError() {
  return absl::CancelledError("interrupted; what had not ended is not in the results file");
}

Progress::Progress(std::string label, std::string unit, std::uint64_t total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(std::max<std::uint64_t>(total, 1)),
      active_(isatty(STDERR_FILENO) == 1) {
  if (active_) thread_ = std::thread([this] { Loop(); });
}

Progress::~Progress() {
  if (!active_) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::Loop() {
  std::unique_lock lock(mutex_);
  auto wait = std::chrono::milliseconds(2'000);  // what is over sooner needs no bar
  while (!changed_.wait_for(lock, wait, [this] { return ended_; })) {
    Draw();
    wait = std::chrono::milliseconds(200);
  }
}

void Progress::Draw() {
  constexpr std::size_t kWidth = 30;
  const std::uint64_t done = std::min(done_.load(), total_);
  const auto filled = static_cast<std::size_t>(done * kWidth / total_);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const std::string line = Cat("\r", label_, " [", bar, "] ", done * 100 / total_, "%  ", done,
                               " of ", total_, " ", unit_);
  std::fputs(line.c_str(), stderr);
  drawn_ = true;
}

}  // namespace schedtwin::cli
