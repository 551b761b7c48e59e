// ReadConfig: what a config.pbtxt of Triton says of dynamic batching, and what it leaves open.
// Fields of Triton's that have no part in it are passed over; a field that Triton does not have is
// a mistake. A pure function of the text.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_CONFIG_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/triton_dynamic/settings.h"

namespace schedtwin::triton {

/// Absent or empty: the file does not say. Values are as written, in no particular range.
struct Config {
  std::optional<std::int64_t> max_batch_size;
  std::vector<std::int64_t> preferred_batch_size;
  std::optional<std::uint64_t> max_queue_delay_us;
  std::optional<bool> preserve_ordering;
  std::optional<std::uint64_t> priority_levels;
  std::optional<std::uint64_t> default_priority_level;
  std::optional<bool> reject;
  std::optional<std::uint64_t> default_timeout_us;
  std::optional<bool> allow_timeout_override;
  std::optional<std::uint32_t> max_queue_size;
  std::vector<std::pair<std::uint64_t, QueuePolicy>> level_policies;  ///< by level
  std::vector<InstanceLimits> instances;  ///< one for each, if any group has a rate limiter
};

/// Says what is wrong in one line, with its place where it has one, or nothing.
std::string ReadConfig(std::string_view text, Config* out);

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_CONFIG_H_
