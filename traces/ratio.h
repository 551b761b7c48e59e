// Ratio: a positive decimal number that the user typed, kept exactly ("1.1" is 11/10 and nothing
// else), and ExactScale, which multiplies integers by it without error. Used for rate and length
// scaling, so that a scaled trace has the same nanoseconds on every machine. Values; any thread.
#ifndef SCHEDTWIN_TRACES_RATIO_H_
#define SCHEDTWIN_TRACES_RATIO_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace schedtwin {

/// numerator / denominator in lowest terms, both from 1 to 10^12.
struct Ratio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;

  bool is_one() const { return numerator == denominator; }
  bool operator==(const Ratio&) const = default;
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

/// Parses "2", "0.25", "1.5": digits with at most one point, above zero, at most 12 digits that
/// count. `what` names the setting in the error, such as "--rate-scale".
absl::StatusOr<Ratio> ParseRatio(std::string_view text, std::string_view what);

/// The number as digits ("1.5"); "n/d" where no short decimal exists.
std::string ToString(const Ratio& ratio);

/// x * numerator / denominator in integers. A double estimates the quotient and the integer
/// remainder corrects it: exact, and several times faster than a 128-bit division.
class ExactScale {
 public:
  /// Results must stay below this (73 years in nanoseconds); callers check with Fits once per
  /// trace.
  static constexpr std::int64_t kLimit = std::int64_t{1} << 61;

  ExactScale() = default;
  ExactScale(std::int64_t numerator, std::int64_t denominator)
      : numerator_(numerator),
        denominator_(denominator),
        estimate_(static_cast<double>(numerator) / static_cast<double>(denominator)) {}

  bool is_one() const { return numerator_ == denominator_; }
  bool Fits(std::int64_t x) const {
    return static_cast<double>(x) * estimate_ < static_cast<double>(kLimit);
  }

  /// Rounds down. REQUIRES: x >= 0, Fits(x).
  std::int64_t Floor(std::int64_t x) const { return Divide(x, 0, 0); }
  /// Rounds to nearest, halves up. REQUIRES: x >= 0, Fits(x).
  std::int64_t Round(std::int64_t x) const { return Divide(x, denominator_ / 2, 0.5); }

 private:
  // floor((x * numerator + bias) / denominator), bias being `part` of the denominator. The estimate
  // is off by less than 2^11 at worst, so that the remainder, computed modulo 2^64, is below 2^52
  // and therefore right; as a rule it is not off at all and the loops are not entered.
  std::int64_t Divide(std::int64_t x, std::int64_t bias, double part) const {
    auto quotient = static_cast<std::int64_t>(static_cast<double>(x) * estimate_ + part);
    auto remainder = static_cast<std::int64_t>(
        static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(numerator_) +
        static_cast<std::uint64_t>(bias) -
        static_cast<std::uint64_t>(quotient) * static_cast<std::uint64_t>(denominator_));
    for (; remainder < 0; remainder += denominator_) --quotient;
    for (; remainder >= denominator_; remainder -= denominator_) ++quotient;
    return quotient;
  }

  std::int64_t numerator_ = 1;
  std::int64_t denominator_ = 1;
  double estimate_ = 1;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_RATIO_H_
