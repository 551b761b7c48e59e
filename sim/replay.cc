#include "sim/replay.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "policies/runtime/device_port.h"
#include "policies/runtime/journal.h"
#include "policies/runtime/time_source.h"
#include "sim/log_comparer.h"
#include "sim/simulate.h"

namespace schedtwin {
namespace {

// A run ends before this (World), so a recorded time beyond it is none.
constexpr Time kNoSuchTime = Time::Nanos(std::int64_t{1} << 62);

// Takes the commands of a real device, and answers with what is recorded of that device's step.
class ReplayDevice final : public DevicePort {
 public:
  explicit ReplayDevice(DeviceInfo info) : info_(std::move(info)) {}

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override {
    reply_.device = id;
    commands_ = commands;
    replies_ = replies;
  }
  void Notify(Time) override {
    commands_->Drain([this](const DeviceCommand& command) {
      switch (command.kind) {
        case CommandKind::kStep:
          reply_.plan = command.plan;
          reply_.step = command.step;
          busy_ = true;
          return;
        case CommandKind::kCopy:
        case CommandKind::kLoad:
        case CommandKind::kUnload:
          operations_.push_back(command.plan);
          return;
        default:
          return;
      }
    });
  }

  bool busy() const { return busy_ || !operations_.empty(); }
  /// Answers what the line is about, if that is what this device is at.
  bool Answer(const LogRecord& line, EventCode code, Time start, Time end, Time now) {
    const PlanId handle = PlanId::FromWord(line.a);
    const bool step = code == EventCode::kStepTimes || code == EventCode::kStepAborted;
    DeviceReply reply = reply_;
    if (step) {
      if (!busy_ || reply_.plan != handle) return false;
      busy_ = false;
    } else {
      if (std::erase(operations_, handle) == 0) return false;
      reply.kind = ReplyKind::kOperationDone;
      reply.plan = handle;
    }
    const bool whole = code == EventCode::kStepTimes || code == EventCode::kOperationTimes;
    reply.status = whole ? ReplyStatus::kOk : ReplyStatus::kAborted;
    reply.start = start;
    reply.end = end;
    reply.compute_ns = 0;  // measured, then; how long is told to no policy
    replies_->Post(reply, now);
    return true;
  }

 private:
  DeviceInfo info_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
  DeviceReply reply_;
  bool busy_ = false;
  std::vector<PlanId> operations_;  ///< asked for and not answered
};

// Wakes when the recorded run woke to do something, with the answers that it then got.
class ReplayTimeSource final : public TimeSource {
 public:
  ReplayTimeSource(LogComparer* comparer, std::deque<ReplayDevice>* devices)
      : comparer_(comparer), devices_(devices) {}

  Time Advance(Time) override {
    if (comparer_->Stopped()) return now_;
    const LogRecord* const line = comparer_->Peek();
    // Each instant later than the one before; only the first may be that of OnStart. A line of an
    // instant that is over is one that the new run did not write.
    if (line == nullptr || line->time < now_ || (woken_ && line->time == now_) ||
        line->time >= kNoSuchTime) {
      comparer_->MissesLine();
      return now_;
    }
    woken_ = true;
    now_ = line->time;
    PostReplies();
    return now_;
  }

  bool MayWake() const override {
    for (const ReplayDevice& device : *devices_) {
      if (device.busy()) return true;
    }
    return false;
  }

 private:
  // An answer that no device can give is left out; its line is then one that is missed.
  void PostReplies() {
    const LogRecord* line = nullptr;
    for (std::size_t i = 0; (line = comparer_->Peek(i)) != nullptr && line->time == now_; ++i) {
      if (line->kind != static_cast<std::uint8_t>(LineKind::kEvent)) continue;
      const auto code = static_cast<EventCode>(line->code);
      if (code != EventCode::kStepTimes && code != EventCode::kStepAborted &&
          code != EventCode::kOperationTimes && code != EventCode::kOperationAborted) {
        continue;
      }
      const Time start = Time::Nanos(static_cast<std::int64_t>(line->b));
      const Time end = Time::Nanos(static_cast<std::int64_t>(line->c));
      if (start < Time() || end < start || end >= kNoSuchTime) continue;
      for (ReplayDevice& device : *devices_) {
        if (device.Answer(*line, code, start, end, now_)) break;
      }
    }
  }

  LogComparer* comparer_;
  std::deque<ReplayDevice>* devices_;
  Time now_;
  bool woken_ = false;
};

RunSummary RunMeasured(const ReplaySetup& setup, const WorldOptions& options, Policy* policy,
                       std::span<RequestSource* const> sources, LogComparer* comparer) {
  std::deque<ReplayDevice> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
    devices.emplace_back(setup.device);
    setups.push_back({&devices.back(), setup.model});
  }
  ReplayTimeSource time_source(comparer, &devices);
  World world(options, policy, &time_source, setups, sources, comparer, {.log = true});
  return world.Run();
}

}  // namespace

ReplayReport Replay(const ReplaySetup& setup, Policy* policy,
                    std::span<RequestSource* const> sources, RecordedLog* log) {
  LogComparer comparer(log, setup.world.stop, setup.lines_seen);
  WorldOptions options = setup.world;
  options.stop = comparer.stop();
  ReplayReport report;
  if (setup.measured) {
    report.summary = RunMeasured(setup, options, policy, sources, &comparer);
  } else {
    const SimSetup run = {setup.model, setup.device, setup.devices, options};
    report.summary = Simulate(run, policy, sources, &comparer, {.log = true});
  }
  const bool ended = report.summary.result != RunResult::kInterrupted;
  if (ended && comparer.Peek() != nullptr) comparer.MissesLine();
  comparer.Tell(&report);
  return report;
}

}  // namespace schedtwin
