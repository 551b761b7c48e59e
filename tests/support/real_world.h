// A world that behaves like a real one, for tests that need its disorder without its clock: steps
// take what they take and are reported a while after they end, wakes are late by a little or by
// much, some bring nothing, some bring several answers, arrivals and timers at once. RealDevice
// answers when RealClock says so. All from a seed: the same disorder again, in no time. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_REAL_WORLD_H_
#define SCHEDTWIN_TESTS_SUPPORT_REAL_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/time_source.h"
#include "policies/runtime/world.h"
#include "sim/replay.h"
#include "tests/support/fakes.h"

namespace schedtwin {

/// A step takes about 10 to 60 ns.
class RealDevice final : public DevicePort {
 public:
  RealDevice(DeviceInfo info, std::uint64_t seed, std::uint32_t index)
      : info_(std::move(info)), rng_(seed, "real device", index) {}

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override {
    id_ = id;
    commands_ = commands;
    replies_ = replies;
  }
  void Notify(Time now) override {
    commands_->Drain([this, now](const DeviceCommand& command) {
      switch (command.kind) {
        case CommandKind::kStep:
          return Run(command, now);
        case CommandKind::kAbort:
          return Abort(command, now);
        case CommandKind::kCopy:
        case CommandKind::kLoad:
        case CommandKind::kUnload:
          return Operate(command, now);
        case CommandKind::kCancel:
          return Cancel(command, now);
        default:
          return;
      }
    });
  }

  /// When the next answer is there; infinite when nothing is under way.
  Time seen_at() const {
    Time first = Time::Infinite();
    for (const Answer& answer : answers_) first = std::min(first, answer.seen_at);
    return first;
  }
  /// Posts all that is there by `now`, in any order.
  void Post(Time now) {
    while (!answers_.empty() && seen_at() <= now) {
      const auto first = rng_.Below(static_cast<std::uint32_t>(answers_.size()));
      for (std::size_t i = 0; i < answers_.size(); ++i) {
        const std::size_t at = (first + i) % answers_.size();
        if (answers_[at].seen_at > now) continue;
        const Answer answer = answers_[at];
        answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(at));
        replies_->Post(answer.reply, answer.seen_at);
        break;
      }
    }
  }

 private:
  struct Answer {
    DeviceReply reply;
    Time seen_at;
  };

  void Add(DeviceReply reply, Time start, std::uint32_t at_most_ns) {
    reply.device = id_;
    reply.start = start;
    reply.end = start + Duration::Nanos(10 + rng_.Below(at_most_ns));
    reply.compute_ns = (reply.end - start).ns();
    answers_.push_back({reply, reply.end + Duration::Nanos(rng_.Below(6))});
  }
  void Run(const DeviceCommand& command, Time now) {
    const Time start = now + Duration::Nanos(rng_.Below(4));
    Add({.plan = command.plan, .step = command.step}, start, rng_.Below(8) == 0 ? 300 : 50);
  }
  void Operate(const DeviceCommand& command, Time now) {
    Add({.kind = ReplyKind::kOperationDone, .plan = command.plan}, now, 100);
  }
  /// A while later; it may be too late.
  void CutShort(Answer* answer, Time now) {
    const Time end = now + Duration::Nanos(rng_.Below(20));
    if (end >= answer->reply.end) return;
    answer->reply.status = ReplyStatus::kAborted;
    answer->reply.start = std::min(answer->reply.start, end);
    answer->reply.end = end;
    answer->seen_at = std::min(answer->seen_at, end + Duration::Nanos(rng_.Below(6)));
  }
  void Abort(const DeviceCommand& command, Time now) {
    for (Answer& answer : answers_) {
      const DeviceReply& reply = answer.reply;
      if (reply.kind == ReplyKind::kStepDone && reply.plan == command.plan &&
          reply.step == command.step) {
        CutShort(&answer, now);
      }
    }
  }
  void Cancel(const DeviceCommand& command, Time now) {
    for (Answer& answer : answers_) {
      if (answer.reply.kind == ReplyKind::kOperationDone && answer.reply.plan == command.plan) {
        CutShort(&answer, now);
      }
    }
  }

  std::vector<Answer> answers_;
  DeviceInfo info_;
  Rng rng_;
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
};

class RealClock final : public TimeSource {
 public:
  RealClock(std::deque<RealDevice>* devices, std::uint64_t seed)
      : devices_(devices), rng_(seed, "real clock") {}

  Time Advance(Time next) override {
    for (const RealDevice& device : *devices_) next = std::min(next, device.seen_at());
    std::int64_t wake = std::max(next.ns(), now_.ns() + 1);
    if (wake - now_.ns() > 2 && rng_.Below(10) == 0) {
      wake = now_.ns() + 1 + rng_.Below(2);  // for nothing
    } else if (rng_.Below(2) == 0) {
      wake += rng_.Below(rng_.Below(5) == 0 ? 120 : 8);
    }
    now_ = Time::Nanos(wake);
    // In the order in which they came, which is not that of the devices.
    const auto first = rng_.Below(static_cast<std::uint32_t>(devices_->size()));
    for (std::size_t i = 0; i < devices_->size(); ++i) {
      RealDevice& device = (*devices_)[(first + i) % devices_->size()];
      device.Post(now_);
    }
    return now_;
  }
  bool MayWake() const override {
    return std::any_of(devices_->begin(), devices_->end(),
                       [](const RealDevice& device) { return !device.seen_at().infinite(); });
  }

 private:
  std::deque<RealDevice>* devices_;
  Rng rng_;
  Time now_;
};

/// One run in such a world: what is needed to do it again, and what came of it.
struct RealRun {
  ReplaySetup setup;
  RunSummary summary;
  std::vector<LogRecord> log;
};

/// `setup` is of a measured run. The disorder is that of `seed`.
inline RealRun RunForReal(ReplaySetup setup, std::uint64_t seed, Policy* policy,
                          const std::vector<RequestSpec>& requests) {
  setup.measured = true;
  std::deque<RealDevice> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < setup.devices; ++i) {
    devices.emplace_back(setup.device, seed, i);
    setups.push_back({&devices.back(), setup.model});
  }
  RealClock clock(&devices, seed);
  ListSource source(requests);
  RequestSource* const sources[] = {&source};
  RecordingRecorder recorder;
  World world(setup.world, policy, &clock, setups, sources, &recorder,
              {.steps = true, .log = true});
  RealRun run;
  run.summary = world.Run();
  run.setup = setup;
  run.log = std::move(recorder.log);
  return run;
}

/// A log in memory.
class ListLog final : public RecordedLog {
 public:
  explicit ListLog(std::vector<LogRecord> lines) : lines_(std::move(lines)) {}

  bool Next(LogRecord* out) override {
    if (next_ == lines_.size()) return false;
    *out = lines_[next_++];
    return true;
  }

 private:
  std::vector<LogRecord> lines_;
  std::size_t next_ = 0;
};

inline ReplayReport ReplayOf(const ReplaySetup& setup, std::vector<LogRecord> lines, Policy* policy,
                             const std::vector<RequestSpec>& requests) {
  ListSource source(requests);
  RequestSource* const sources[] = {&source};
  ListLog log(std::move(lines));
  return Replay(setup, policy, sources, &log);
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_REAL_WORLD_H_
