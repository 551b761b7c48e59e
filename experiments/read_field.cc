#include "experiments/read_field.h"

#include "absl/status/statusor.h"
#include "experiments/text.h"
#include "policies/api/parameters.h"

namespace schedtwin {

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::Status At(std::string_view where, const absl::Status& status) {
  return absl::Status(status.code(), Cat(where, ": ", std::string(status.message())));
}

std::string_view WhereOf(const Experiment& experiment, std::string_view path,
                         std::string_view fallback) {
  const Setting* setting = experiment.Find(path);
  return setting == nullptr ? fallback : std::string_view(setting->where);
}

std::string ListHint(std::string_view text) {
  const bool list =
      text.find(',') != std::string_view::npos || text.find("..") != std::string_view::npos;
  return list ? " (lists are for `schedtwin sweep`)" : "";
}

absl::Status ReadInteger(const Experiment& experiment, std::string_view path, std::int64_t min,
                         std::int64_t max, std::int64_t* out) {
  const Setting* setting = experiment.Find(path);
  if (setting == nullptr) return absl::OkStatus();
  const std::optional<std::int64_t> value = ParseInteger(setting->text);
  if (!value.has_value() || *value < min || *value > max) {
    return Invalid(Cat(setting->where, ": ", path, " cannot be '", setting->text,
                       "'; it takes an integer from ", min, " to ", max, ListHint(setting->text)));
  }
  *out = *value;
  return absl::OkStatus();
}

absl::Status ReadSwitch(const Experiment& experiment, std::string_view path, bool* out) {
  const Setting* setting = experiment.Find(path);
  if (setting == nullptr) return absl::OkStatus();
  if (setting->text != "true" && setting->text != "false") {
    return Invalid(Cat(setting->where, ": ", path, " cannot be '", setting->text,
                       "'; it is true or false", ListHint(setting->text)));
  }
  *out = setting->text == "true";
  return absl::OkStatus();
}

absl::Status ReadDuration(const Experiment& experiment, std::string_view path,
                          std::optional<Duration>* out) {
  const Setting* setting = experiment.Find(path);
  if (setting == nullptr) return absl::OkStatus();
  Duration value;
  if (!ParseDuration(setting->text, &value) || value <= Duration()) {
    return Invalid(
        Cat(setting->where, ": ", path, " cannot be '", setting->text,
            "'; it takes a duration above zero with its unit, such as 250us, 10ms, 1.5s or "
            "2min",
            ListHint(setting->text)));
  }
  *out = value;
  return absl::OkStatus();
}

absl::Status ReadBoundedDuration(const Experiment& experiment, std::string_view path,
                                 std::optional<Duration>* out) {
  const absl::Status status = ReadDuration(experiment, path, out);
  if (!status.ok() || !out->has_value() || **out <= kLongestDuration) return status;
  const Setting* setting = experiment.Find(path);
  return Invalid(Cat(setting->where, ": ", path, " cannot be '", setting->text,
                     "'; it is at most 365 days (525600min)"));
}

absl::Status ReadRatio(const Experiment& experiment, std::string_view path, Ratio* out) {
  const Setting* setting = experiment.Find(path);
  if (setting == nullptr) return absl::OkStatus();
  const absl::StatusOr<Ratio> value = ParseRatio(setting->text, Cat(setting->where, ": ", path));
  if (!value.ok()) {
    return absl::Status(value.status().code(),
                        Cat(std::string(value.status().message()), ListHint(setting->text)));
  }
  *out = *value;
  return absl::OkStatus();
}

}  // namespace schedtwin
