// What tests of policies share: requests by script, devices that write down every step they are
// asked to run, and one call that plays a policy against both. A step is one line of text, so that
// a test states the exact schedule it expects:
//
//   "d1 3-9 D0 D2 P3:4 pad:2"   device 1 (named only where there are several) is busy from 3 ns to
//                               9 ns; requests 0 and 2 decode, 4 prompt tokens of request 3 are
//                               computed, 2 tokens are padding; "U3:4" would be 4 units of it;
//                               with "cut" at the end it was cut short and made nothing
//
// Members of the standing set are written out like listed decodes, and decodes by id: the same
// schedule reads the same whichever way a policy asks for it. One thread.
#ifndef SCHEDTWIN_TESTS_UNIT_POLICY_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_POLICY_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/parts/decode_mode.h"
#include "policies/registry.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/world.h"
#include "sim/model_device.h"
#include "sim/virtual_time.h"

namespace schedtwin::policy_testing {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// A request for a decoder.
inline RequestSpec Tokens(std::int64_t at_ns, std::uint32_t prompt, std::uint32_t output) {
  return {.arrival = Time::Nanos(at_ns), .prompt_tokens = prompt, .output_tokens = output};
}

/// A request for a one-shot model.
inline RequestSpec Units(std::int64_t at_ns, std::uint32_t units) {
  return {.arrival = Time::Nanos(at_ns), .units = units};
}

class ScriptSource final : public RequestSource {
 public:
  explicit ScriptSource(std::vector<RequestSpec> requests) : requests_(std::move(requests)) {}

  Pull Next(RequestSpec* out) override {
    if (next_ == requests_.size()) return Pull::kDry;
    *out = requests_[next_++];
    return Pull::kRequest;
  }

 private:
  std::vector<RequestSpec> requests_;
  std::size_t next_ = 0;
};

/// Everything that a run tells.
class KeepAll final : public Recorder {
 public:
  void OnRequest(const RequestRecord& record) override { requests.push_back(record); }
  void OnStep(const StepRecord& record) override { steps.push_back(record); }
  void OnOperation(const OperationRecord& record) override { operations.push_back(record); }
  void OnLog(const LogRecord&) override {}
  void OnNote(Time, std::string_view) override {}

  std::vector<RequestRecord> requests;
  std::vector<StepRecord> steps;
  std::vector<OperationRecord> operations;
};

/// What a device was asked to do in one step, and when it did it.
struct SeenStep {
  DeviceId device;
  Time start;
  Time end;
  std::vector<std::uint32_t> decodes;  ///< by id
  std::vector<Entry> prefills;         ///< in the order of the plan
  std::vector<Entry> units;            ///< likewise
  std::uint32_t padding_tokens = 0;
  bool cut = false;  ///< in the middle: it made nothing

  std::string Text(bool name_device) const {
    std::string text = name_device ? "d" + std::to_string(device.value) + " " : "";
    text += std::to_string(start.ns()) + "-" + std::to_string(end.ns());
    for (const std::uint32_t id : decodes) text += " D" + std::to_string(id);
    for (const Entry& entry : prefills) text += EntryText(" P", entry);
    for (const Entry& entry : units) text += EntryText(" U", entry);
    if (padding_tokens > 0) text += " pad:" + std::to_string(padding_tokens);
    if (cut) text += " cut";
    return text;
  }

 private:
  static std::string EntryText(const std::string& mark, const Entry& entry) {
    return mark + std::to_string(entry.request.value) + ":" + std::to_string(entry.tokens);
  }
};

/// A ModelDevice that keeps what it was asked: it stands on the device seam, passes every message
/// on in both directions, and so sees the schedule as a device does, not as the runtime's records
/// tell it.
class WatchedDevice final : public DevicePort, public ReplySink {
 public:
  WatchedDevice(const DeviceInfo& info, const StepTimeModel* model, std::vector<SeenStep>* seen)
      : inner_(info, model), inner_commands_(12), seen_(seen) {}

