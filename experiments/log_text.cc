#include "experiments/log_text.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "experiments/text.h"
#include "policies/api/actions.h"
#include "policies/api/device.h"
#include "policies/api/plan.h"
#include "policies/api/policy.h"
#include "policies/api/source.h"
#include "policies/runtime/journal.h"

namespace schedtwin {
namespace {

constexpr std::string_view kRefusals[] = {"accepted",        "unknown_device",    "unknown_request",
                                          "unknown_plan",    "queue_full",        "empty_plan",
                                          "duplicate_entry", "wrong_tokens",      "no_capacity",
                                          "no_memory",       "batch_too_large",   "not_decoding",
                                          "wrong_device",    "already_started",   "bad_window",
                                          "device_down",     "not_standing",      "ended",
                                          "bad_argument",    "unsupported",       "moving",
                                          "on_host",         "not_loaded",        "mixed_models",
                                          "no_link",         "unknown_operation", "model_in_use"};
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
    case PreemptMode::kSwapBlocking:
      return "swap, blocking";
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

std::string_view Text(CancelBy by) {
  switch (by) {
    case CancelBy::kClient:
      return "its client has left";
    case CancelBy::kDeadline:
      return "its deadline has passed";
    case CancelBy::kFault:
      return "its device has lost it";
  }
  return {};
}

std::string_view Text(OperationKind kind) {
  switch (kind) {
    case OperationKind::kSwapOut:
      return "swap out";
    case OperationKind::kSwapIn:
      return "swap in";
    case OperationKind::kTransfer:
      return "transfer";
    case OperationKind::kStage:
      return "stage of a migration";
    case OperationKind::kLoad:
      return "load";
    case OperationKind::kUnload:
      return "unload";
  }
  return {};
}

std::string_view Text(DeviceChange change) {
  switch (change) {
    case DeviceChange::kAdded:
      return "is added";
    case DeviceChange::kReady:
      return "is ready";
    case DeviceChange::kDraining:
      return "is draining";
    case DeviceChange::kFailed:
      return "has failed";
    case DeviceChange::kRecovered:
      return "has recovered";
    case DeviceChange::kRole:
      return "has another role";
    case DeviceChange::kCapacity:
      return "has other models loaded";
    case DeviceChange::kRemoved:
      return "is removed";
  }
  return {};
}

std::string_view Text(DeviceRole role) {
  switch (role) {
    case DeviceRole::kBoth:
      return "prefill and decode";
    case DeviceRole::kPrefill:
      return "prefill";
    case DeviceRole::kDecode:
      return "decode";
  }
  return {};
}

std::string_view Text(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "device tier";
    case Tier::kHost:
      return "host tier";
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

std::string OperationText(std::uint64_t word) {
  const OpId operation = OpId::FromWord(word);
  return operation.valid() ? Cat("operation ", operation.slot, "/", operation.generation)
                           : "no operation";
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

// Of a step or an operation that was measured.
std::string RanText(const std::string& what, std::string_view how, const LogRecord& line) {
  return Cat(what, " ", how, " from ", TimeWord(line.b), " to ", TimeWord(line.c));
}

std::string OperationDoneText(const LogRecord& line) {
  return Cat(OperationText(line.a), " (", TextOf<OperationKind>(line.b), ") ",
             line.c != 0 ? "is done" : "has come to nothing");
}

std::string CacheChangeText(const LogRecord& line) {
  return Cat("prefix cache of device ", line.a, ", ", TextOf<Tier>(line.b), ": ",
             Plural(line.c & 0xffffffffu, "block"), " stored, ", line.c >> 32, " evicted");
}

std::string ReportText(const LogRecord& line) {
  return Cat("report of device ", line.a, " of ", TimeWord(line.b), ": ",
             Plural(line.c & 0xffffffffu, "request"), " waiting, ", line.c >> 32, " running");
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
      return RanText(Cat("a step of ", PlanText(line.a)), "ran", line);
    case EventCode::kStepAborted:
      return RanText(Cat("a step of ", PlanText(line.a)), "was cut; it ran", line);
    case EventCode::kPlanOpened:
      return Cat("the window of ", PlanText(line.a), " opens");
    case EventCode::kCancel:
      return Cat("request ", line.a, " is cancelled: ", TextOf<CancelBy>(line.b));
    case EventCode::kOperationDone:
      return OperationDoneText(line);
    case EventCode::kOperationTimes:
      return RanText(OperationText(line.a), "ran", line);
    case EventCode::kOperationAborted:
      return RanText(OperationText(line.a), "was cut; it ran", line);
    case EventCode::kCacheChange:
      return CacheChangeText(line);
    case EventCode::kDeviceChange:
      return Cat("device ", line.a, " ", TextOf<DeviceChange>(line.b));
    case EventCode::kReport:
      return ReportText(line);
    case EventCode::kReportTaken:
      return Cat("device ", line.a, " writes a report");
    case EventCode::kFault:
      return Cat("a fault of device ", line.a, line.b == 0 ? " begins" : " ends");
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

// One end of a transfer: a device, and its host tier.
std::string EndText(std::uint64_t device, bool host) {
  constexpr std::uint64_t kNone = 0xffffff;
  return Cat(device == kNone ? "no device" : Cat("device ", device), host ? " (host tier)" : "");
}

std::string TransferText(const LogRecord& line) {
  constexpr std::uint64_t kNone = 0xffffffff;
  const std::uint64_t request = line.a & kNone;
  const std::uint64_t model = line.a >> 32;
  const std::string what = request != kNone ? Cat("the KV of request ", request)
                           : model != kNone ? Cat("model ", model)
                                            : "nothing";
  return Cat("transfer ", what, " from ", EndText(line.b & 0xffffff, (line.b >> 48 & 1) != 0),
             " to ", EndText(line.b >> 24 & 0xffffff, (line.b >> 49 & 1) != 0),
             (line.b >> 50 & 1) != 0 ? ", blocking" : "", (line.b >> 51 & 1) != 0 ? ", live" : "",
             (line.b >> 52 & 1) != 0 ? ", kept" : "", ": ", AnswerText(line.c));
}

// Responses, cached blocks, operations and placement.
std::string PlacementText(const LogRecord& line) {
  const std::string answer = Cat(": ", AnswerText(line.c));
  switch (static_cast<DecisionCode>(line.code)) {
    case DecisionCode::kTransfer:
      return TransferText(line);
    case DecisionCode::kCancelOperation:
      return Cat("cancel ", OperationText(line.a), answer);
    case DecisionCode::kLoad:
      return Cat("load model ", line.b, " on device ", line.a, answer);
    case DecisionCode::kUnload:
      return Cat("unload model ", line.b, " from device ", line.a, answer);
    case DecisionCode::kScale:
      return Cat("scale to ", Plural(line.a, "device"), answer);
    case DecisionCode::kSetRole:
      return Cat("set the role of device ", line.a, " to ", TextOf<DeviceRole>(line.b), answer);
    case DecisionCode::kHold:
      return Cat("hold the response of request ", line.a, answer);
    case DecisionCode::kReleaseResponse:
      return Cat("release the response of request ", line.a, answer);
    case DecisionCode::kPin:
      return Cat(line.b != 0 ? "pin" : "unpin", " the cached blocks of request ", line.a, answer);
    case DecisionCode::kEvict:
      return Cat("evict ", Plural(line.b, "cached block"), " from device ", line.a, answer);
    default:
      return Cat("decision ", std::uint32_t{line.code}, Numbers(line));
  }
}

std::string RouteText(const LogRecord& line) {
  const std::uint64_t decode = line.b >> 32 & 0xffffff, variant = line.b >> 56;
  return Cat("route request ", line.a, " to device ", line.b & 0xffffffff,
             decode == 0 ? "" : Cat(", to decode on device ", decode - 1),
             variant == 0 ? "" : Cat(", as model ", variant - 1), ": ", AnswerText(line.c));
}

std::string DecisionText(const LogRecord& line) {
  switch (static_cast<DecisionCode>(line.code)) {
    case DecisionCode::kFinish:
      return Cat("end request ", line.a, " as ", TextOf<EndReason>(line.b), ": ",
                 AnswerText(line.c));
    case DecisionCode::kRoute:
      return RouteText(line);
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
    case DecisionCode::kAdopt:
      return Cat("adopt at most ", Plural(line.b & 0xffffffffu, "cached token"), " for request ",
                 line.a, DeviceText(line), ": ", line.c);
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
      return PlacementText(line);
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
