// SeenLines: which kinds of lines the runs of a suite have written into their logs, in each world:
// events and decisions by code, with what sets them apart (why a plan ended, what an operation was)
// and whether the answer was yes. So a suite can be asked what it has left out. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_SEEN_LINES_H_
#define SCHEDTWIN_TESTS_SUPPORT_SEEN_LINES_H_

#include <compare>
#include <cstdint>
#include <set>

#include "policies/api/recorder.h"
#include "policies/runtime/journal.h"

namespace schedtwin {

struct SeenLine {
  LineKind kind;
  std::uint8_t code;
  std::uint64_t detail = 0;
  bool accepted = true;

  auto operator<=>(const SeenLine&) const = default;
};

inline SeenLine SeenEvent(EventCode code, std::uint64_t detail = 0, bool ok = true) {
  return {LineKind::kEvent, static_cast<std::uint8_t>(code), detail, ok};
}
inline SeenLine SeenDecision(DecisionCode code, bool accepted, std::uint64_t detail = 0) {
  return {LineKind::kDecision, static_cast<std::uint8_t>(code), detail, accepted};
}

/// Decisions that are always taken as they are.
inline bool HasAnswer(DecisionCode code) {
  return code != DecisionCode::kArm && code != DecisionCode::kEntry &&
         code != DecisionCode::kPlanBounds;
}

inline SeenLine KindOf(const LogRecord& line) {
  if (line.kind == static_cast<std::uint8_t>(LineKind::kEvent)) {
    const auto code = static_cast<EventCode>(line.code);
    switch (code) {
      case EventCode::kPlanDone:
        return SeenEvent(code, line.b & 0xff);
      case EventCode::kOperationDone:
        return SeenEvent(code, line.b, line.c == 1);
      case EventCode::kDeviceChange:
      case EventCode::kCancel:
      case EventCode::kFinished:
        return SeenEvent(code, line.b);
      default:
        return SeenEvent(code);
    }
  }
  const auto code = static_cast<DecisionCode>(line.code);
  switch (code) {
    case DecisionCode::kRearm:
    case DecisionCode::kCancelTimer:
    case DecisionCode::kAdopt:
      return SeenDecision(code, line.c > 0);
    case DecisionCode::kFinish:
    case DecisionCode::kPreempt:
    case DecisionCode::kAbort:
    case DecisionCode::kSetRole:
      return SeenDecision(code, (line.c & 0xff) == 0, line.b);
    default:
      return SeenDecision(code, !HasAnswer(code) || (line.c & 0xff) == 0);
  }
}

using SeenLines = std::set<SeenLine>;

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_SEEN_LINES_H_
