#include "traces/ratio.h"

#include <numeric>

#include "absl/status/status.h"
#include "traces/text.h"

namespace schedtwin {
namespace {

constexpr std::int64_t kMax = 1'000'000'000'000;

// Reads digits with at most one point. False: not a number of that form, or more digits than fit.
bool ParseDecimal(std::string_view text, std::int64_t* numerator, std::int64_t* denominator) {
  bool any = false;
  bool point = false;
  const std::size_t dot = text.find('.');
  if (dot !=
      std::string_view::npos) {  // "1.50" is "1.5": zeros at the end are not digits that count
    while (text.back() == '0') text.remove_suffix(1);
  }
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') return false;
    any = true;
    *numerator = *numerator * 10 + (c - '0');
    if (point) *denominator *= 10;
    if (*numerator > kMax || *denominator > kMax) return false;
  }
  return any || (point && dot > 0);
}

}  // namespace

absl::StatusOr<Ratio> ParseRatio(std::string_view text, std::string_view what) {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
  if (!ParseDecimal(text, &numerator, &denominator) || numerator == 0) {
    return absl::InvalidArgumentError(
        std::string(what) + " cannot be " + Quoted(text) +
        "; it takes a number above zero such as 2, 0.5 or 1.25, with at most 12 digits");
  }
  const std::int64_t divisor = std::gcd(numerator, denominator);
  return Ratio{numerator / divisor, denominator / divisor};
}

std::string ToString(const Ratio& ratio) {
  std::string text = std::to_string(ratio.numerator / ratio.denominator);
  std::int64_t rest = ratio.numerator % ratio.denominator;
  if (rest != 0) text += '.';
  for (int digits = 0; rest != 0; ++digits) {
    if (digits == 12) {
      return std::to_string(ratio.numerator) + "/" + std::to_string(ratio.denominator);
    }
    rest *= 10;  // below 10^13
    text += static_cast<char>('0' + rest / ratio.denominator);
    rest %= ratio.denominator;
  }
  return text;
}

}  // namespace schedtwin
