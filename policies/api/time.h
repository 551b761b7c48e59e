// Time and Duration: int64 nanoseconds in two strong types, so that an instant is never added to an
// instant and no API carries floating-point seconds. Header-only, constexpr, no clock is read here.
// The origin of Time is the start of the run, in every world. int64 holds 292 years.
#ifndef SCHEDTWIN_POLICIES_API_TIME_H_
#define SCHEDTWIN_POLICIES_API_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace schedtwin {

/// A signed length of time in nanoseconds.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration Nanos(std::int64_t n) { return Duration(n); }
  static constexpr Duration Micros(std::int64_t n) { return Duration(n * 1'000); }
  static constexpr Duration Millis(std::int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration Seconds(std::int64_t n) { return Duration(n * 1'000'000'000); }
  static constexpr Duration Infinite() {
    return Duration(std::numeric_limits<std::int64_t>::max());
  }

  constexpr std::int64_t ns() const { return ns_; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return Duration(ns_ + o.ns_); }
  constexpr Duration operator-(Duration o) const { return Duration(ns_ - o.ns_); }
  constexpr Duration operator*(std::int64_t k) const { return Duration(ns_ * k); }
  constexpr Duration operator/(std::int64_t k) const { return Duration(ns_ / k); }
  constexpr Duration& operator+=(Duration o) {
    ns_ += o.ns_;
    return *this;
  }

 private:
  explicit constexpr Duration(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

/// An instant: nanoseconds since the start of the run.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time Nanos(std::int64_t n) { return Time(n); }
  /// Later than every instant that can occur; "never" for windows and deadlines.
  static constexpr Time Infinite() { return Time(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr bool infinite() const { return ns_ == std::numeric_limits<std::int64_t>::max(); }

  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(Duration d) const { return Time(ns_ + d.ns()); }
  constexpr Time operator-(Duration d) const { return Time(ns_ - d.ns()); }
  constexpr Duration operator-(Time o) const { return Duration::Nanos(ns_ - o.ns_); }

 private:
  explicit constexpr Time(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_TIME_H_
