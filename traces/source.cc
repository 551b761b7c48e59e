#include "traces/source.h"

#include <algorithm>

#include "absl/status/status.h"

namespace schedtwin {
namespace {

absl::Status CheckLengths(const Trace& trace, const Ratio& scale) {
  if (scale.is_one()) return absl::OkStatus();
  std::uint32_t longest = 0;
  for (const TraceRow& row : trace.rows) {
    longest = std::max({longest, row.prompt_tokens, row.output_tokens});
  }
  const double scaled = static_cast<double>(longest) * scale.value();
  if (scaled < static_cast<double>(std::numeric_limits<std::uint32_t>::max() - 1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("length scale " + ToString(scale) +
                                    " makes the longest request of " + trace.provenance.source +
                                    " (" + std::to_string(longest) +
                                    " tokens) longer than 32 bits hold; use a smaller scale");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> TraceSource::Create(
    std::shared_ptr<const Trace> trace, const TraceSourceOptions& options) {
  const std::string& name = trace->provenance.source;
  if (trace->rows.empty()) {
    return absl::InvalidArgumentError("trace " + name + " holds no request");
  }
  if (options.limit == 0) {
    return absl::InvalidArgumentError("limit 0 leaves no request of " + name + "; use 1 or more");
  }
  if (options.duration <= Duration()) {
    return absl::InvalidArgumentError("duration " + std::to_string(options.duration.ns()) +
                                      "ns leaves no request of " + name + "; use 1ns or more");
  }
  const ExactScale time(options.rate_scale.denominator, options.rate_scale.numerator);
  if (!time.Fits(trace->rows.back().arrival_ns) && options.rate_scale.is_one()) {
    return absl::InvalidArgumentError("trace " + name +
                                      " is longer than 73 years; send it faster with a rate scale");
  }
  if (!time.Fits(trace->rows.back().arrival_ns)) {
    return absl::InvalidArgumentError("rate scale " + ToString(options.rate_scale) + " stretches " +
                                      name + " beyond 73 years; use a larger scale");
  }
  if (const absl::Status status = CheckLengths(*trace, options.length_scale); !status.ok()) {
    return status;
  }
  return std::unique_ptr<TraceSource>(new TraceSource(std::move(trace), options));
}

TraceSource::TraceSource(std::shared_ptr<const Trace> trace, const TraceSourceOptions& options)
    : trace_(std::move(trace)),
      options_(options),
      time_(options.rate_scale.denominator, options.rate_scale.numerator),
      length_(options.length_scale.numerator, options.length_scale.denominator),
      as_units_(options.as_units),
      has_details_(!trace_->sessions.empty() || !trace_->parents.empty() ||
                   !trace_->classes.empty() || !trace_->tenants.empty() || !trace_->texts.empty()),
      begin_(trace_->rows.data()),
      next_(begin_) {
  end_ = begin_ + std::min<std::uint64_t>(options.limit, trace_->rows.size());
  if (options.duration != Duration::Infinite()) {  // scaling keeps the order, so one search will do
    end_ = std::partition_point(begin_, end_, [&](const TraceRow& row) {
      return time_.Floor(row.arrival_ns) < options.duration.ns();
    });
  }
}

void TraceSource::AddDetails(RequestSpec* out) const {
  const auto row = static_cast<std::size_t>(next_ - begin_) - 1;
  if (!trace_->sessions.empty()) out->session = trace_->sessions[row];
  if (!trace_->parents.empty()) out->parent = trace_->parents[row];
  if (!trace_->classes.empty()) out->request_class = trace_->classes[row];
  if (!trace_->tenants.empty()) out->tenant = trace_->tenants[row];
  if (!as_units_) out->content = trace_->texts.of(row);
}

std::vector<std::string> TraceSource::transforms() const {
  std::vector<std::string> list = trace_->provenance.transforms;
  if (!time_.is_one()) list.push_back("rate_scale=" + ToString(options_.rate_scale));
  if (!length_.is_one()) list.push_back("length_scale=" + ToString(options_.length_scale));
  if (options_.limit != TraceSourceOptions::kNoLimit) {
    list.push_back("limit=" + std::to_string(options_.limit));
  }
  if (options_.duration != Duration::Infinite()) {
    list.push_back("duration=" + std::to_string(options_.duration.ns()) + "ns");
  }
  if (options_.deadline != Duration::Infinite()) {
    list.push_back("deadline=" + std::to_string(options_.deadline.ns()) + "ns");
  }
  if (options_.patience != Duration::Infinite()) {
    list.push_back("patience=" + std::to_string(options_.patience.ns()) + "ns");
  }
  if (as_units_) list.emplace_back("as_units");
  return list;
}

std::vector<TraceRow> TraceSource::Rows() const {
  std::vector<TraceRow> rows;
  rows.reserve(size());
  for (const TraceRow* row = begin_; row != end_; ++row) {
    const RequestSpec spec = Transform(*row);
    rows.push_back({spec.arrival.ns(), spec.prompt_tokens, spec.output_tokens, spec.units});
  }
  return rows;
}

}  // namespace schedtwin
