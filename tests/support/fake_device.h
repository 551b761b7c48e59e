// FakeDevice: a device for tests of the runtime. Runs one step at a time, each as long as a
// function says, keeps what it was asked to do, and complains (in words, `complaints`) of orders
// that no real device could follow: a chunk whose context is not in its cache, a request named
// twice in a step, a member that joins twice, KV in a block that holds another text, or that is
// written while a copy reads or writes it, a model that is not loaded. Operations take
// `operation_time`, all beside each other but for the blocking ones. A step is cut where it is
// told. With `hold` set it answers only when the test says so, like a device of a real-time world.
// Policy thread; owned by the test.
#ifndef SCHEDTWIN_TESTS_SUPPORT_FAKE_DEVICE_H_
#define SCHEDTWIN_TESTS_SUPPORT_FAKE_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/runtime/device_port.h"

namespace schedtwin {

struct FakeStep {
  PlanId plan;
  std::uint32_t step = 0;
  bool standing = false;
  std::uint32_t padding_tokens = 0;
  std::vector<DeviceCommand> entries;
  std::vector<std::uint32_t> members;  ///< of the standing set, ascending; empty unless `standing`
  Time start;
  Time end;
  bool aborted = false;

  /// Everything that makes or computes a token in this step, members included.
  std::uint64_t tokens() const {
    std::uint64_t sum = members.size();
    for (const DeviceCommand& entry : entries) sum += entry.tokens;
    return sum;
  }
};

/// A copy, load or unload that was asked for.
struct FakeOperation {
  DeviceCommand command;
  Time start;
  Time end;
  bool cancelled = false;
  std::vector<std::uint32_t> from;  ///< blocks, where they have numbers
  std::vector<std::uint32_t> to;
};

class FakeDevice final : public DevicePort {
 public:
  using StepTime = std::function<Duration(const FakeStep&)>;

  FakeDevice(DeviceInfo info, StepTime step_time)
      : info_(std::move(info)), step_time_(std::move(step_time)) {}

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override {
    id_ = id;
    commands_ = commands;
    replies_ = replies;
  }
  void Notify(Time now) override {
    commands_->Drain([this, now](const DeviceCommand& command) { Obey(command, now); });
  }

  /// Ends the oldest step held, which started when it was asked for, at `end`.
  void Release(Time end) {
    DeviceReply reply = held_.front();
    held_.pop_front();
    reply.end = end;
    replies_->Post(reply, end);
  }
  std::size_t held() const { return held_.size(); }

  bool hold = false;
  Duration operation_time = Duration::Nanos(25);
  std::set<std::uint32_t> loaded = {0};  ///< models
  std::vector<FakeDevice*> peers;  ///< all devices of the run, by number; for copies between them
  std::vector<FakeStep> steps;
  std::vector<FakeOperation> operations;
  std::vector<std::string> complaints;

 private:
  void Obey(const DeviceCommand& command, Time now) {
    switch (command.kind) {
      case CommandKind::kJoin:
        if (!members_.insert(command.request).second) Complain("joined twice", command);
        SettleRollBack(command);
        CheckContext(command, /*may_restart=*/true);  // all but one token may have been adopted
        cached_[command.request] = command.context_tokens;
        return;
      case CommandKind::kLeave:
        if (members_.erase(command.request) == 0) Complain("left, but is no member", command);
        CheckContext(command, /*may_restart=*/false);
        SettleRollBack(command);
        return;
      case CommandKind::kBlock:
        tables_[command.request].resize(command.context_tokens + 1, kNoBlock);
        tables_[command.request].back() = command.tokens;
        return;
      case CommandKind::kContent:
        texts_[command.request].push_back(command);
        return;
      case CommandKind::kEnd:
        if (members_.count(command.request) > 0) Complain("over, but a member", command);
        tables_.erase(command.request);
        texts_.erase(command.request);
        return;
      case CommandKind::kAbort:
        return Abort(command, now);
      case CommandKind::kFrom:
        return Place(&from_, command);
      case CommandKind::kTo:
        return Place(&to_, command);
      case CommandKind::kCopy:
        Copy(command, now);
        return Operate(command, now);
      case CommandKind::kLoad:
        if (!loaded.insert(command.request).second) Complain("model loaded twice", command);
        return Operate(command, now);
      case CommandKind::kUnload:
        if (loaded.erase(command.request) == 0) Complain("model is not loaded", command);
        return Operate(command, now);
      case CommandKind::kCancel:
        return Cancel(command, now);
      case CommandKind::kEntry:
        step_.entries.push_back(command);
        return;
      case CommandKind::kStep:
        RunStep(command, now);
        return;
    }
  }

