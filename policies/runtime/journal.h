// Journal: every event delivered, decision taken and answer given, as lines. The lines feed the
// decision digest, and the log when a recorder asks for it; there is no second account of a run
// that could differ from the first. Whatever acts at an instant leaves a line at that instant, told
// to the policy or not: a replay (sim/replay.h) has nothing else to go by. Notes are not lines:
// they are in no digest. Digested is one word for each new time, and three words a line: kind, code
// and c in one (c rarely needs its upper bytes), a, b.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_JOURNAL_H_
#define SCHEDTWIN_POLICIES_RUNTIME_JOURNAL_H_

#include <cstdint>

#include "policies/api/plan.h"
#include "policies/api/recorder.h"
#include "policies/api/time.h"
#include "policies/runtime/digest.h"

namespace schedtwin {

enum class LineKind : std::uint8_t { kEvent = 1, kDecision = 2 };

/// Codes are stored in results files: append only.
enum class EventCode : std::uint8_t {
  kPlanDone = 1,         ///< a: plan, b: why and steps, c: finished requests
  kOperationDone = 2,    ///< a: operation, b: kind, c: 1 ok
  kCacheChange = 3,      ///< a: device, b: tier, c: blocks stored and evicted
  kDeviceChange = 4,     ///< a: device, b: change
  kReport = 5,           ///< a: device, b: when taken, c: requests waiting and running
  kCancel = 6,           ///< a: request, b: by whom
  kTimer = 7,            ///< a: tag
  kArrival = 8,          ///< a: request, b: prompt tokens and units, c: max_new_tokens
  kPlanStarting = 9,     ///< a: plan
  kSlotFree = 10,        ///< a: device, b: depth left
  kFinished = 11,        ///< a: request, b: reason; delivered with the plan done that follows
  kStepTimes = 12,       ///< a: plan, b: start, c: end, of a measured step; a plan's come in order
  kPlanOpened = 13,      ///< a: plan; its window opens and it may start
  kOperationTimes = 14,  ///< a: operation, b: start, c: end, of a measured one
  kStepAborted = 15,     ///< as kStepTimes, of a step that was cut
  kOperationAborted = 16,  ///< as kOperationTimes, of one that was cancelled
  kReportTaken = 17,       ///< a: device
  kFault = 18,             ///< a: device, b: 0 begins, 1 ends
};

/// Decisions; c holds the answer (a Refusal) in its low byte unless it says otherwise. Timers are
/// numbered in the order they are armed: their handles would depend on what else has happened in
/// the world.
enum class DecisionCode : std::uint8_t {
  kFinish = 1,   ///< a: request, b: reason
  kRoute = 2,    ///< a: request, b: device, one more than the one to decode on and the variant
  kPreempt = 3,  ///< a: request, b: mode
  kLaunch = 4,   ///< a: plan, b: device, steps, standing; c: also the refused entry. kEntry lines
                 ///< come first
  kAmend = 5,
  kWithdraw = 6,  ///< a: plan
  kAbort = 7,     ///< a: plan, b: where
  kJoin = 8,      ///< a: request, b: device
  kLeave = 9,
  kPoke = 10,             ///< a: device
  kReserve = 11,          ///< a: request, b: tokens and device
  kRelease = 12,          ///< a: request, b: device
  kTransaction = 13,      ///< a: 0 begin, 1 roll back, 2 commit, 3 left open; b: entries and device
  kTransfer = 14,         ///< a: request or model, b: devices, tiers, modes
  kCancelOperation = 15,  ///< a: operation
  kLoad = 16,             ///< a: device, b: model
  kUnload = 17,
  kScale = 18,    ///< a: devices
  kSetRole = 19,  ///< a: device, b: role
  kHold = 20,     ///< a: request
  kReleaseResponse = 21,
  kArm = 22,          ///< a: tag, b: when, c: timer
  kRearm = 23,        ///< a: timer, b: when, c: 1 done
  kCancelTimer = 24,  ///< a: timer, c: 1 done
  kEntry = 25,        ///< a: request, b: tokens
  kPlanBounds = 26,   ///< a: earliest, b: latest, c: padding and steps; only where one is unusual
  kPin = 27,          ///< a: request, b: 1 pinned
  kEvict = 28,        ///< a: device, b: blocks
  kAdopt = 29,        ///< a: request, b: tokens and device, c: tokens adopted
};

class Journal {
 public:
  void Attach(Recorder* recorder, bool log) { recorder_ = log ? recorder : nullptr; }

  void Event(Time now, EventCode code, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
    Line(now, LineKind::kEvent, static_cast<std::uint8_t>(code), a, b, c);
    events_ += code < EventCode::kFinished;
  }
  void Decision(Time now, DecisionCode code, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    Line(now, LineKind::kDecision, static_cast<std::uint8_t>(code), a, b, c);
  }
  /// A decision with its answer; a refusal is counted by reason.
  Refusal Answer(Time now, DecisionCode code, std::uint64_t a, std::uint64_t b, Refusal answer,
                 std::uint32_t detail = 0) {
    Decision(now, code, a, b, static_cast<std::uint64_t>(answer) | (std::uint64_t{detail} << 8));
    ++answers_[static_cast<std::size_t>(answer)];
    return answer;
  }

  std::uint64_t events() const { return events_; }
  std::uint64_t refused(Refusal reason) const { return answers_[static_cast<std::size_t>(reason)]; }
  std::uint64_t digest() { return digest_.value(); }

 private:
  void Line(Time now, LineKind kind, std::uint8_t code, std::uint64_t a, std::uint64_t b,
            std::uint64_t c) {
    if (now != time_) {
      time_ = now;
      digest_.Add(static_cast<std::uint64_t>(now.ns()) | kTimeMark);
    }
    const std::uint64_t what = (static_cast<std::uint64_t>(kind) << 8) | code;
    digest_.Add(c ^ (what << 48), a, b);
    if (recorder_ != nullptr) [[unlikely]] {
      recorder_->OnLog({lines_, now, static_cast<std::uint8_t>(kind), code, a, b, c});
    }
    ++lines_;
  }

  static constexpr std::uint64_t kTimeMark = std::uint64_t{1} << 63;

  WordDigest digest_;
  Time time_ = Time::Infinite();  ///< of the last line
  Recorder* recorder_ = nullptr;
  std::uint64_t lines_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t answers_[static_cast<std::size_t>(Refusal::kCount)] = {};
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_JOURNAL_H_
