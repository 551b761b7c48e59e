// Numbers as trace files write them, read without losing a digit: whole numbers, and decimals of a
// unit of time as integer nanoseconds. Header-only; used by the formats.
#ifndef SCHEDTWIN_TRACES_FORMATS_NUMBER_H_
#define SCHEDTWIN_TRACES_FORMATS_NUMBER_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace schedtwin {

/// Digits and nothing else, up to `most`. False: no such number.
inline bool ParseWhole(std::string_view text, std::uint64_t most, std::uint64_t* out) {
  if (text.empty() || text.size() > 20) return false;
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto digit = static_cast<unsigned char>(c - '0');
    if (digit > 9 || value > (most - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return true;
}

/// What a decimal comes to in nanoseconds.
struct ExactTime {
  std::int64_t ns = 0;
  bool exact = true;  ///< false: it has digits below the nanosecond, which are rounded, halves up
};

/// A decimal, such as "12", "0.25" or "1.5e-05", of a unit of 10^`unit_digits` ns (9: seconds, 6:
/// milliseconds); from 0 to about 292 years. False: no such number.
inline bool ParseTime(std::string_view text, int unit_digits, ExactTime* out) {
  std::string_view digits = text;
  int exponent = unit_digits;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    digits = text.substr(0, e);
    std::string_view power = text.substr(e + 1);
    const bool negative = power.starts_with('-');
    if (negative || power.starts_with('+')) power.remove_prefix(1);
    std::uint64_t value = 0;
    if (!ParseWhole(power, 999, &value)) return false;
    exponent += negative ? -static_cast<int>(value) : static_cast<int>(value);
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point == 0 || point + 1 == digits.size()) return false;
  constexpr std::int64_t kMost = 9'200'000'000'000'000'000;
  std::int64_t value = 0;
  int rounding = -1;  // the first digit that is left out
  bool rest = false;  // some other of those is not 0
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i == point) continue;
    const auto digit = static_cast<unsigned char>(digits[i] - '0');
    if (digit > 9) return false;
    // The power of ten, in ns, that this digit stands for.
    const auto place = i < point ? static_cast<int>(point - i) - 1 : -static_cast<int>(i - point);
    if (place + exponent < 0) {
      if (place + exponent == -1) rounding = digit;
      rest = rest || digit != 0;
      continue;
    }
    if (value > (kMost - digit) / 10) return false;
    value = value * 10 + digit;
  }
  const int last = point < digits.size() ? -static_cast<int>(digits.size() - point - 1) : 0;
  for (int place = last + exponent; place > 0 && value != 0; --place) {
    if (value > kMost / 10) return false;
    value *= 10;
  }
  out->ns = value + (rounding >= 5 ? 1 : 0);
  out->exact = !rest;
  return true;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_NUMBER_H_
