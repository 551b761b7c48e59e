#include "policies/triton_dynamic/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "policies/triton_dynamic/config.h"

namespace schedtwin::triton {
namespace {

constexpr std::int64_t kMostUnits = 1'000'000;
constexpr std::int64_t kMostLevels = 1000;
constexpr std::int64_t kMostNanos = 1'000'000'000'000'000;  // eleven days
constexpr std::array<std::string_view, 2> kActions = {"reject", "delay"};
constexpr std::array<std::string_view, 2> kLimits = {"off", "execution_count"};
constexpr std::array<std::string_view, 2> kVariants = {"bug_compatible", "fixed"};

constexpr std::array<ParameterSpec, 17> kTable = {{
    {.name = "config",
     .type = ParameterType::kText,
     .default_text = "",
     .meaning = "a model's config.pbtxt (@FILE); what it sets need not be, and must not be "
                "otherwise, set here"},
    {.name = "max_batch_size",
     .type = ParameterType::kInteger,
     .default_text = "32",
     .min = 1,
     .max = kMostUnits,
     .unit = "units",
     .meaning = "units in one launch, at most; never more than the device takes"},
    {.name = "preferred_batch_size",
     .type = ParameterType::kIntegers,
     .default_text = "",
     .min = 1,
     .max = kMostUnits,
     .unit = "units",
     .meaning = "sizes at which a batch does not wait for more; none: max_batch_size"},
    {.name = "max_queue_delay",
     .type = ParameterType::kDuration,
     .default_text = "0us",
     .max = kMostNanos,
     .meaning = "how long a request may wait for a better batch; cut to microseconds"},
    {.name = "preserve_ordering",
     .type = ParameterType::kFlag,
     .default_text = "false",
     .meaning = "responses leave in the order in which requests left the queue"},
    {.name = "priority_levels",
     .type = ParameterType::kInteger,
     .default_text = "0",
     .min = 0,
     .max = kMostLevels,
     .unit = "levels",
     .meaning = "levels of priority, 1 the most urgent; 0: there are none"},
    {.name = "default_priority_level",
     .type = ParameterType::kInteger,
     .default_text = "0",
     .min = 0,
     .max = kMostLevels,
     .meaning = "level of requests of priority 0 or beyond the levels; from 1 where there are any"},
    {.name = "timeout_action",
     .type = ParameterType::kChoice,
     .default_text = "reject",
     .meaning = "what becomes of a request that has timed out in the queue",
     .choices = kActions},
    {.name = "default_timeout",
     .type = ParameterType::kDuration,
     .default_text = "0us",
     .max = kMostNanos,
     .meaning = "how long a request may stay in the queue; cut to microseconds; 0: for ever"},
    {.name = "allow_timeout_override",
     .type = ParameterType::kFlag,
     .default_text = "false",
     .meaning = "a request's own deadline counts, where it is below default_timeout"},
    {.name = "max_queue_size",
     .type = ParameterType::kInteger,
     .default_text = "0",
     .min = 0,
     .max = 1'000'000'000,
     .unit = "requests",
     .meaning = "requests in the queue of a level, at most; 0: no limit"},
    {.name = "enforce_equal_shape",
     .type = ParameterType::kFlag,
     .default_text = "false",
     .meaning = "a batch holds requests of one shape: the model has inputs of variable shape"},
    {.name = "rate_limit",
     .type = ParameterType::kChoice,
     .default_text = "off",
     .meaning = "the server's --rate-limit: executions take turns and need resources",
     .choices = kLimits},
    {.name = "instance_resources",
     .type = ParameterType::kText,
     .default_text = "",
     .meaning = "what an execution of each instance holds: R1=4,R2=1;R1=2; the last one is for all "
                "that follow"},
    {.name = "instance_priority",
     .type = ParameterType::kIntegers,
     .default_text = "",
     .min = 0,
     .max = 1'000'000,
     .meaning = "of each instance, 2 has half the turns of 1; the last one is for all that follow"},
    {.name = "resource_supply",
     .type = ParameterType::kText,
     .default_text = "",
     .meaning = "the server's --rate-limit-resource: R1=4,R2=8; none: of each the most that one "
                "instance needs"},
    {.name = "variant",
     .type = ParameterType::kChoice,
     .default_text = "bug_compatible",
     .meaning = "fixed: without the defects that the README lists",
     .choices = kVariants},
}};

/// "R1=4,R2=1" as names and counts; false: it is something else.
bool ReadResources(std::string_view text, Resources* out) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::size_t equals = one.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    const std::string_view number = one.substr(equals + 1);
    std::uint32_t count = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), count);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) return false;
    if (!out->emplace(one.substr(0, equals), count).second) return false;
    if (one.size() + 1 == text.size()) return false;  // nothing behind the last ','
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return true;
}

