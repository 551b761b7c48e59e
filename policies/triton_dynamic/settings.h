// Settings: what the policy runs by, once its parameters and the model's configuration file are
// read and agree. Plain values, made before the run.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_SETTINGS_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_SETTINGS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/parameters.h"
#include "policies/api/time.h"

namespace schedtwin::triton {

/// What a queue does with requests that are too many or too old.
struct QueuePolicy {
  bool reject = true;           ///< who has timed out; else it is delayed
  std::int64_t timeout_us = 0;  ///< 0: none
  bool allow_timeout_override = false;
  std::uint32_t max_queue_size = 0;  ///< 0: no limit
};

using Resources = std::map<std::string, std::uint32_t>;

/// How one instance takes part in the rate limiter.
struct InstanceLimits {
  Resources resources;  ///< that an execution of it holds
  std::uint32_t priority = 1;
};

struct Settings {
  std::uint32_t max_batch_size = 0;
  std::vector<std::uint32_t> preferred;  ///< sorted, at least one
  Duration max_queue_delay;              ///< whole microseconds
  bool preserve_ordering = false;
  std::uint32_t priority_levels = 0;         ///< 0: there are none
  std::uint32_t default_priority_level = 0;  ///< from 1, where there are levels
  QueuePolicy default_policy;
  std::vector<std::pair<std::uint32_t, QueuePolicy>> level_policies;  ///< by level, from 1
  bool enforce_equal_shape = false;
  bool rate_limit = false;
  std::vector<InstanceLimits> instances;  ///< in order; the last one is for all that follow
  Resources supply;
  bool fixed = false;  ///< without upstream's defects

  /// Batches may be formed ahead of an instance being idle.
  bool prefetches() const {
    return priority_levels == 0 && default_policy.timeout_us == 0 &&
           !default_policy.allow_timeout_override && default_policy.max_queue_size == 0;
  }
};

std::span<const ParameterSpec> SettingsTable();

/// Reads the parameters, with the file that `config` holds; says what is wrong, in one line, or
/// nothing.
std::string ReadSettings(const Parameters& parameters, Settings* out);

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_SETTINGS_H_