  DeviceInfo info() const override { return inner_.info(); }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override {
    id_ = id;
    commands_ = commands;
    replies_ = replies;
    inner_.Attach(id, &inner_commands_, this);
  }
  void Notify(Time now) override {
    commands_->Drain([this](const DeviceCommand& command) {
      Watch(command);
      EXPECT_TRUE(inner_commands_.Push(command)) << "a step of more than 4096 entries";
    });
    inner_.Notify(now);
  }
  void Post(const DeviceReply& reply, Time due) override {
    if (reply.kind == ReplyKind::kStepDone && reply.status == ReplyStatus::kAborted) {
      // What was posted of it before is void.
      const auto posted = std::find_if(seen_->rbegin(), seen_->rend(),
                                       [this](const SeenStep& s) { return s.device == id_; });
      posted->end = reply.end;
      posted->cut = true;
    } else if (reply.kind == ReplyKind::kStepDone) {
      step_.start = reply.start;
      step_.end = reply.end;
      seen_->push_back(std::exchange(step_, SeenStep{}));
    }
    replies_->Post(reply, due);
  }

 private:
  void Watch(const DeviceCommand& command) {
    const Entry entry{{command.request}, command.tokens};
    switch (command.kind) {
      case CommandKind::kJoin:
        EXPECT_TRUE(standing_.insert(command.request).second) << "joined twice";
        return;
      case CommandKind::kLeave:
        EXPECT_EQ(standing_.erase(command.request), 1u) << "left without having joined";
        return;
      case CommandKind::kEntry:
        if (inner_.info().kind == ModelKind::kOneShot) {
          step_.units.push_back(entry);
        } else if (command.decode) {
          step_.decodes.push_back(command.request);
        } else {
          step_.prefills.push_back(entry);
        }
        return;
      case CommandKind::kStep:
        step_.device = id_;
        step_.padding_tokens = command.tokens;
        if (command.standing) {
          step_.decodes.insert(step_.decodes.end(), standing_.begin(), standing_.end());
        }
        std::sort(step_.decodes.begin(), step_.decodes.end());
        return;
      default:
        return;
    }
  }

  ModelDevice inner_;
  CommandRing inner_commands_;
  std::vector<SeenStep>* seen_;
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  ReplySink* replies_ = nullptr;
  std::set<std::uint32_t> standing_;
  SeenStep step_;
};

/// One policy, its traffic and its devices.
struct Script {
  std::string policy;
  Settings settings;
  std::vector<RequestSpec> requests;
  StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(1));
  DeviceInfo device;  ///< each of the devices
  std::uint32_t devices = 1;
  WorldOptions options;
};

/// What came of it.
struct Played {
  RunSummary summary;
  std::vector<std::string> steps;           ///< in order of their starts, as texts
  std::vector<StepRecord> records;          ///< as the runtime tells them, in order of their ends
  std::vector<RequestRecord> requests;      ///< by id
  std::vector<OperationRecord> operations;  ///< in order of their ends
};

/// A way to ask for the same decode steps (policies/parts/decode_mode.h).
struct Form {
  bool standing_set;
  std::uint32_t plan_steps;

  std::string Name() const {
    return std::string(standing_set ? "Standing" : "Listed") + std::to_string(plan_steps);
  }
  Settings settings() const {
    return {{"standing_set", standing_set ? "true" : "false"},
            {"plan_steps", std::to_string(plan_steps)}};
  }
  friend void PrintTo(const Form& form, std::ostream* out) { *out << form.Name(); }
};

/// Some list their decodes, one step at a time, and have nothing to choose.
inline bool HasDecodeMode(const PolicyInfo& info) {
  return std::any_of(info.parameters.begin(), info.parameters.end(), [](const auto& parameter) {
    return parameter.name == kStandingSetParameter.name;
  });
}

inline constexpr Form kForms[] = {{true, 4096}, {true, 1}, {false, 4096}, {false, 1}};

inline std::string FormName(const testing::TestParamInfo<Form>& info) { return info.param.Name(); }

/// `settings` asked for in this form.
inline Settings In(const Form& form, Settings settings) {
  const Settings added = form.settings();
  settings.insert(settings.end(), added.begin(), added.end());
  return settings;
}

/// vllm_v1 with at most eight requests at once, on blocks of four tokens.
inline Script VllmV1Engine(const Form& form, std::uint32_t budget, std::uint32_t blocks,
                           std::vector<RequestSpec> requests, const Settings& settings) {
  Script script{
      .policy = "vllm_v1", .settings = In(form, settings), .requests = std::move(requests)};
  script.settings.insert(
      script.settings.begin(),
      {{"max_num_batched_tokens", std::to_string(budget)}, {"max_num_seqs", "8"}});
  script.device.total_blocks = blocks;
  script.device.block_tokens = 4;
  return script;
}

