// The Azure LLM inference traces of 2024, one week each (Azure/AzurePublicDataset; Stojkovic et
// al., "DynamoLLM", HPCA'25): the header of 2023, and other timestamps:
//
//   TIMESTAMP,ContextTokens,GeneratedTokens
//   2024-05-10 00:00:00.009930+00:00,2162,5
//   2024-05-12 00:00:00+00:00,1452,3
//
// A fraction of six digits or none, and an offset from UTC: that is how they are told from 2023's.
#include <algorithm>

#include "traces/formats/calendar.h"
#include "traces/formats/csv.h"
#include "traces/formats/formats.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

bool Detect(std::string_view head) {
  const std::size_t end = head.find_first_of("\r\n");
  if (head.substr(0, end) != kHeader || end == std::string_view::npos) return false;
  const std::size_t begin = std::min(head.find_first_not_of("\r\n", end), head.size());
  const std::string_view row = head.substr(begin, head.substr(begin).find(','));
  StampParser stamps;
  std::int64_t ns = 0;
  return ParseZonedStamp(row, ' ', &stamps, &ns);
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  CsvTable table(text);
  const absl::Status header =
      table.Open("azure_llm_2024", {"TIMESTAMP", "ContextTokens", "GeneratedTokens"});
  if (!header.ok()) return header;
  constexpr std::size_t kTypicalRowBytes = 42;
  out->Reserve(text->size_hint() / kTypicalRowBytes);
  StampParser stamps;
  while (table.Next()) {
    TraceRow row;
    if (!ParseZonedStamp(table.field(0), ' ', &stamps, &row.arrival_ns)) {
      return table.Mistake(0,
                           "; expected a date and time with a UTC offset, such as "
                           "'2024-05-10 00:00:00.009930+00:00'; mend or remove the row");
    }
    if (const absl::Status read = ReadLengths(table, 1, 2, &row); !read.ok()) return read;
    if (CountLengths(row, out)) out->Add(row);
  }
  return table.status();
}

}  // namespace

const TraceFormat kAzureLlm2024 = {
    .name = "azure_llm_2024",
    .summary = "Azure LLM inference 2024, conv and code, CSV (Azure/AzurePublicDataset)",
    .begins = kHeader,
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
