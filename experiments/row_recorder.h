// RowRecorder: the recorder of `--record requests`, `steps` and `full`: a SummaryRecorder, and
// besides every record kept for the results file. With a writer, full batches go to the file during
// the run; without one, all stays in memory (a sweep's worker). Called from the policy thread of
// one run; an error of the file is kept and told by Flush, for Recorder has no way to report it.
#ifndef SCHEDTWIN_EXPERIMENTS_ROW_RECORDER_H_
#define SCHEDTWIN_EXPERIMENTS_ROW_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "experiments/store/row_writer.h"
#include "experiments/summary_recorder.h"
#include "policies/api/recorder.h"

namespace schedtwin {

/// What of a run is kept; each level has all of those before it.
enum class RecordLevel : std::uint8_t {
  kSummary,   ///< the figures alone
  kRequests,  ///< and one row per request
  kSteps,     ///< and one row per step and operation
  kFull,      ///< and the log of events, decisions and answers
};

class RowRecorder final : public Recorder {
 public:
  /// Many enough that a transaction's cost is spread, few enough that they stay a few megabytes.
  static constexpr std::size_t kBatchRows = 32'768;

  /// `writer` may be null; otherwise it must outlive this. `real`: see SummaryRecorder.
  RowRecorder(RecordLevel level, const Slo& slo, std::size_t expected_requests, RowWriter* writer,
              bool real = false);

  RecordWants wants() const {
    return {.steps = level_ >= RecordLevel::kSteps, .log = level_ >= RecordLevel::kFull};
  }

  void OnRequest(const RequestRecord& record) override {
    summary_.OnRequest(record);
    if (level_ < RecordLevel::kRequests) return;
    rows_.requests.push_back(record);
    Added();
  }
  void OnStep(const StepRecord& record) override {
    summary_.OnStep(record);
    rows_.steps.push_back(record);
    Added();
  }
  void OnOperation(const OperationRecord& record) override {
    summary_.OnOperation(record);
    if (level_ < RecordLevel::kSteps) return;
    rows_.operations.push_back(record);
    Added();
  }
  void OnLog(const LogRecord& record) override {
    rows_.log.push_back(record);
    Added();
  }
  void OnNote(Time time, std::string_view text) override;

  /// Writes what is left. Returns the first error of any batch. REQUIRES: there is a writer.
  absl::Status Flush();

  SummaryRecorder& summary() { return summary_; }
  /// What was kept, for someone else to write. REQUIRES: there is no writer.
  RowBuffer TakeRows() { return std::move(rows_); }
  /// Time spent writing batches so far, to be taken off the loop's wall time.
  std::int64_t write_ns() const { return write_ns_; }

 private:
  void Added() {
    if (++batch_ == kBatchRows && writer_ != nullptr) WriteBatch();
  }
  void WriteBatch();

  RecordLevel level_;
  SummaryRecorder summary_;
  RowWriter* writer_;
  RowBuffer rows_;
  std::size_t batch_ = 0;
  std::int64_t write_ns_ = 0;
  absl::Status status_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_ROW_RECORDER_H_