  void RunStep(const DeviceCommand& command, Time now) {
    step_.plan = command.plan;
    step_.step = command.step;
    step_.standing = command.standing;
    step_.padding_tokens = command.tokens;
    if (command.entries != step_.entries.size()) Complain("miscounted entries", command);
    if (loaded.count(command.request) == 0) Complain("model is not loaded", command);
    if (!steps.empty() && steps.back().end > now && !hold) Complain("two steps at once", command);
    for (const auto& [request, context] : rolled_back_) {
      if (members_.count(request) > 0) Complain("a member of a step that was cut stays", command);
    }
    now_ = now;
    std::set<std::uint32_t> named;
    for (const DeviceCommand& entry : step_.entries) {
      if (!named.insert(entry.request).second) Complain("twice in one step", entry);
      if (members_.count(entry.request) > 0) Complain("listed, but a member", entry);
      if (entry.tokens == 0) Complain("nothing to do", entry);
      if (info_.kind == ModelKind::kOneShot) continue;
      SettleRollBack(entry);
      CheckContext(entry, /*may_restart=*/true);
      cached_[entry.request] = entry.context_tokens + entry.tokens;
      UseBlocks(entry);
    }
    if (command.standing) {
      step_.members.assign(members_.begin(), members_.end());
      for (const std::uint32_t member : members_) {
        UseBlocks({.request = member, .tokens = 1, .context_tokens = cached_[member]});
        ++cached_[member];
      }
    }
    if (step_.tokens() == 0) Complain("an empty step", command);
    step_.start = std::max(now, free_at_);
    step_.end = step_.start + step_time_(step_);
    free_at_ = step_.end;
    const DeviceReply reply = {.device = id_,
                               .plan = command.plan,
                               .step = command.step,
                               .start = step_.start,
                               .end = step_.end};
    if (hold) {
      held_.push_back(reply);
    } else {
      replies_->Post(reply, step_.end);
    }
    steps.push_back(std::exchange(step_, FakeStep{}));
  }

  /// What the runtime takes to be in the cache must be there; a request may start over, with blocks
  /// that it shares if they are told apart (UseBlocks looks what is in them).
  void CheckContext(const DeviceCommand& command, bool may_restart) {
    const auto cached = cached_.find(command.request);
    const std::uint32_t have = cached == cached_.end() ? 0 : cached->second;
    if (command.context_tokens == have || (may_restart && command.context_tokens == 0)) return;
    if (may_restart && !tables_.empty() && command.context_tokens % info_.block_tokens == 0) return;
    Complain("said to have " + std::to_string(command.context_tokens) +
                 " tokens in the cache, has " + std::to_string(have),
             command);
  }