std::string ReadInstanceParameters(const Parameters& parameters, Settings* out) {
  std::string_view text = parameters.text("instance_resources");
  const auto priorities = parameters.integers("instance_priority");
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    out->instances.emplace_back();
    if (!ReadResources(one, &out->instances.back().resources)) {
      return "instance_resources has '" + std::string(one) +
             "'; it takes counts of resources such as R1=4,R2=1, joined by ';' for each instance";
    }
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  if (out->instances.size() < priorities.size()) {
    out->instances.resize(priorities.size(),
                          out->instances.empty() ? InstanceLimits{} : out->instances.back());
  }
  for (std::size_t i = 0; i < out->instances.size() && !priorities.empty(); ++i) {
    const std::int64_t priority = priorities[std::min(i, priorities.size() - 1)];
    out->instances[i].priority = static_cast<std::uint32_t>(priority);
  }
  return "";
}

/// What the file sets against what the parameter is: they agree, the parameter has its default, or
/// there is a mistake.
class Merger {
 public:
  template <class T, class U>
  void Merge(const char* parameter, const std::optional<T>& in_file, const U& unset, U* value) {
    if (!in_file.has_value()) return;
    if (static_cast<U>(*in_file) != *value && *value != unset) Report(parameter);
    *value = static_cast<U>(*in_file);
  }
  void Report(const char* parameter) {
    if (!error_.empty()) return;
    error_ = std::string("config sets another ") + parameter + " than the parameter " + parameter +
             "; leave the parameter out";
  }
  const std::string& error() const { return error_; }

 private:
  std::string error_;
};

std::string MergeConfig(const Config& config, Settings* out) {
  Merger merger;
  // Ranges are checked on what comes of it; what is cut here is out of range either way.
  std::int64_t most = out->max_batch_size, levels = out->priority_levels;
  std::int64_t level = out->default_priority_level, queue = out->default_policy.max_queue_size;
  std::int64_t delay_us = out->max_queue_delay.ns() / 1'000;
  merger.Merge("max_batch_size", config.max_batch_size, std::int64_t{32}, &most);
  merger.Merge("max_queue_delay", config.max_queue_delay_us, std::int64_t{0}, &delay_us);
  merger.Merge("preserve_ordering", config.preserve_ordering, false, &out->preserve_ordering);
  merger.Merge("priority_levels", config.priority_levels, std::int64_t{0}, &levels);
  merger.Merge("default_priority_level", config.default_priority_level, std::int64_t{0}, &level);
  merger.Merge("timeout_action", config.reject, true, &out->default_policy.reject);
  merger.Merge("default_timeout", config.default_timeout_us, std::int64_t{0},
               &out->default_policy.timeout_us);
  merger.Merge("allow_timeout_override", config.allow_timeout_override, false,
               &out->default_policy.allow_timeout_override);
  merger.Merge("max_queue_size", config.max_queue_size, std::int64_t{0}, &queue);
  if (most < 1 || most > kMostUnits) {
    return "config: max_batch_size is " + std::to_string(most) +
           "; dynamic batching needs one from 1 to " + std::to_string(kMostUnits);
  }
  if (levels < 0 || levels > kMostLevels) {
    return "config: priority_levels may be " + std::to_string(kMostLevels) + " at most";
  }
  if (level < 0 || level > kMostLevels) level = kMostLevels + 1;
  std::vector<std::uint32_t> preferred;
  for (const std::int64_t units : config.preferred_batch_size) {
    if (units < 1 || units > kMostUnits) {
      return "config: preferred_batch_size has " + std::to_string(units) +
             "; sizes are from 1 to " + std::to_string(kMostUnits);
    }
    preferred.push_back(static_cast<std::uint32_t>(units));
  }
  std::sort(preferred.begin(), preferred.end());
  preferred.erase(std::unique(preferred.begin(), preferred.end()), preferred.end());
  if (!preferred.empty()) {
    if (!out->preferred.empty() && out->preferred != preferred) {
      merger.Report("preferred_batch_size");
    }
    out->preferred = preferred;
  }
  for (const auto& [of, policy] : config.level_policies) {
    if (of < 1 || of > static_cast<std::uint64_t>(levels)) {
      return "config: priority_queue_policy is for level " + std::to_string(of) + "; there are " +
             std::to_string(levels) + " priority_levels, from 1";
    }
    out->level_policies.emplace_back(static_cast<std::uint32_t>(of), policy);
  }
  if (!config.instances.empty()) {
    if (!out->instances.empty()) {
      return "config has rate_limiter; leave instance_resources and instance_priority out";
    }
    out->instances = config.instances;
  }
  out->max_batch_size = static_cast<std::uint32_t>(most);
  out->max_queue_delay = Duration::Micros(delay_us);
  out->priority_levels = static_cast<std::uint32_t>(levels);
  out->default_priority_level = static_cast<std::uint32_t>(level);
  out->default_policy.max_queue_size = static_cast<std::uint32_t>(queue);
  return merger.error();
}

