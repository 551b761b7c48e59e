// RowWriter: writes records as rows of one open run, a batch in one transaction, through statements
// prepared once. RowBuffer: the records of a run, kept until they are written. RowRecorder fills a
// buffer during a run and hands it to a writer whenever it is full; a sweep's workers have no
// writer, and the publisher writes their buffers. One thread at a time; the store must outlive its
// writer.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_ROW_WRITER_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_ROW_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/store/sqlite.h"
#include "policies/api/recorder.h"

namespace schedtwin {

struct NoteRecord {
  Time time;
  std::string text;
};

/// Records in the order in which they came.
struct RowBuffer {
  std::vector<RequestRecord> requests;
  std::vector<StepRecord> steps;
  std::vector<OperationRecord> operations;
  std::vector<LogRecord> log;
  std::vector<NoteRecord> notes;

  std::size_t size() const {
    return requests.size() + steps.size() + operations.size() + log.size() + notes.size();
  }
  void Clear();
};

class RowWriter {
 public:
  static absl::StatusOr<RowWriter> Create(Database& database, std::int64_t run);

  /// Writes all rows of `rows` in one transaction.
  absl::Status Write(const RowBuffer& rows);

 private:
  RowWriter() = default;
  absl::Status WriteRequest(const RequestRecord& record);
  absl::Status WriteStep(const StepRecord& record);
  absl::Status WriteOperation(const OperationRecord& record);
  absl::Status WriteLog(const LogRecord& record);
  absl::Status WriteNote(const NoteRecord& record);

  Database* database_ = nullptr;
  std::int64_t run_ = 0;
  std::int64_t steps_ = 0, operations_ = 0, notes_ = 0;  ///< sequence numbers of the next rows
  Statement request_, step_, operation_, log_, note_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_ROW_WRITER_H_
