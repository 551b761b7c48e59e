#include "experiments/text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace schedtwin {
namespace {

template <class Part>
std::string JoinParts(std::span<const Part> parts, std::string_view separator) {
  std::string out;
  for (const Part& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::string Format(double value, std::chars_format format, int precision) {
  std::array<char, 400> buffer;  // 1e308 in fixed notation fits
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), result.ptr};
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  return JoinParts(parts, separator);
}

std::string Join(std::span<const std::string_view> parts, std::string_view separator) {
  return JoinParts(parts, separator);
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Fixed(double value, int digits) {
  return Format(value, std::chars_format::fixed, digits);
}

std::string Compact(double value) {
  const double size = std::fabs(value);
  if (size >= 1e9 || (size < 1e-4 && size > 0))
    return Format(value, std::chars_format::scientific, 3);
  if (size >= 1000) return Fixed(value, 0);
  if (size >= 100) return Fixed(value, 1);
  if (size >= 10) return Fixed(value, 2);
  if (size >= 1) return Fixed(value, 3);
  return Fixed(value, 4);
}

int EditDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment: three rows of the table are alive at a time.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string_view> Nearest(std::string_view name,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> nearest;
  int best = 0;
  for (const std::string_view candidate : candidates) {
    // What begins as the candidate does, or the other way round, is near whatever is missing.
    const bool prefix =
        name.size() >= 3 && (candidate.starts_with(name) || name.starts_with(candidate));
    const int distance = prefix ? 1 : EditDistance(name, candidate);
    const int enough =
        std::max(1, static_cast<int>(std::min(name.size(), candidate.size())) * 2 / 5);
    if (distance > enough || (nearest.has_value() && distance >= best)) continue;
    nearest = candidate;
    best = distance;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  if (const auto nearest = Nearest(name, candidates); nearest.has_value()) {
    return Cat("; did you mean '", *nearest, "'?");
  }
  if (candidates.empty()) return "; there is none";
  return Cat("; known are ", Join(candidates, ", "));
}

}  // namespace schedtwin
