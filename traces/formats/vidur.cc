// Vidur's request traces (microsoft/vidur at 7d47513, data/processed_traces):
//
//   arrived_at,num_prefill_tokens,num_decode_tokens
//   4.314579,396,109
//
// Seconds from the start.
#include "traces/formats/csv.h"
#include "traces/formats/formats.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

bool Detect(std::string_view head) {
  return HeaderHas(head, {"arrived_at", "num_prefill_tokens", "num_decode_tokens"});
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  CsvTable table(text);
  const absl::Status header =
      table.Open("vidur", {"arrived_at", "num_prefill_tokens", "num_decode_tokens"});
  if (!header.ok()) return header;
  while (table.Next()) {
    TraceRow row;
    ExactTime at;
    if (const absl::Status read = ReadSeconds(table, 0, &at); !read.ok()) return read;
    row.arrival_ns = at.ns;
    if (const absl::Status read = ReadLengths(table, 1, 2, &row); !read.ok()) return read;
    if (!CountLengths(row, out)) continue;
    if (!at.exact) out->Flag(kTimeRounded);
    out->Add(row);
  }
  return table.status();
}

}  // namespace

const TraceFormat kVidur = {
    .name = "vidur",
    .summary = "Vidur's request traces, CSV (microsoft/vidur)",
    .begins = "arrived_at,num_prefill_tokens,num_decode_tokens",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
