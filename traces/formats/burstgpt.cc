// BurstGPT (HPMLL/BurstGPT; Wang et al., KDD'25), files 1 and 2, and file 3 with sessions:
//
//   Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
//   Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
//
// Read by the columns' names. Stamps are seconds, whole or with a fraction, from any origin. A row
// whose response is empty failed there: it is kept, with one token to make, and flagged "failed";
// so is each row of the API, which has no session. The model is the row's class. Requests that
// share a stamp came within the same second, not at one instant.
#include <string>

#include "traces/formats/csv.h"
#include "traces/formats/formats.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

bool Detect(std::string_view head) {
  return HeaderHas(head, {"Timestamp", "Model", "Request tokens", "Response tokens", "Log Type"});
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  CsvTable table(text);
  const absl::Status header = table.Open(
      "burstgpt", {"Timestamp", "Model", "Request tokens", "Response tokens", "Log Type"});
  if (!header.ok()) return header;
  std::size_t session = 0;
  const bool has_sessions = table.Find("Session ID", &session);
  while (table.Next()) {
    TraceRow row;
    ExactTime at;
    if (const absl::Status read = ReadSeconds(table, 0, &at); !read.ok()) return read;
    row.arrival_ns = at.ns;
    if (const absl::Status read = ReadLengths(table, 2, 3, &row); !read.ok()) return read;
    if (row.prompt_tokens == 0) {
      out->Drop("zero_prompt_tokens");
      continue;
    }
    if (!at.exact) out->Flag(kTimeRounded);
    if (row.output_tokens == 0) {
      row.output_tokens = 1;
      out->Flag("failed");
    }
    if (table.field(4) == "API log") out->Flag("api");
    out->Add(row, {.session = has_sessions ? table.field(session) : std::string_view(),
                   .request_class = table.field(1)});
  }
  return table.status();
}

}  // namespace

const TraceFormat kBurstGpt = {
    .name = "burstgpt",
    .summary = "BurstGPT 1, 2 and 3, CSV (HPMLL/BurstGPT)",
    .begins = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
