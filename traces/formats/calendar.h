// Dates and times of day as trace files stamp them. Header-only; used by the formats.
#ifndef SCHEDTWIN_TRACES_FORMATS_CALENDAR_H_
#define SCHEDTWIN_TRACES_FORMATS_CALENDAR_H_

#include <cstdint>
#include <cstring>
#include <string_view>

namespace schedtwin {

// Days from 1970-01-01 to a date of the Gregorian calendar (H. Hinnant, "chrono-compatible date
// algorithms"). REQUIRES: the year is 1970 or later.
constexpr std::int64_t DaysFromCivil(int year, int month, int day) {
  year -= month <= 2;
  const int era = year / 400;
  const int year_of_era = year - era * 400;
  const int day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return std::int64_t{era} * 146097 + day_of_era - 719468;
}

constexpr int DaysInMonth(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : kDays[month - 1];
}

/// `count` digits at `text` as a number, or -1 (then some character was none).
inline int Digits(const char* text, int count) {
  int value = 0;
  for (int i = 0; i < count; ++i) {
    const auto digit = static_cast<unsigned char>(text[i] - '0');
    if (digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/// Turns the first 19 characters of a stamp, "2023-11-16 18:17:03" with any separator in the
/// middle, into nanoseconds since 1970, keeping the date of the stamp before: few change it.
class StampParser {
 public:
  static constexpr std::size_t kSize = 19;

  /// False: not of that form, no such instant, or before 1970 or after 2261. REQUIRES:
  /// text.size() >= kSize.
  bool Parse(std::string_view text, char separator, std::int64_t* ns) {
    const char* t = text.data();
    if (std::memcmp(t, date_, sizeof date_) != 0 && !ParseDate(t)) return false;
    const int hour = Digits(t + 11, 2);
    const int minute = Digits(t + 14, 2);
    const int second = Digits(t + 17, 2);
    if (t[10] != separator || t[13] != ':' || t[16] != ':') return false;
    if ((hour | minute | second) < 0 || hour > 23 || minute > 59 || second > 59) return false;
    *ns = midnight_ns_ + ((hour * 60 + minute) * 60 + second) * kSecond;
    return true;
  }

 private:
  static constexpr std::int64_t kSecond = 1'000'000'000;

  bool ParseDate(const char* t) {
    const int year = Digits(t, 4);
    const int month = Digits(t + 5, 2);
    const int day = Digits(t + 8, 2);
    if (t[4] != '-' || t[7] != '-' || year < 1970 || year > 2261) return false;
    if (month < 1 || month > 12 || day < 1 || day > DaysInMonth(year, month)) return false;
    midnight_ns_ = DaysFromCivil(year, month, day) * 86'400 * kSecond;
    std::memcpy(date_, t, sizeof date_);
    return true;
  }

  char date_[10] = {};  // matches no stamp at first
  std::int64_t midnight_ns_ = 0;
};

/// A whole stamp with up to nine fraction digits and a zone, "Z" or "+00:00", as nanoseconds since
/// 1970 (UTC). False: not of that form, or no such instant.
inline bool ParseZonedStamp(std::string_view text, char separator, StampParser* parser,
                            std::int64_t* ns) {
  if (text.size() <= StampParser::kSize || !parser->Parse(text, separator, ns)) return false;
  text.remove_prefix(StampParser::kSize);
  if (text.starts_with('.')) {
    std::size_t digits = 0;
    std::int64_t fraction = 0;
    for (text.remove_prefix(1); !text.empty() && text[0] >= '0' && text[0] <= '9'; ++digits) {
      if (digits == 9) return false;
      fraction = fraction * 10 + (text[0] - '0');
      text.remove_prefix(1);
    }
    if (digits == 0) return false;
    for (; digits < 9; ++digits) fraction *= 10;
    *ns += fraction;
  }
  if (text == "Z") return true;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return false;
  const int hours = Digits(text.data() + 1, 2), minutes = Digits(text.data() + 4, 2);
  if ((hours | minutes) < 0 || hours > 23 || minutes > 59) return false;
  const std::int64_t offset_ns = (hours * 60 + minutes) * 60 * std::int64_t{1'000'000'000};
  *ns -= text[0] == '-' ? -offset_ns : offset_ns;
  return true;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_CALENDAR_H_
