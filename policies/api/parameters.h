// Parameters: a policy declares a table of what can be set (type, unit, range, default, meaning);
// the runtime parses users' text by it, once, before the run. Names, ranges and defaults shown by
// the `policies` command come from the same table, so that they cannot drift. Standard library
// only.
#ifndef SCHEDTWIN_POLICIES_API_PARAMETERS_H_
#define SCHEDTWIN_POLICIES_API_PARAMETERS_H_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin {

enum class ParameterType : std::uint8_t {
  kInteger,
  kFlag,      ///< true | false
  kDuration,  ///< a number and ns, us, ms, s or min
  kChoice,    ///< one of `choices`
  kNumber,    ///< a decimal number
  kIntegers,  ///< integers in the order given, joined by ':'; may be none
  kText,      ///< any text; users may give "@FILE" for what a file holds
};

/// One row of a policy's table. Views must outlive every use (string literals do).
struct ParameterSpec {
  std::string_view name;
  ParameterType type = ParameterType::kInteger;
  std::string_view default_text;
  std::int64_t min = 0;  ///< kInteger, kNumber: the value; kIntegers: each; kDuration: nanoseconds
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::string_view unit;  ///< what a number counts: "requests", "tokens", "steps"
  std::string_view meaning;
  std::span<const std::string_view> choices = {};
};

/// Parses "10ms", "1.5s", "250us", "3ns", "2min". Exact to the nanosecond; negative is an error.
inline bool ParseDuration(std::string_view text, Duration* out) {
  std::size_t i = 0;
  std::int64_t whole = 0, fraction = 0, scale = 1;
  bool any = false;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, any = true) {
    if (whole > 9'000'000'000'000'000) return false;
    whole = whole * 10 + (text[i] - '0');
  }
  if (i < text.size() && text[i] == '.') {
    for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, any = true) {
      if (scale > 1'000'000'000'000) return false;
      fraction = fraction * 10 + (text[i] - '0');
      scale *= 10;
    }
  }
  if (!any) return false;
  const std::string_view unit = text.substr(i);
  std::int64_t nanos = 0;
  if (unit == "ns") nanos = 1;
  if (unit == "us") nanos = 1'000;
  if (unit == "ms") nanos = 1'000'000;
  if (unit == "s") nanos = 1'000'000'000;
  if (unit == "min") nanos = 60'000'000'000;
  if (nanos == 0 || whole > std::numeric_limits<std::int64_t>::max() / 2 / nanos) return false;
  const std::int64_t common = std::gcd(nanos, scale);
  if (fraction % (scale / common) != 0) return false;  // finer than a nanosecond
  *out = Duration::Nanos(whole * nanos + fraction / (scale / common) * (nanos / common));
  return true;
}