std::string CheckSupply(const Settings& settings) {
  if (settings.supply.empty()) return "";
  for (const InstanceLimits& instance : settings.instances) {
    for (const auto& [name, count] : instance.resources) {
      const auto supply = settings.supply.find(name);
      const std::uint32_t there = supply == settings.supply.end() ? 0 : supply->second;
      if (count <= there) continue;
      return "an instance needs " + std::to_string(count) + " of the resource '" + name + "' and " +
             "resource_supply has " + std::to_string(there) + ": it could never execute";
    }
  }
  return "";
}

std::string CheckTogether(const Settings& settings) {
  if (settings.preferred.back() > settings.max_batch_size) {
    return "preferred_batch_size has " + std::to_string(settings.preferred.back()) +
           ", more than max_batch_size, which is " + std::to_string(settings.max_batch_size);
  }
  const std::uint32_t level = settings.default_priority_level;
  if (settings.priority_levels > 0 && (level < 1 || level > settings.priority_levels)) {
    return "default_priority_level is " + std::to_string(level) + "; with priority_levels " +
           std::to_string(settings.priority_levels) + " it must be from 1 to " +
           std::to_string(settings.priority_levels);
  }
  if (settings.priority_levels == 0 && level > 0) {
    return "default_priority_level is " + std::to_string(level) + ", and priority_levels is 0";
  }
  if (settings.preserve_ordering) {
    bool rejects = settings.default_policy.reject;
    for (const auto& [of, policy] : settings.level_policies) rejects &= policy.reject;
    if (settings.priority_levels > 1) {
      return "preserve_ordering does not go with more than one of priority_levels";
    }
    if (!rejects) return "preserve_ordering does not go with the timeout action delay";
  }
  return CheckSupply(settings);
}

}  // namespace

std::span<const ParameterSpec> SettingsTable() { return kTable; }

std::string ReadSettings(const Parameters& parameters, Settings* out) {
  out->max_batch_size = static_cast<std::uint32_t>(parameters.integer("max_batch_size"));
  for (const std::int64_t units : parameters.integers("preferred_batch_size")) {
    out->preferred.push_back(static_cast<std::uint32_t>(units));
  }
  std::sort(out->preferred.begin(), out->preferred.end());
  out->preferred.erase(std::unique(out->preferred.begin(), out->preferred.end()),
                       out->preferred.end());
  out->max_queue_delay = Duration::Micros(parameters.duration("max_queue_delay").ns() / 1'000);
  out->preserve_ordering = parameters.flag("preserve_ordering");
  out->priority_levels = static_cast<std::uint32_t>(parameters.integer("priority_levels"));
  out->default_priority_level =
      static_cast<std::uint32_t>(parameters.integer("default_priority_level"));
  out->default_policy = {
      .reject = parameters.choice("timeout_action") == "reject",
      .timeout_us = parameters.duration("default_timeout").ns() / 1'000,
      .allow_timeout_override = parameters.flag("allow_timeout_override"),
      .max_queue_size = static_cast<std::uint32_t>(parameters.integer("max_queue_size"))};
  out->enforce_equal_shape = parameters.flag("enforce_equal_shape");
  out->rate_limit = parameters.choice("rate_limit") == "execution_count";
  out->fixed = parameters.choice("variant") == "fixed";
  std::string error = ReadInstanceParameters(parameters, out);
  if (!error.empty()) return error;
  if (!ReadResources(parameters.text("resource_supply"), &out->supply)) {
    return "resource_supply is '" + std::string(parameters.text("resource_supply")) +
           "'; it takes counts of resources such as R1=4,R2=8";
  }
  if (const std::string_view text = parameters.text("config"); !text.empty()) {
    Config config;
    error = ReadConfig(text, &config);
    if (!error.empty()) return "config: " + error;
    error = MergeConfig(config, out);
    if (!error.empty()) return error;
  }
  if (out->preferred.empty()) out->preferred = {out->max_batch_size};
  return CheckTogether(*out);
}

}  // namespace schedtwin::triton
