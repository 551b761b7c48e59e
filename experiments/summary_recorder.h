// SummaryRecorder: keeps of each request the three latencies and the time of its end, of each step
// told what its decision took, and counts the rest: enough for every figure of RunMetrics, at 32
// bytes a request. Used by every run, alone
// with `--record summary` and inside RowRecorder otherwise. Called from the policy thread of one
// run; owns what it keeps. Allocates only when its arrays grow.
#ifndef SCHEDTWIN_EXPERIMENTS_SUMMARY_RECORDER_H_
#define SCHEDTWIN_EXPERIMENTS_SUMMARY_RECORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/metrics.h"
#include "experiments/slo.h"
#include "policies/api/recorder.h"

namespace schedtwin {

class SummaryRecorder final : public Recorder {
 public:
  /// `expected_requests` only sizes the arrays beforehand. Of a real run the lateness of arrivals
  /// is kept, too.
  explicit SummaryRecorder(const Slo& slo, std::size_t expected_requests = 0, bool real = false);

  void OnRequest(const RequestRecord& record) override {
    counts_.first_arrival = std::min(counts_.first_arrival, record.arrival);
    counts_.last_end = std::max(counts_.last_end, record.end);
    counts_.output_tokens += record.output_tokens;
    counts_.preemptions += record.preemptions;
    counts_.recomputed_tokens += record.recomputed_tokens;
    counts_.prompt_tokens += record.prompt_tokens;
    counts_.cached_tokens += record.cached_tokens;
    if (record.reason == EndReason::kCompleted || record.reason == EndReason::kCached) {
      AddCompleted(record);
    } else {
      AddUnserved(record.reason);
    }
  }
  void OnStep(const StepRecord& record) override {
    if (record.decision_ns >= 0) decision_ns_.push_back(record.decision_ns);
  }
  void OnOperation(const OperationRecord& record) override {
    OperationCount& count = counts_.operations[record.kind];
    ++(record.ok ? count.done : count.undone);
    if (record.ok) count.bytes += static_cast<std::int64_t>(record.bytes);
  }
  void OnLog(const LogRecord&) override {}
  void OnNote(Time, std::string_view) override {}

  /// The figures of what was recorded so far. `first_arrival` is the run's first scheduled arrival
  /// where that is known: a request that never ended was not recorded. Reorders the arrays, which
  /// loses nothing.
  RunMetrics Metrics(Time first_arrival = Time::Infinite());

 private:
  void AddCompleted(const RequestRecord& record) {
    ++counts_.completed;
    if (record.reason == EndReason::kCached) ++counts_.cached;
    if (slo_.any() && slo_.Met(record)) ++counts_.good;
    end_ns_.push_back(record.end.ns());
    e2e_ns_.push_back((record.end - record.arrival).ns());
    if (real_) lateness_ns_.push_back((record.admitted - record.arrival).ns());
    if (record.output_tokens == 0) return;
    ttft_ns_.push_back((record.first_token - record.arrival).ns());
    if (record.output_tokens == 1) return;
    tpot_ns_.push_back(static_cast<double>((record.last_token - record.first_token).ns()) /
                       static_cast<double>(record.output_tokens - 1));
  }
  void AddUnserved(EndReason reason);

  Slo slo_;
  bool real_;
  RunMetrics counts_;  ///< its distributions are filled by Metrics
  std::vector<std::int64_t> end_ns_, e2e_ns_, ttft_ns_, lateness_ns_, decision_ns_;
  std::vector<double> tpot_ns_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_SUMMARY_RECORDER_H_
