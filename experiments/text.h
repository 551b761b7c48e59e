// Text: joining, strict parsing and "did you mean": what the command line, experiment files and
// error messages share. (Abseil's string functions take Debian's own string_view, hence these few.)
// Pure functions, any thread; nothing here depends on the locale.
#ifndef SCHEDTWIN_EXPERIMENTS_TEXT_H_
#define SCHEDTWIN_EXPERIMENTS_TEXT_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace schedtwin {

namespace text_internal {
inline void Append(std::string* out, std::string_view part) { out->append(part); }
template <class T>
requires std::is_arithmetic_v<T>
void Append(std::string* out, T value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out->append(buffer, result.ptr);
}
}  // namespace text_internal

/// Joins strings and numbers; floating-point ones in the shortest form that reads back the same.
template <class... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (text_internal::Append(&out, parts), ...);
  return out;
}

std::vector<std::string_view> Split(std::string_view text, char separator);
std::string Join(std::span<const std::string> parts, std::string_view separator);
std::string Join(std::span<const std::string_view> parts, std::string_view separator);
/// Without spaces at either end.
std::string_view Trim(std::string_view text);

/// The whole text must be a decimal integer; no sign but '-', no spaces.
std::optional<std::int64_t> ParseInteger(std::string_view text);

/// `value` with `digits` digits after the point.
std::string Fixed(double value, int digits);
/// For people: about four digits that count ("0.1234", "12.34", "1234", "1.234e+09").
std::string Compact(double value);

/// How many letters must be put in, taken out, replaced, or swapped with their neighbour.
int EditDistance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, if it is near enough to be what was meant.
std::optional<std::string_view> Nearest(std::string_view name,
                                        std::span<const std::string_view> candidates);

/// "; did you mean 'x'?" where one is near, or else "; known are a, b, c".
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_TEXT_H_