  /// Reads the KV of the context and writes that of the tokens, where blocks are told apart.
  void UseBlocks(const DeviceCommand& entry) {
    if (info_.block_tokens == 0 || tables_.empty()) return;
    const std::vector<std::uint32_t>& table = tables_[entry.request];
    const std::uint32_t end = entry.context_tokens + entry.tokens;
    for (std::uint32_t position = 0; position < end; ++position) {
      const std::uint32_t index = position / info_.block_tokens;
      if (index >= table.size() || table[index] >= info_.total_blocks) {
        return Complain("has no block " + std::to_string(index), entry);
      }
      const std::pair<std::uint32_t, std::uint32_t> slot = {table[index],
                                                            position % info_.block_tokens};
      const Token token = TextAt(entry.request, position);
      if (position < entry.context_tokens && written_[slot] != token) {
        return Complain("lost its token " + std::to_string(position), entry);
      }
      written_[slot] = token;
      if (position < entry.context_tokens) continue;
      for (const FakeOperation& copy : operations) {
        if (Writes(copy, table[index])) Complain("written while it is copied to", entry);
      }
      for (const Reading& reading : readings_) {
        if (reading.until > now_ && Holds(reading.blocks, table[index])) {
          Complain("written while it is copied from", entry);
        }
      }
    }
  }

  /// A copy that goes on is writing the block.
  bool Writes(const FakeOperation& copy, std::uint32_t block) const {
    if (copy.command.kind != CommandKind::kCopy || copy.end <= now_) return false;
    return static_cast<Tier>(copy.command.step) == Tier::kDevice && Holds(copy.to, block);
  }
  static bool Holds(const std::vector<std::uint32_t>& blocks, std::uint32_t block) {
    return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }

  void Place(std::vector<std::uint32_t>* blocks, const DeviceCommand& command) {
    if (command.context_tokens != blocks->size())
      Complain("blocks of a copy out of order", command);
    blocks->push_back(command.tokens);
  }

  void Copy(const DeviceCommand& command, Time now) {
    FakeDevice& source =
        command.context_tokens == id_.value ? *this : *peers.at(command.context_tokens);
    const auto from_tier = static_cast<Tier>(command.entries);
    const auto to_tier = static_cast<Tier>(command.step);
    // What the source has been told of the request may still be in its ring.
    const auto back = source.rolled_back_.find(command.request);
    const bool cut = back != source.rolled_back_.end();
    cached_[command.request] = cut ? back->second : source.cached_[command.request];
    if (&source != this) rolled_back_.erase(command.request);
    if (from_.size() != to_.size()) Complain("a copy to fewer blocks or more", command);
    if (!from_.empty() && from_.size() != command.tokens) Complain("miscounted blocks", command);
    if (!command.blocking && from_tier == Tier::kDevice) {
      source.readings_.push_back({command.plan, from_, now + operation_time});
    }
    for (std::size_t i = 0; i < from_.size() && i < to_.size(); ++i) {
      for (std::uint32_t offset = 0; offset < info_.block_tokens; ++offset) {
        const auto& written = source.WrittenIn(from_tier);
        const auto from = written.find({from_[i], offset});
        WrittenIn(to_tier)[{to_[i], offset}] = from == written.end() ? kNobody : from->second;
      }
    }
  }

  void Operate(const DeviceCommand& command, Time now) {
    FakeOperation operation;
    operation.command = command;
    operation.start = now;
    operation.end = now + operation_time;
    operation.from.swap(from_);
    operation.to.swap(to_);
    if (command.blocking) {
      operation.start = std::max(now, free_at_);
      operation.end = free_at_ = operation.start + operation_time;
    }
    operations.push_back(operation);
    PostOperation(operation, ReplyStatus::kOk);
  }

  void PostOperation(const FakeOperation& operation, ReplyStatus status) {
    replies_->Post({.kind = ReplyKind::kOperationDone,
                    .status = status,
                    .device = id_,
                    .plan = operation.command.plan,
                    .start = operation.start,
                    .end = operation.end},
                   operation.end);
  }

  void Cancel(const DeviceCommand& command, Time now) {
    for (FakeOperation& operation : operations) {
      if (operation.command.plan != command.plan || operation.end <= now) continue;
      if (operation.cancelled) Complain("cancelled twice", command);
      operation.cancelled = true;
      operation.end = std::max(now, operation.start);
      for (FakeDevice* peer : peers) {
        for (Reading& reading : peer->readings_) {
          if (reading.operation == command.plan) reading.until = now;
        }
      }
      if (operation.command.kind == CommandKind::kLoad) loaded.erase(operation.command.request);
      if (operation.command.kind == CommandKind::kUnload) loaded.insert(operation.command.request);
      return PostOperation(operation, ReplyStatus::kAborted);
    }
  }

