// What formats that count tokens share: how fields become a row, and what becomes of rows without
// a prompt or an output.
#ifndef SCHEDTWIN_TRACES_FORMATS_ROW_FIELDS_H_
#define SCHEDTWIN_TRACES_FORMATS_ROW_FIELDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "traces/builder.h"
#include "traces/formats/csv.h"
#include "traces/formats/hashed_blocks.h"
#include "traces/formats/json_lines.h"
#include "traces/formats/number.h"

namespace schedtwin {

inline constexpr std::uint64_t kMostTokens = 1'000'000'000;
/// Flag of a row whose stamp has digits below the nanosecond.
inline constexpr std::string_view kTimeRounded = "time_rounded_to_ns";

inline absl::Status ReadLengths(const CsvTable& table, std::size_t prompt_column,
                                std::size_t output_column, TraceRow* row) {
  std::uint64_t prompt = 0, output = 0;
  absl::Status status = table.Whole(prompt_column, kMostTokens, &prompt);
  if (status.ok()) status = table.Whole(output_column, kMostTokens, &output);
  row->prompt_tokens = static_cast<std::uint32_t>(prompt);
  row->output_tokens = static_cast<std::uint32_t>(output);
  return status;
}

inline absl::Status ReadLengths(const JsonLines& lines, std::string_view prompt_key,
                                std::string_view output_key, TraceRow* row) {
  std::uint64_t prompt = 0, output = 0;
  absl::Status status = lines.Whole(prompt_key, kMostTokens, &prompt);
  if (status.ok()) status = lines.Whole(output_key, kMostTokens, &output);
  row->prompt_tokens = static_cast<std::uint32_t>(prompt);
  row->output_tokens = static_cast<std::uint32_t>(output);
  return status;
}

/// A time in units of 10^unit_digits ns.
inline absl::Status ReadTime(const JsonLines& lines, std::string_view key, int unit_digits,
                             std::string_view unit, ExactTime* out) {
  std::string_view digits;
  if (const absl::Status read = lines.Number(key, &digits); !read.ok()) return read;
  if (ParseTime(digits, unit_digits, out)) return absl::OkStatus();
  return lines.Mistake(key, "; expected " + std::string(unit) + " from 0 up; mend the line");
}

inline absl::Status ReadSeconds(const CsvTable& table, std::size_t column, ExactTime* out) {
  if (ParseTime(table.field(column), 9, out)) return absl::OkStatus();
  return table.Mistake(column, "; expected seconds, such as '5' or '4.314579'; mend the row");
}

/// The numbers of a prompt's blocks, as many as it has.
inline absl::Status ReadBlocks(const JsonLines& lines, const HashedBlocks& blocks,
                               std::uint32_t prompt_tokens, std::span<const std::uint64_t>* out) {
  if (const absl::Status read = lines.Wholes("hash_ids", out); !read.ok()) return read;
  if (out->size() == blocks.BlocksOf(prompt_tokens)) return absl::OkStatus();
  return lines.Mistake("hash_ids", "; expected " + std::to_string(blocks.BlocksOf(prompt_tokens)) +
                                       ", one for each " + std::to_string(blocks.block_tokens()) +
                                       " tokens of input_length; mend or remove the line");
}

/// True if the row can be run; else it is counted as dropped, by reason.
inline bool CountLengths(const TraceRow& row, TraceBuilder* out) {
  if (row.prompt_tokens > 0 && row.output_tokens > 0) return true;
  out->Drop(row.prompt_tokens == 0 ? "zero_prompt_tokens" : "zero_output_tokens");
  return false;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_ROW_FIELDS_H_
