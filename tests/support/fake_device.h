// FakeDevice: a device for tests of the runtime. Runs one step at a time, each as long as a
// function says, keeps what it was asked to do, and complains (in words, `complaints`) of orders
// that no real device could follow: a chunk whose context is not in its cache, a request named
// twice in a step, a member that joins twice, KV in a block that holds another text.
// With `hold` set it answers only when the test says
// so, like a device of a real-time world. Policy thread; owned by the test.
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

  /// Everything that makes or computes a token in this step, members included.
  std::uint64_t tokens() const {
    std::uint64_t sum = members.size();
    for (const DeviceCommand& entry : entries) sum += entry.tokens;
    return sum;
  }
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
  std::vector<FakeStep> steps;
  std::vector<std::string> complaints;

 private:
  void Obey(const DeviceCommand& command, Time now) {
    switch (command.kind) {
      case CommandKind::kJoin:
        if (!members_.insert(command.request).second) Complain("joined twice", command);
        CheckContext(command, /*may_restart=*/false);
        return;
      case CommandKind::kLeave:
        if (members_.erase(command.request) == 0) Complain("left, but is no member", command);
        CheckContext(command, /*may_restart=*/false);
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
      case CommandKind::kEntry:
        step_.entries.push_back(command);
        return;
      case CommandKind::kStep:
        RunStep(command, now);
        return;
      default:
        return;
    }
  }

  void RunStep(const DeviceCommand& command, Time now) {
    step_.plan = command.plan;
    step_.step = command.step;
    step_.standing = command.standing;
    step_.padding_tokens = command.tokens;
    if (command.entries != step_.entries.size()) Complain("miscounted entries", command);
    std::set<std::uint32_t> named;
    for (const DeviceCommand& entry : step_.entries) {
      if (!named.insert(entry.request).second) Complain("twice in one step", entry);
      if (members_.count(entry.request) > 0) Complain("listed, but a member", entry);
      if (entry.tokens == 0) Complain("nothing to do", entry);
      if (info_.kind == ModelKind::kOneShot) continue;
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
    }
  }

  /// Contents of tests have ids below 2^63.
  using Token = std::pair<std::uint64_t, std::uint32_t>;
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
  std::map<std::uint32_t, std::vector<DeviceCommand>> texts_;   ///< named stretches, by request
  std::map<std::pair<std::uint32_t, std::uint32_t>, Token> written_;  ///< by slot
  FakeStep step_;
  Time free_at_;
  std::deque<DeviceReply> held_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_FAKE_DEVICE_H_
