#include "experiments/summary_recorder.h"

namespace schedtwin {

SummaryRecorder::SummaryRecorder(const Slo& slo, std::size_t expected_requests, bool real)
    : slo_(slo), real_(real) {
  counts_.has_slo = slo.any();
  end_ns_.reserve(expected_requests);
  e2e_ns_.reserve(expected_requests);
  ttft_ns_.reserve(expected_requests);
  tpot_ns_.reserve(expected_requests);
  if (real) decision_ns_.reserve(std::size_t{1} << 18);  // costs nothing until it is used
}

void SummaryRecorder::AddUnserved(EndReason reason) {
  switch (reason) {
    case EndReason::kRejected:
      ++counts_.rejected;
      break;
    case EndReason::kTimedOut:
      ++counts_.timed_out;
      break;
    case EndReason::kCancelled:
      ++counts_.cancelled;
      break;
    default:
      ++counts_.failed;
      break;
  }
}

RunMetrics SummaryRecorder::Metrics(Time first_arrival) {
  constexpr double kMsPerNs = 1e-6;
  RunMetrics out = counts_;
  out.first_arrival = std::min(out.first_arrival, first_arrival);
  out.ttft_ms = Summarize(std::span<std::int64_t>(ttft_ns_), kMsPerNs);
  out.tpot_ms = Summarize(std::span<double>(tpot_ns_), kMsPerNs);
  out.e2e_ms = Summarize(std::span<std::int64_t>(e2e_ns_), kMsPerNs);
  out.lateness_ms = Summarize(std::span<std::int64_t>(lateness_ns_), kMsPerNs);
  out.decision_us = Summarize(std::span<std::int64_t>(decision_ns_), 1e-3);
  if (!out.first_arrival.infinite()) {
    out.throughput_rps = SummarizeThroughput(end_ns_, out.first_arrival, out.makespan());
  }
  return out;
}

}  // namespace schedtwin
