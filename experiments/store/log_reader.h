// LogReader: the log of a published run, line by line in order, straight from the results file: a
// log of any length costs no memory. The store must outlive it; one thread. An error ends the log
// and is told by status(), for a RecordedLog has no way to report it.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_LOG_READER_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_LOG_READER_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/store/sqlite.h"
#include "sim/replay.h"

namespace schedtwin {

class LogReader final : public RecordedLog {
 public:
  static absl::StatusOr<LogReader> Create(Database& database, std::int64_t run);

  bool Next(LogRecord* out) override;
  /// The first error: of the file, or of rows that no run can have written.
  const absl::Status& status() const { return status_; }

 private:
  LogReader(Statement rows, std::int64_t run) : rows_(std::move(rows)), run_(run) {}

  Statement rows_;
  std::int64_t run_;
  std::int64_t lines_ = 0;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_LOG_READER_H_
