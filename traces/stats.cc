#include "traces/stats.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace schedtwin {
namespace {

LengthStats ComputeLengths(std::span<const TraceRow> rows, std::uint32_t TraceRow::*field) {
  std::vector<std::uint32_t> sorted;
  sorted.reserve(rows.size());
  double sum = 0;
  for (const TraceRow& row : rows) {
    sorted.push_back(row.*field);
    sum += row.*field;  // exact: integers far below 2^53
  }
  std::sort(sorted.begin(), sorted.end());
  LengthStats stats;
  stats.mean = sum / static_cast<double>(rows.size());
  stats.p50 = Percentile(sorted, 50);
  stats.p99 = Percentile(sorted, 99);
  stats.min = sorted.front();
  stats.max = sorted.back();
  return stats;
}

double GapCv(std::span<const TraceRow> rows, double mean_ns) {
  double squares = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double gap = static_cast<double>(rows[i].arrival_ns - rows[i - 1].arrival_ns);
    squares += (gap - mean_ns) * (gap - mean_ns);
  }
  return std::sqrt(squares / static_cast<double>(rows.size() - 1)) / mean_ns;
}

std::optional<double> ComputeDispersion(std::span<const TraceRow> rows, Duration window) {
  const std::int64_t windows = rows.back().arrival_ns / window.ns();
  if (windows < 2) return std::nullopt;
  double sum = 0;
  double squares = 0;
  std::size_t i = 0;
  for (std::int64_t w = 1; w <= windows; ++w) {
    const std::size_t begin = i;
    while (i < rows.size() && rows[i].arrival_ns < w * window.ns()) ++i;
    const auto count = static_cast<double>(i - begin);
    sum += count;
    squares += count * count;
  }
  const double mean = sum / static_cast<double>(windows);
  return (squares / static_cast<double>(windows) - mean * mean) / mean;
}

}  // namespace

double Percentile(std::span<const std::uint32_t> sorted, double p) {
  const double position = static_cast<double>(sorted.size() - 1) * p / 100;
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double low = sorted[below];
  return low + (static_cast<double>(sorted[above]) - low) * (position - static_cast<double>(below));
}

TraceStats ComputeTraceStats(std::span<const TraceRow> rows) {
  TraceStats stats;
  stats.rows = rows.size();
  if (rows.empty()) return stats;
  stats.duration = Duration::Nanos(rows.back().arrival_ns - rows.front().arrival_ns);
  if (stats.duration > Duration()) {
    const double mean_ns =
        static_cast<double>(stats.duration.ns()) / static_cast<double>(rows.size() - 1);
    stats.rate_rps = 1e9 / mean_ns;
    stats.gap_cv = GapCv(rows, mean_ns);
  }
  stats.prompt_tokens = ComputeLengths(rows, &TraceRow::prompt_tokens);
  stats.output_tokens = ComputeLengths(rows, &TraceRow::output_tokens);
  stats.units = ComputeLengths(rows, &TraceRow::units);
  for (const std::int64_t seconds : {1, 10, 60}) {
    const Duration window = Duration::Seconds(seconds);
    stats.dispersion.push_back({window, ComputeDispersion(rows, window)});
  }
  return stats;
}

namespace {

/// How many tokens at the beginning of the prompt were seen before; they all are from now on.
std::uint64_t SeenTokens(const RequestSpec& request, std::unordered_set<std::uint64_t>* seen) {
  std::uint64_t name = 0, tokens = 0;
  std::uint32_t left = request.prompt_tokens;
  bool known = true;
  for (const ContentSegment& segment : request.content) {
    if (left == 0 || segment.id == 0) break;
    name = (name ^ segment.id) * 0x9e3779b97f4a7c15ull;
    name ^= name >> 31;
    known = !seen->insert(name).second && known;
    const std::uint32_t length = std::min(segment.tokens, left);
    if (known) tokens += length;
    left -= length;
  }
  return tokens;
}

}  // namespace

TextStats ComputeTextStats(RequestSource* source) {
  TextStats stats;
  std::unordered_set<std::uint64_t> sessions, seen;
  std::uint64_t prompt_tokens = 0, hit_tokens = 0;
  bool named = false;
  RequestSpec request;
  while (source->Next(&request) == Pull::kRequest) {
    if (request.session != 0) sessions.insert(request.session);
    stats.continued += request.parent != RequestSpec::kNoParent;
    named = named || !request.content.empty();
    prompt_tokens += request.prompt_tokens;
    hit_tokens += SeenTokens(request, &seen);
  }
  stats.sessions = sessions.size();
  if (named && prompt_tokens > 0) {
    stats.prefix_hit_ideal = static_cast<double>(hit_tokens) / static_cast<double>(prompt_tokens);
  }
  return stats;
}

}  // namespace schedtwin
