#include "experiments/log_text.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "experiments/text.h"
#include "policies/api/actions.h"
#include "policies/api/plan.h"
#include "policies/api/source.h"
#include "policies/runtime/journal.h"

namespace schedtwin {
namespace {

constexpr std::string_view kRefusals[] = {
    "accepted",        "unknown_device",  "unknown_request", "unknown_plan",    "queue_full",
    "empty_plan",      "duplicate_entry", "wrong_tokens",    "no_capacity",     "no_memory",
    "batch_too_large", "not_decoding",    "wrong_device",    "already_started", "bad_window",
    "device_down",     "not_standing",    "ended",           "bad_argument",    "unsupported"};
static_assert(std::size(kRefusals) == static_cast<std::size_t>(Refusal::kCount));
/// By the journal's numbers (policies/runtime/journal.h).
constexpr std::string_view kTransactions[] = {"begin", "roll back", "commit", "left open"};

// Switches without a default: an enumerator that they do not know does not compile.

std::string_view Text(PlanEnd why) {
  switch (why) {
    case PlanEnd::kSteps:
      return "all steps done";
    case PlanEnd::kFinish:
      return "a request finished";
    case PlanEnd::kCut:
      return "cut";
    case PlanEnd::kMemory:
      return "out of memory";
    case PlanEnd::kEmpty:
      return "empty";
    case PlanEnd::kMissed:
      return "missed";
    case PlanEnd::kAborted:
      return "aborted";
    case PlanEnd::kFailed:
      return "failed";
  }
  return {};
}

std::string_view Text(EndReason reason) {
  switch (reason) {
    case EndReason::kCompleted:
      return "completed";
    case EndReason::kRejected:
      return "rejected";
    case EndReason::kTimedOut:
      return "timed out";
    case EndReason::kCancelled:
      return "cancelled";
    case EndReason::kFailed:
      return "failed";
    case EndReason::kCached:
      return "cached";
  }
  return {};
}

std::string_view Text(PreemptMode mode) {
  switch (mode) {
    case PreemptMode::kRecompute:
      return "recompute";
    case PreemptMode::kSwap:
      return "swap";
    case PreemptMode::kPause:
      return "pause";
  }
  return {};
}

std::string_view Text(AbortAt at) {
  switch (at) {
    case AbortAt::kNow:
      return "now";
    case AbortAt::kLayer:
      return "at a layer";
    case AbortAt::kStep:
      return "at a step";
  }
  return {};
}

/// Of a word that may be none of the enumerators.
template <typename Enum>
std::string TextOf(std::uint64_t word) {
  const auto value = static_cast<Enum>(word);
  const std::string_view text =
      static_cast<std::uint64_t>(value) == word ? Text(value) : std::string_view();
  return text.empty() ? Cat("? ", word) : std::string(text);
}

std::string NameOr(std::span<const std::string_view> names, std::uint64_t index) {
  return index < names.size() ? std::string(names[index]) : Cat("? ", index);
}

std::string PlanText(std::uint64_t word) {
  const PlanId plan = PlanId::FromWord(word);
  return plan.valid() ? Cat("plan ", plan.slot, "/", plan.generation) : "no plan";
}

std::string Seconds(std::int64_t ns) {
  const std::uint64_t size =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  std::string fraction = Cat(size % 1'000'000'000);
  fraction.insert(0, 9 - fraction.size(), '0');
  return Cat(ns < 0 ? "-" : "", size / 1'000'000'000, ".", fraction, " s");
}

std::string TimeWord(std::uint64_t word) {
  const Time time = Time::Nanos(static_cast<std::int64_t>(word));
  return time.infinite() ? "never" : Seconds(time.ns());
}

std::string Plural(std::uint64_t count, std::string_view noun) {
  return Cat(count, " ", noun, count == 1 ? "" : "s");
}

std::string AnswerText(std::uint64_t c) {
  const std::uint64_t refusal = c & 0xff;
  if (refusal == 0) return "accepted";
  return Cat("refused (", NameOr(kRefusals, refusal), ")");
}

std::string Numbers(const LogRecord& line) {
  return Cat(" (", line.a, ", ", line.b, ", ", line.c, ")");
}

std::string EventText(const LogRecord& line) {
  switch (static_cast<EventCode>(line.code)) {
    case EventCode::kPlanDone:
      return Cat(PlanText(line.a), " is done after ", Plural(line.b >> 8, "step"), ": ",
                 TextOf<PlanEnd>(line.b & 0xff), ", ", Plural(line.c, "request"), " finished");
    case EventCode::kTimer:
      return Cat("timer with tag ", line.a);
    case EventCode::kArrival:
      return Cat("request ", line.a, " arrives: ", line.b & 0xffffffffu, " prompt tokens, ",
                 Plural(line.b >> 32, "unit"), ", at most ", line.c, " new tokens");
    case EventCode::kPlanStarting:
      return Cat(PlanText(line.a), " is about to start");
    case EventCode::kSlotFree:
      return Cat("device ", line.a, " has room for ", Plural(line.b, "plan"));
    case EventCode::kFinished:
      return Cat("request ", line.a, " ends: ", TextOf<EndReason>(line.b));
    case EventCode::kStepTimes:
      return Cat("a step of ", PlanText(line.a), " ran from ", TimeWord(line.b), " to ",
                 TimeWord(line.c));
    case EventCode::kPlanOpened:
      return Cat("the window of ", PlanText(line.a), " opens");
    case EventCode::kCancel:
      return Cat("request ", line.a, " is cancelled", Numbers(line));
    case EventCode::kOperationDone:
      return Cat("operation done", Numbers(line));
    case EventCode::kCacheChange:
      return Cat("cache change", Numbers(line));
    case EventCode::kDeviceChange:
      return Cat("device change", Numbers(line));
    case EventCode::kReport:
      return Cat("report", Numbers(line));
  }
  return Cat("unknown event ", std::uint32_t{line.code}, Numbers(line));
}

std::string LaunchText(std::string_view verb, const LogRecord& line) {
  const std::uint64_t refused = line.c >> 8;
  return Cat(verb, " ", PlanText(line.a), " on device ", line.b & 0xffffffffu, ", up to ",
             Plural((line.b >> 32) & 0xffffff, "step"),
             (line.b >> 56 & 1) != 0 ? ", with the standing set" : "",
             (line.b >> 57 & 1) != 0 ? ", bound late" : "", ": ", AnswerText(line.c),
             refused > 0 ? Cat(" for entry ", refused) : "");
}

std::string TimerText(std::string_view verb, const LogRecord& line) {
  const bool gone = line.a > 0xffffffffu;
  return Cat(verb, " timer ", gone ? "that has gone" : Cat(line.a),
             verb == "cancel" ? "" : Cat(" to ", TimeWord(line.b)), ": ",
             line.c == 1 ? "done" : "too late");
}

std::string DeviceText(const LogRecord& line) { return Cat(" on device ", line.b >> 32); }

std::string DecisionText(const LogRecord& line) {
  switch (static_cast<DecisionCode>(line.code)) {
    case DecisionCode::kFinish:
      return Cat("end request ", line.a, " as ", TextOf<EndReason>(line.b), ": ",
                 AnswerText(line.c));
    case DecisionCode::kRoute:
      return Cat("route request ", line.a, " to device ", line.b, ": ", AnswerText(line.c));
    case DecisionCode::kPreempt:
      return Cat("preempt request ", line.a, " (", TextOf<PreemptMode>(line.b),
                 "): ", AnswerText(line.c));
    case DecisionCode::kLaunch:
      return LaunchText("launch", line);
    case DecisionCode::kAmend:
      return LaunchText("amend", line);
    case DecisionCode::kWithdraw:
      return Cat("withdraw ", PlanText(line.a), ": ", AnswerText(line.c));
    case DecisionCode::kAbort:
      return Cat("cut ", PlanText(line.a), " ", TextOf<AbortAt>(line.b), ": ", AnswerText(line.c));
    case DecisionCode::kJoin:
      return Cat("join request ", line.a, " on device ", line.b, ": ", AnswerText(line.c));
    case DecisionCode::kLeave:
      return Cat("take request ", line.a, " out of the standing set of device ", line.b, ": ",
                 AnswerText(line.c));
    case DecisionCode::kPoke:
      return Cat("poke device ", line.a, ": ", AnswerText(line.c));
    case DecisionCode::kReserve:
      return Cat("reserve blocks for ", Plural(line.b & 0xffffffffu, "token"), " of request ",
                 line.a, DeviceText(line), ": ", AnswerText(line.c));
    case DecisionCode::kRelease:
      return Cat("release the blocks of request ", line.a, DeviceText(line), ": ",
                 AnswerText(line.c));
    case DecisionCode::kTransaction:
      return Cat("memory transaction", DeviceText(line), ": ", NameOr(kTransactions, line.a), ", ",
                 AnswerText(line.c));
    case DecisionCode::kArm:
      return Cat("arm timer ", line.c, " with tag ", line.a, " for ", TimeWord(line.b));
    case DecisionCode::kRearm:
      return TimerText("rearm", line);
    case DecisionCode::kCancelTimer:
      return TimerText("cancel", line);
    case DecisionCode::kEntry:
      return Cat("  entry of a plan: request ", line.a, ", ", Plural(line.b, "token"));
    case DecisionCode::kPlanBounds:
      return Cat("  bounds of a plan: from ", TimeWord(line.a), ", latest ", TimeWord(line.b), ", ",
                 Plural(line.c & 0xffffffffu, "token"), " of padding, up to ",
                 Plural(line.c >> 32, "step"));
    case DecisionCode::kTransfer:
    case DecisionCode::kCancelOperation:
    case DecisionCode::kLoad:
    case DecisionCode::kUnload:
    case DecisionCode::kScale:
    case DecisionCode::kSetRole:
    case DecisionCode::kHold:
    case DecisionCode::kReleaseResponse:
    case DecisionCode::kPin:
    case DecisionCode::kEvict:
    case DecisionCode::kAdopt:
      break;  // no mechanics yet: refused everywhere
  }
  return Cat("decision ", std::uint32_t{line.code}, Numbers(line));
}

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  return kRefusals[static_cast<std::size_t>(refusal)];
}

std::string_view LineKindName(const LogRecord& line) {
  return line.kind == static_cast<std::uint8_t>(LineKind::kEvent) ? "event" : "decision";
}

std::string LineText(const LogRecord& line) {
  switch (static_cast<LineKind>(line.kind)) {
    case LineKind::kEvent:
      return EventText(line);
    case LineKind::kDecision:
      return DecisionText(line);
  }
  return Cat("unknown line of kind ", std::uint32_t{line.kind}, ", code ", std::uint32_t{line.code},
             Numbers(line));
}

std::string LineTimeText(const LogRecord& line) { return Seconds(line.time.ns()); }

}  // namespace schedtwin
