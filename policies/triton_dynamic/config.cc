#include "policies/triton_dynamic/config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <span>

#include "policies/triton_dynamic/config.pb.h"

namespace schedtwin::triton {
namespace {

namespace pb = proto::triton;

constexpr std::uint64_t kMostMicroseconds = 1'000'000'000'000;  // eleven days
constexpr int kMostInstances = 4096;

// The names of Triton's fields that are passed over, but for messages, which config.proto names.
constexpr std::string_view kOtherModelFields[] = {"name", "platform", "backend", "runtime",
                                                  "default_model_filename"};
constexpr std::string_view kOtherGroupFields[] = {"name",    "kind",    "gpus",
                                                  "profile", "passive", "host_policy"};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What stands between the first two quotes behind `before`.
std::string_view QuotedBehind(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find('"'));
}

/// Keeps the first mistake, with its place. Fields that it does not know the parser passes over
/// with a warning; those that Triton does not know either are mistakes.
class FirstMistake : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    if (line >= 0) text_ = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": ";
    text_ += message;
    if (text_.back() == '.') text_.pop_back();
  }
  void AddWarning(int line, int column, const std::string& message) override {
    const std::string_view type = QuotedBehind(message, "Message type \"schedtwin.proto.triton.");
    const std::string_view field = QuotedBehind(message, "has no field named \"");
    if (field.empty()) return;
    if (type == "Ignored" || type.starts_with("Optimization")) return;
    if (type == "ModelConfig" && Has(kOtherModelFields, field)) return;
    if (type == "ModelInstanceGroup" && Has(kOtherGroupFields, field)) return;
    AddError(line, column,
             "Triton's " + std::string(type) + " has no field '" + std::string(field) + "'");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <class T>
std::string TooLarge(const char* field, T value) {
  return std::string(field) + " is " + std::to_string(value) + ", and may be " +
         std::to_string(kMostMicroseconds) + " at most";
}

std::string ReadPolicy(const pb::ModelQueuePolicy& from, QueuePolicy* to) {
  to->reject = from.timeout_action() == pb::ModelQueuePolicy::REJECT;
  const std::uint64_t timeout = from.default_timeout_microseconds();
  if (timeout > kMostMicroseconds) return TooLarge("default_timeout_microseconds", timeout);
  to->timeout_us = static_cast<std::int64_t>(timeout);
  to->allow_timeout_override = from.allow_timeout_override();
  to->max_queue_size = from.max_queue_size();
  return "";
}

std::string ReadBatching(const pb::ModelDynamicBatching& from, Config* out) {
  out->preferred_batch_size.assign(from.preferred_batch_size().begin(),
                                   from.preferred_batch_size().end());
  if (from.has_max_queue_delay_microseconds()) {
    const std::uint64_t delay = from.max_queue_delay_microseconds();
    if (delay > kMostMicroseconds) return TooLarge("max_queue_delay_microseconds", delay);
    out->max_queue_delay_us = delay;
  }
  if (from.has_preserve_ordering()) out->preserve_ordering = from.preserve_ordering();
  if (from.has_priority_levels()) out->priority_levels = from.priority_levels();
  if (from.has_default_priority_level()) {
    out->default_priority_level = from.default_priority_level();
  }
  const pb::ModelQueuePolicy& policy = from.default_queue_policy();
  QueuePolicy read;
  if (std::string error = ReadPolicy(policy, &read); !error.empty()) return error;
  if (policy.has_timeout_action()) out->reject = read.reject;
  if (policy.has_default_timeout_microseconds()) {
    out->default_timeout_us = policy.default_timeout_microseconds();
  }
  if (policy.has_allow_timeout_override()) {
    out->allow_timeout_override = policy.allow_timeout_override();
  }
  if (policy.has_max_queue_size()) out->max_queue_size = policy.max_queue_size();
  for (const auto& [level, own] : from.priority_queue_policy()) {
    if (std::string error = ReadPolicy(own, &read); !error.empty()) return error;
    out->level_policies.emplace_back(level, read);
  }
  std::sort(out->level_policies.begin(), out->level_policies.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return "";
}

std::string ReadInstances(const pb::ModelConfig& from, Config* out) {
  std::map<std::string, bool> is_global;
  bool limited = false;
  for (const pb::ModelInstanceGroup& group : from.instance_group()) {
    const int count = group.has_count() ? group.count() : 1;
    if (count < 1 || count > kMostInstances) {
      return "instance_group.count is " + std::to_string(count) + "; it must be from 1 to " +
             std::to_string(kMostInstances);
    }
    InstanceLimits limits;
    limited |= group.has_rate_limiter();
    if (group.rate_limiter().has_priority()) limits.priority = group.rate_limiter().priority();
    for (const auto& resource : group.rate_limiter().resources()) {
      if (resource.name().empty()) return "a resource of instance_group.rate_limiter has no name";
      const auto known = is_global.emplace(resource.name(), resource.global()).first;
      if (known->second != resource.global()) {
        return "the resource '" + resource.name() +
               "' of instance_group.rate_limiter is both global and not; give it two names";
      }
      limits.resources[resource.name()] = resource.count();
    }
    out->instances.insert(out->instances.end(), static_cast<std::size_t>(count), limits);
  }
  if (!limited) out->instances.clear();
  return "";
}

}  // namespace

std::string ReadConfig(std::string_view text, Config* out) {
  FirstMistake first;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&first);
  parser.AllowUnknownField(true);
  pb::ModelConfig message;
  const bool parsed = parser.ParseFromString(std::string(text), &message);
  if (!parsed || !first.text().empty()) return first.text();
  if (!message.has_dynamic_batching()) {
    return "it has no dynamic_batching, without which Triton does not batch; add "
           "dynamic_batching { }";
  }
  if (message.has_max_batch_size()) out->max_batch_size = message.max_batch_size();
  if (std::string error = ReadBatching(message.dynamic_batching(), out); !error.empty()) {
    return error;
  }
  return ReadInstances(message, out);
}

}  // namespace schedtwin::triton
