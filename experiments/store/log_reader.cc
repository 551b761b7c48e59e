#include "experiments/store/log_reader.h"

#include "experiments/text.h"

namespace schedtwin {
namespace {

// As RowWriter stores them.
std::uint64_t Word(std::int64_t bits) { return static_cast<std::uint64_t>(bits); }

bool IsByte(std::int64_t value) { return value >= 0 && value <= 255; }

}  // namespace

absl::StatusOr<LogReader> LogReader::Create(Database& database, std::int64_t run) {
  absl::StatusOr<Statement> rows = database.Prepare(
      "SELECT sequence, time_ns, kind, code, a, b, c FROM log WHERE run_id = ?1 ORDER BY sequence");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, run);
  return LogReader(*std::move(rows), run);
}

bool LogReader::Next(LogRecord* out) {
  if (ended_) return false;
  const absl::StatusOr<bool> row = rows_.Step();
  ended_ = !row.ok() || !*row;
  if (!row.ok()) status_ = row.status();
  if (ended_) return false;
  if (rows_.integer(0) != lines_ || !IsByte(rows_.integer(2)) || !IsByte(rows_.integer(3))) {
    status_ = absl::DataLossError(
        Cat("the log of run ", run_, " is damaged: line ", lines_, " is missing or is no line"));
    ended_ = true;
    return false;
  }
  ++lines_;
  out->sequence = Word(rows_.integer(0));
  out->time = Time::Nanos(rows_.integer(1));
  out->kind = static_cast<std::uint8_t>(rows_.integer(2));
  out->code = static_cast<std::uint8_t>(rows_.integer(3));
  out->a = Word(rows_.integer(4));
  out->b = Word(rows_.integer(5));
  out->c = Word(rows_.integer(6));
  return true;
}

}  // namespace schedtwin