  void Abort(const DeviceCommand& command, Time now) {
    if (steps.empty()) return;
    FakeStep& step = steps.back();
    if (step.plan != command.plan || step.step != command.step || step.end <= now) return;
    if (step.aborted) return;
    step.aborted = true;
    // The rest of the layer, where that is asked for.
    const Time end = std::max(step.start, now) + Duration::Nanos(command.layer ? 1 : 0);
    if (free_at_ == step.end) free_at_ = end;  // a blocking copy behind it has its time already
    step.end = end;
    for (const DeviceCommand& entry : step.entries) {
      RollBack(entry.request, entry.context_tokens);
    }
    for (const std::uint32_t member : step.members) RollBack(member, cached_[member] - 1);
    if (hold) held_.clear();
    replies_->Post({.status = ReplyStatus::kAborted,
                    .device = id_,
                    .plan = command.plan,
                    .step = command.step,
                    .start = step.start,
                    .end = step.end},
                   step.end);
  }

  /// The runtime may not have heard yet that a step was cut: who joins until then does so with what
  /// the step had promised, and leaves when it hears.
  void RollBack(std::uint32_t request, std::uint32_t context_tokens) {
    if (cached_.count(request) > 0) rolled_back_[request] = context_tokens;
  }
  void SettleRollBack(const DeviceCommand& command) {
    const auto back = rolled_back_.find(command.request);
    if (back == rolled_back_.end()) return;
    if (command.kind == CommandKind::kJoin && command.context_tokens != back->second) return;
    cached_[command.request] = back->second;
    rolled_back_.erase(back);
  }

  /// Contents of tests have ids below 2^63.
  using Token = std::pair<std::uint64_t, std::uint32_t>;
  using Written = std::map<std::pair<std::uint32_t, std::uint32_t>, Token>;
  Written& WrittenIn(Tier tier) { return tier == Tier::kDevice ? written_ : host_written_; }
  Token TextAt(std::uint32_t request, std::uint32_t position) {
    for (const DeviceCommand& text : texts_[request]) {
      if (position >= text.context_tokens && position - text.context_tokens < text.tokens) {
        return {text.handle(), position - text.context_tokens};
      }
    }
    return {std::uint64_t{1} << 63 | request, position};
  }

  void Complain(const std::string& what, const DeviceCommand& command) {
    complaints.push_back("request " + std::to_string(command.request) + ": " + what + " (step " +
                         std::to_string(steps.size()) + " of device " + std::to_string(id_.value) +
                         ")");
  }

  DeviceInfo info_;
  StepTime step_time_;
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
  std::set<std::uint32_t> members_;
  std::map<std::uint32_t, std::uint32_t> cached_;  ///< tokens in the cache, by request
  static constexpr std::uint32_t kNoBlock = 0xffffffffu;
  std::map<std::uint32_t, std::vector<std::uint32_t>> tables_;  ///< blocks, by request
  /// A copy, of this device or another one, that reads blocks of this one.
  struct Reading {
    PlanId operation;
    std::vector<std::uint32_t> blocks;
    Time until;
  };
  std::vector<Reading> readings_;
  static constexpr Token kNobody = {~std::uint64_t{0}, 0};
  Written written_, host_written_;        ///< by slot
  std::vector<std::uint32_t> from_, to_;  ///< blocks of the copy that follows
  /// Members of a step that was cut, and what they have in the cache without it.
  std::map<std::uint32_t, std::uint32_t> rolled_back_;
  Time now_;
  std::map<std::uint32_t, std::vector<DeviceCommand>> texts_;  ///< named stretches, by request
  FakeStep step_;
  Time free_at_;
  std::deque<DeviceReply> held_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_FAKE_DEVICE_H_
