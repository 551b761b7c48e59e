#include "experiments/row_recorder.h"

#include <chrono>
#include <string>

namespace schedtwin {

RowRecorder::RowRecorder(RecordLevel level, const Slo& slo, std::size_t expected_requests,
                         RowWriter* writer, bool real)
    : level_(level), summary_(slo, expected_requests, real), writer_(writer) {
  if (real) {  // room that costs nothing until it is used: growing takes time that a clock would
               // see
    if (level_ >= RecordLevel::kSteps) rows_.steps.reserve(kBatchRows * 8);
    if (level_ >= RecordLevel::kFull) rows_.log.reserve(kBatchRows * 32);
  }
  if (level_ >= RecordLevel::kRequests) {
    rows_.requests.reserve(writer_ == nullptr ? expected_requests
                                              : std::min(expected_requests, kBatchRows));
  }
}

void RowRecorder::OnNote(Time time, std::string_view text) {
  if (level_ < RecordLevel::kFull) return;
  rows_.notes.push_back({time, std::string(text)});
  Added();
}

void RowRecorder::WriteBatch() {
  const auto start = std::chrono::steady_clock::now();
  if (status_.ok()) status_ = writer_->Write(rows_);
  rows_.Clear();
  batch_ = 0;
  write_ns_ += (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
}

absl::Status RowRecorder::Flush() {
  if (rows_.size() > 0) WriteBatch();
  return status_;
}

}  // namespace schedtwin