/// The values of one policy, in the order of its table.
class Parameters {
 public:
  /// Parses `settings` (name, text) by `table`; what is not named gets its default. On a mistake
  /// returns false and one line in `*error` that says what, where and how to mend it.
  static bool Parse(std::span<const ParameterSpec> table,
                    std::span<const std::pair<std::string, std::string>> settings, Parameters* out,
                    std::string* error) {
    out->table_ = table;
    out->values_.assign(table.size(), {});
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!ParseValue(table[i], table[i].default_text, &out->values_[i], error)) return false;
    }
    for (const auto& [name, text] : settings) {
      const std::size_t i = Find(table, name);
      if (i == table.size()) {
        *error = "unknown parameter '" + name + "'" + Known(table);
        return false;
      }
      if (!ParseValue(table[i], text, &out->values_[i], error)) return false;
    }
    return true;
  }

  /// REQUIRES: `name` is in the table with that type; anything else is a defect of the policy and
  /// aborts. Views of text and integers live as long as this.
  std::int64_t integer(std::string_view name) const {
    return Get(name, ParameterType::kInteger).integer;
  }
  bool flag(std::string_view name) const { return Get(name, ParameterType::kFlag).integer != 0; }
  Duration duration(std::string_view name) const {
    return Duration::Nanos(Get(name, ParameterType::kDuration).integer);
  }
  std::string_view choice(std::string_view name) const {
    const auto index = static_cast<std::size_t>(Get(name, ParameterType::kChoice).integer);
    return table_[Find(table_, name)].choices[index];
  }
  double number(std::string_view name) const { return Get(name, ParameterType::kNumber).number; }
  std::span<const std::int64_t> integers(std::string_view name) const {
    return Get(name, ParameterType::kIntegers).integers;
  }
  std::string_view text(std::string_view name) const {
    return Get(name, ParameterType::kText).text;
  }

 private:
  struct Value {
    std::int64_t integer = 0;  // also flags, durations, and the index of a choice
    double number = 0;
    std::vector<std::int64_t> integers;
    std::string text;
  };

  static std::size_t Find(std::span<const ParameterSpec> table, std::string_view name) {
    std::size_t i = 0;
    while (i < table.size() && table[i].name != name) ++i;
    return i;
  }
  static std::string Known(std::span<const ParameterSpec> table) {
    if (table.empty()) return "; this policy has none";
    std::string known = "; this policy has:";
    for (const ParameterSpec& spec : table) known += " " + std::string(spec.name);
    return known;
  }

  template <class Number>
  static bool ReadNumber(const ParameterSpec& spec, std::string_view text, Number* out) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
    return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
           *out >= static_cast<Number>(spec.min) && *out <= static_cast<Number>(spec.max);
  }
  static bool ReadIntegers(const ParameterSpec& spec, std::string_view text,
                           std::vector<std::int64_t>* out) {
    out->clear();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(':'), text.size());
      std::int64_t value = 0;
      if (!ReadNumber(spec, text.substr(0, end), &value)) return false;
      out->push_back(value);
      if (end + 1 == text.size()) return false;  // nothing behind the last ':'
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return true;
  }
  static bool ReadChoice(const ParameterSpec& spec, std::string_view text, std::int64_t* out) {
    for (std::size_t i = 0; i < spec.choices.size(); ++i) {
      if (spec.choices[i] != text) continue;
      *out = static_cast<std::int64_t>(i);
      return true;
    }
    return false;
  }
  static bool Read(const ParameterSpec& spec, std::string_view text, Value* out) {
    switch (spec.type) {
      case ParameterType::kInteger:
        return ReadNumber(spec, text, &out->integer);
      case ParameterType::kNumber:
        return ReadNumber(spec, text, &out->number);
      case ParameterType::kIntegers:
        return ReadIntegers(spec, text, &out->integers);
      case ParameterType::kFlag:
        out->integer = text == "true";
        return text == "true" || text == "false";
      case ParameterType::kDuration: {
        Duration duration;
        if (!ParseDuration(text, &duration)) return false;
        out->integer = duration.ns();
        return duration.ns() >= spec.min && duration.ns() <= spec.max;
      }
      case ParameterType::kChoice:
        return ReadChoice(spec, text, &out->integer);
      case ParameterType::kText:
        out->text = text;
        return true;
    }
    return false;
  }

  static std::string Wanted(const ParameterSpec& spec) {
    const bool bounded = spec.max != std::numeric_limits<std::int64_t>::max();
    const std::string from =
        " from " + std::to_string(spec.min) + (bounded ? " to " + std::to_string(spec.max) : " up");
    std::string wanted;
    switch (spec.type) {
      case ParameterType::kInteger:
        return "an integer" + from;
      case ParameterType::kNumber:
        return "a number" + from;
      case ParameterType::kIntegers:
        return "integers" + from + ", joined by ':', such as 4:8";
      case ParameterType::kFlag:
        return "true or false";
      case ParameterType::kDuration:
        wanted = "a duration with its unit, such as 10ms or 1.5s";
        if (!bounded) return wanted;
        return wanted + ", from " + std::to_string(spec.min) + "ns to " + std::to_string(spec.max) +
               "ns";
      case ParameterType::kChoice:
        wanted = "one of";
        for (const std::string_view choice : spec.choices) wanted += " " + std::string(choice);
        return wanted;
      case ParameterType::kText:
        break;
    }
    return "text";
  }
  static bool ParseValue(const ParameterSpec& spec, std::string_view text, Value* out,
                         std::string* error) {
    if (Read(spec, text, out)) return true;
    *error = "parameter '" + std::string(spec.name) + "' cannot be '" + std::string(text) +
             "'; it takes " + Wanted(spec);
    return false;
  }
  const Value& Get(std::string_view name, ParameterType type) const {
    const std::size_t i = Find(table_, name);
    if (i == table_.size() || table_[i].type != type) std::abort();
    return values_[i];
  }

  std::span<const ParameterSpec> table_;
  std::vector<Value> values_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_PARAMETERS_H_
