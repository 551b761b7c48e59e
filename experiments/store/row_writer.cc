#include "experiments/store/row_writer.h"

#include <optional>

namespace schedtwin {
namespace {

std::optional<std::int64_t> Nanos(Time time) {
  return time.infinite() ? std::nullopt : std::optional<std::int64_t>(time.ns());
}

std::optional<std::int64_t> Measured(std::int64_t ns) {
  return ns < 0 ? std::nullopt : std::optional<std::int64_t>(ns);
}

template <class Id>
std::optional<std::int64_t> Known(Id id) {
  return id.valid() ? std::optional<std::int64_t>(id.value) : std::nullopt;
}

// SQLite's integers are signed; the bits stay the same.
std::int64_t Bits(std::uint64_t word) { return static_cast<std::int64_t>(word); }

}  // namespace

void RowBuffer::Clear() {
  requests.clear();
  steps.clear();
  operations.clear();
  log.clear();
  notes.clear();
}

absl::StatusOr<RowWriter> RowWriter::Create(Database& database, std::int64_t run) {
  RowWriter writer;
  writer.database_ = &database;
  writer.run_ = run;
  const struct {
    Statement* statement;
    const char* sql;
  } statements[] = {
      {&writer.request_,
       "INSERT INTO requests VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
       "?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"},
      {&writer.step_,
       "INSERT INTO steps VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
       "?13, ?14, ?15, ?16)"},
      {&writer.operation_,
       "INSERT INTO operations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"},
      {&writer.log_, "INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
      {&writer.note_, "INSERT INTO notes VALUES (?1, ?2, ?3, ?4)"},
  };
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<Statement> prepared = database.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
    statement->Bind(1, run);  // for good: bindings outlive Reset
  }
  return writer;
}

absl::Status RowWriter::Write(const RowBuffer& rows) {
  absl::StatusOr<Transaction> transaction = Transaction::Begin(*database_);
  if (!transaction.ok()) return transaction.status();
  for (const RequestRecord& record : rows.requests) {
    const absl::Status status = WriteRequest(record);
    if (!status.ok()) return status;
  }
  for (const StepRecord& record : rows.steps) {
    const absl::Status status = WriteStep(record);
    if (!status.ok()) return status;
  }
  for (const OperationRecord& record : rows.operations) {
    const absl::Status status = WriteOperation(record);
    if (!status.ok()) return status;
  }
  for (const LogRecord& record : rows.log) {
    const absl::Status status = WriteLog(record);
    if (!status.ok()) return status;
  }
  for (const NoteRecord& record : rows.notes) {
    const absl::Status status = WriteNote(record);
    if (!status.ok()) return status;
  }
  return transaction->Commit();
}

absl::Status RowWriter::WriteRequest(const RequestRecord& r) {
  request_.Bind(2, std::int64_t{r.id.value})
      .Bind(3, static_cast<std::int64_t>(r.reason))
      .Bind(4, Known(r.device))
      .Bind(5, std::int64_t{r.prompt_tokens})
      .Bind(6, std::int64_t{r.output_tokens})
      .Bind(7, std::int64_t{r.units})
      .Bind(8, std::int64_t{r.tenant})
      .Bind(9, std::int64_t{r.request_class})
      .Bind(10, std::int64_t{r.priority})
      .Bind(11, std::int64_t{r.preemptions})
      .Bind(12, std::int64_t{r.recomputed_tokens})
      .Bind(13, r.arrival.ns())
      .Bind(14, Nanos(r.admitted))
      .Bind(15, Nanos(r.first_start))
      .Bind(16, Nanos(r.first_token))
      .Bind(17, Nanos(r.last_token))
      .Bind(18, r.end.ns())
      .Bind(19, std::int64_t{r.cached_tokens});
  return request_.Run();
}

absl::Status RowWriter::WriteStep(const StepRecord& s) {
  step_.Bind(2, steps_++)
      .Bind(3, std::int64_t{s.device.value})
      .Bind(4, Bits(s.plan.word()))
      .Bind(5, std::int64_t{s.step})
      .Bind(6, s.start.ns())
      .Bind(7, s.end.ns())
      .Bind(8, std::int64_t{s.decode_tokens})
      .Bind(9, std::int64_t{s.prefill_tokens})
      .Bind(10, std::int64_t{s.prefill_requests})
      .Bind(11, std::int64_t{s.units})
      .Bind(12, Bits(s.decode_context_tokens))
      .Bind(13, std::int64_t{s.free_blocks})
      .Bind(14, Measured(s.predicted_ns))
      .Bind(15, Measured(s.compute_ns))
      .Bind(16, Measured(s.decision_ns));
  return step_.Run();
}

absl::Status RowWriter::WriteOperation(const OperationRecord& o) {
  operation_.Bind(2, operations_++)
      .Bind(3, std::int64_t{o.kind})
      .Bind(4, Bits(o.id.word()))
      .Bind(5, Known(o.request))
      .Bind(6, Known(o.model))
      .Bind(7, Known(o.from))
      .Bind(8, Known(o.to))
      .Bind(9, Bits(o.bytes))
      .Bind(10, std::int64_t{o.ok})
      .Bind(11, o.asked.ns())
      .Bind(12, o.start.ns())
      .Bind(13, o.end.ns());
  return operation_.Run();
}

absl::Status RowWriter::WriteLog(const LogRecord& l) {
  log_.Bind(2, Bits(l.sequence))
      .Bind(3, l.time.ns())
      .Bind(4, std::int64_t{l.kind})
      .Bind(5, std::int64_t{l.code})
      .Bind(6, Bits(l.a))
      .Bind(7, Bits(l.b))
      .Bind(8, Bits(l.c));
  return log_.Run();
}

absl::Status RowWriter::WriteNote(const NoteRecord& n) {
  note_.Bind(2, notes_++).Bind(3, n.time.ns()).Bind(4, std::string_view(n.text));
  return note_.Run();
}

}  // namespace schedtwin