/// A policy by name. A mistake in the settings fails the test.
inline std::unique_ptr<Policy> MakePolicy(const std::string& name, const Settings& settings) {
  const PolicyInfo* info = FindPolicy(name);
  if (info == nullptr) {
    ADD_FAILURE() << "no policy is called " << name;
    return nullptr;
  }
  Parameters parameters;
  std::string error;
  if (!Parameters::Parse(info->parameters, settings, &parameters, &error)) {
    ADD_FAILURE() << name << ": " << error;
    return nullptr;
  }
  return info->create(parameters);
}

/// The queue depth that devices need for these settings. REQUIRES: they are right.
inline std::uint32_t MinQueueDepth(const std::string& name, const Settings& settings) {
  const PolicyInfo* info = FindPolicy(name);
  if (info->min_queue_depth == nullptr) return 1;
  Parameters parameters;
  std::string error;
  EXPECT_TRUE(Parameters::Parse(info->parameters, settings, &parameters, &error)) << error;
  return info->min_queue_depth(parameters);
}

/// The runtime's account of the steps must be the devices' own.
inline void ExpectSameSteps(std::vector<SeenStep> seen, const std::vector<StepRecord>& records) {
  std::erase_if(seen, [](const SeenStep& step) { return step.cut; });
  ASSERT_EQ(seen.size(), records.size());
  std::vector<StepRecord> by_start = records;
  std::stable_sort(by_start.begin(), by_start.end(), [](const StepRecord& a, const StepRecord& b) {
    return a.start != b.start ? a.start < b.start : a.device.value < b.device.value;
  });
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const StepRecord& record = by_start[i];
    std::uint32_t prefill_tokens = 0, units = 0;
    for (const Entry& entry : seen[i].prefills) prefill_tokens += entry.tokens;
    for (const Entry& entry : seen[i].units) units += entry.tokens;
    ASSERT_EQ(record.device, seen[i].device);
    ASSERT_EQ(record.start, seen[i].start);
    ASSERT_EQ(record.end, seen[i].end);
    ASSERT_EQ(record.decode_tokens, seen[i].decodes.size());
    ASSERT_EQ(record.prefill_tokens, prefill_tokens);
    ASSERT_EQ(record.prefill_requests, seen[i].prefills.size());
    ASSERT_EQ(record.units, units);
  }
}

inline Played Play(const Script& script) {
  Played played;
  const std::unique_ptr<Policy> policy = MakePolicy(script.policy, script.settings);
  if (policy == nullptr) return played;
  std::vector<SeenStep> seen;
  std::deque<WatchedDevice> devices;
  std::vector<DeviceSetup> setups;
  for (std::uint32_t i = 0; i < script.devices; ++i) {
    devices.emplace_back(script.device, &script.model, &seen);
    setups.push_back({&devices.back(), &script.model});
  }
  ScriptSource source(script.requests);
  RequestSource* const sources[] = {&source};
  VirtualTimeSource time;
  KeepAll kept;
  World world(script.options, policy.get(), &time, setups, sources, &kept, {.steps = true});
  played.summary = world.Run();
  if (played.summary.result == RunResult::kFinished) {
    // In the order of starts; two that start at one instant, by device.
    std::stable_sort(seen.begin(), seen.end(), [](const SeenStep& a, const SeenStep& b) {
      return a.start != b.start ? a.start < b.start : a.device.value < b.device.value;
    });
    ExpectSameSteps(seen, kept.steps);
  }
  for (const SeenStep& step : seen) played.steps.push_back(step.Text(script.devices > 1));
  played.records = std::move(kept.steps);
  played.requests = std::move(kept.requests);
  played.operations = std::move(kept.operations);
  std::sort(played.requests.begin(), played.requests.end(),
            [](const RequestRecord& a, const RequestRecord& b) { return a.id < b.id; });
  return played;
}

}  // namespace schedtwin::policy_testing

#endif  // SCHEDTWIN_TESTS_UNIT_POLICY_TESTING_H_
