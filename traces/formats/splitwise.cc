// Traces of splitwise-sim (Mutinifni/splitwise-sim at 8f99e7d):
//
//   request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
//   0,2,0,1,1,4096,32
//
// Seconds from the start; one application is one tenant, one type one class. A row is one request:
// one with another batch size is dropped, since what it stood for is not said.
#include "traces/formats/csv.h"
#include "traces/formats/formats.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

constexpr std::string_view kHeader =
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size";

bool Detect(std::string_view head) {
  return HeaderHas(head, {"request_id", "request_type", "application_id", "arrival_timestamp",
                          "batch_size", "prompt_size", "token_size"});
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 1;
  CsvTable table(text);
  const absl::Status header =
      table.Open("splitwise", {"request_id", "request_type", "application_id", "arrival_timestamp",
                               "batch_size", "prompt_size", "token_size"});
  if (!header.ok()) return header;
  while (table.Next()) {
    TraceRow row;
    ExactTime at;
    if (const absl::Status read = ReadSeconds(table, 3, &at); !read.ok()) return read;
    row.arrival_ns = at.ns;
    std::uint64_t id = 0, batch = 0;
    absl::Status status = table.Whole(0, kMost, &id);
    if (status.ok()) status = table.Whole(4, kMost, &batch);
    if (status.ok()) status = ReadLengths(table, 5, 6, &row);
    if (!status.ok()) return status;
    if (batch != 1) {
      out->Drop("batch_size_not_1");
      continue;
    }
    if (!CountLengths(row, out)) continue;
    if (!at.exact) out->Flag(kTimeRounded);
    const TraceDetails details = {
        .tenant = table.field(2), .request_class = table.field(1), .key = id};
    if (!out->Add(row, details)) {
      return table.Mistake(0, ", as in a row before; mend or remove one of them");
    }
  }
  return table.status();
}

}  // namespace

const TraceFormat kSplitwise = {
    .name = "splitwise",
    .summary = "Traces of splitwise-sim, CSV (Mutinifni/splitwise-sim)",
    .begins = kHeader,
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
