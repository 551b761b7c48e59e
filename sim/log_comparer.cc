#include "sim/log_comparer.h"

#include <algorithm>
#include <utility>

#include "policies/runtime/journal.h"

namespace schedtwin {
namespace {

bool Same(const LogRecord& x, const LogRecord& y) {
  return x.time == y.time && x.kind == y.kind && x.code == y.code && x.a == y.a && x.b == y.b &&
         x.c == y.c;
}

bool IsWholeDecision(const LogRecord& line) {
  return line.kind == static_cast<std::uint8_t>(LineKind::kDecision) &&
         line.code != static_cast<std::uint8_t>(DecisionCode::kEntry) &&
         line.code != static_cast<std::uint8_t>(DecisionCode::kPlanBounds);
}

}  // namespace

const LogRecord* LogComparer::Peek(std::size_t ahead) {
  while (ahead_.size() <= ahead) {
    LogRecord line;
    if (!log_->Next(&line)) return nullptr;
    ahead_.push_back(line);
  }
  return &ahead_[ahead];
}

void LogComparer::OnLog(const LogRecord& line) {
  if (divergence_.has_value()) {  // the instant goes on to its end
    std::vector<LogRecord>& shown = divergence_->replayed;
    if (!shown.empty() && shown.size() < kLinesFrom) shown.push_back(line);
    return;
  }
  const LogRecord* const recorded = Peek();
  if (recorded == nullptr || !Same(*recorded, line)) {
    Diverge(&line);
    return;
  }
  before_[lines_ % kLinesBefore] = *recorded;
  if (line.kind == static_cast<std::uint8_t>(LineKind::kEvent)) event_ = line;
  ++lines_;
  decisions_ += IsWholeDecision(line);
  ahead_.pop_front();
  if (lines_seen_ != nullptr) lines_seen_->fetch_add(1, std::memory_order_relaxed);
  Stopped();
}

void LogComparer::Diverge(const LogRecord* replayed) {
  if (divergence_.has_value()) return;
  Divergence& divergence = divergence_.emplace();
  divergence.event = event_;
  for (std::uint64_t i = lines_ - std::min<std::uint64_t>(lines_, kLinesBefore); i < lines_; ++i) {
    divergence.before.push_back(before_[i % kLinesBefore]);
  }
  for (std::size_t i = 0; i < kLinesFrom; ++i) {
    const LogRecord* const recorded = Peek(i);
    if (recorded == nullptr) break;
    divergence.recorded.push_back(*recorded);
  }
  if (replayed != nullptr) divergence.replayed.push_back(*replayed);
  stop_.store(true, std::memory_order_relaxed);
}

bool LogComparer::Stopped() {
  if (interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed)) {
    stop_.store(true, std::memory_order_relaxed);
  }
  return stop_.load(std::memory_order_relaxed);
}

void LogComparer::Tell(ReplayReport* report) {
  report->lines = lines_;
  report->decisions = decisions_;
  report->divergence = std::move(divergence_);
}

}  // namespace schedtwin
