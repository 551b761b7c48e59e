// The Azure LMM (multimodal) inference trace of 2025 (Azure/AzurePublicDataset; Qiu et al.,
// "ModServe", 2025):
//
//   TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
//   2024-10-15T12:00:00.269Z,0,770,491
//
// ISO stamps in UTC, to the millisecond. ContextTokens counts the images' tokens, too.
#include "traces/formats/calendar.h"
#include "traces/formats/csv.h"
#include "traces/formats/formats.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

bool Detect(std::string_view head) {
  return HeaderHas(head, {"TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens"});
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  constexpr std::uint64_t kMostImages = 1'000'000;
  CsvTable table(text);
  const absl::Status header =
      table.Open("azure_lmm_2025", {"TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens"});
  if (!header.ok()) return header;
  StampParser stamps;
  while (table.Next()) {
    TraceRow row;
    if (!ParseZonedStamp(table.field(0), 'T', &stamps, &row.arrival_ns)) {
      return table.Mistake(0,
                           "; expected an ISO date and time in UTC, such as "
                           "'2024-10-15T12:00:00.269Z'; mend or remove the row");
    }
    std::uint64_t images = 0;
    absl::Status status = table.Whole(1, kMostImages, &images);
    if (status.ok()) status = ReadLengths(table, 2, 3, &row);
    if (!status.ok()) return status;
    if (CountLengths(row, out)) out->Add(row, {.images = static_cast<std::uint32_t>(images)});
  }
  return table.status();
}

}  // namespace

const TraceFormat kAzureLmm2025 = {
    .name = "azure_lmm_2025",
    .summary = "Azure multimodal inference 2025, CSV (Azure/AzurePublicDataset)",
    .begins = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
