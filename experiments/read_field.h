// Fields of an Experiment as values: each reader leaves its target as it is where the field is not
// given, and otherwise parses it strictly. Errors are one line: where it was written, what it
// cannot be, what it takes. Used by the Resolver alone; pure.
#ifndef SCHEDTWIN_EXPERIMENTS_READ_FIELD_H_
#define SCHEDTWIN_EXPERIMENTS_READ_FIELD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "experiments/experiment.h"
#include "policies/api/time.h"
#include "traces/ratio.h"

namespace schedtwin {

absl::Status Invalid(const std::string& message);
/// The same error with the place before it.
absl::Status At(std::string_view where, const absl::Status& status);
/// Where the field was written; where it was not, `fallback`.
std::string_view WhereOf(const Experiment& experiment, std::string_view path,
                         std::string_view fallback);
/// A list where one value is meant is the commonest mistake: says where lists belong.
std::string ListHint(std::string_view text);

absl::Status ReadInteger(const Experiment& experiment, std::string_view path, std::int64_t min,
                         std::int64_t max, std::int64_t* out);
/// "true" or "false".
absl::Status ReadSwitch(const Experiment& experiment, std::string_view path, bool* out);
absl::Status ReadDuration(const Experiment& experiment, std::string_view path,
                          std::optional<Duration>* out);
/// More is a slip of the unit.
inline constexpr Duration kLongestDuration = Duration::Seconds(365 * 86'400);
/// At most that.
absl::Status ReadBoundedDuration(const Experiment& experiment, std::string_view path,
                                 std::optional<Duration>* out);
absl::Status ReadRatio(const Experiment& experiment, std::string_view path, Ratio* out);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_READ_FIELD_H_
