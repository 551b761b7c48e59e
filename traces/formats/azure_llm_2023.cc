// The Azure LLM inference traces of 2023 (Azure/AzurePublicDataset; Patel et al., "Splitwise",
// ISCA'24):
//
//   TIMESTAMP,ContextTokens,GeneratedTokens
//   2023-11-16 18:17:03.9799600,4808,10
//
// Timestamps have no zone and exactly seven fraction digits (100 ns). The 2024 traces have the same
// header and other timestamps (0 or 6 digits and a UTC offset): they are told apart by the rows and
// never misread.
#include <utility>

#include "traces/formats/calendar.h"
#include "traces/formats/formats.h"
#include "traces/text.h"

namespace schedtwin {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kExample = "2023-11-16 18:17:03.9799600";
constexpr std::uint32_t kMaxTokens = 1'000'000'000;

/// False: not of the form of kExample, or no such instant.
bool ParseStamp(std::string_view text, StampParser* stamps, std::int64_t* ns) {
  if (text.size() != kExample.size() || text[StampParser::kSize] != '.') return false;
  const int fraction = Digits(text.data() + StampParser::kSize + 1, 7);
  if (fraction < 0 || !stamps->Parse(text, ' ', ns)) return false;
  *ns += std::int64_t{fraction} * 100;
  return true;
}

// Digits from *at on, moving it behind them. False: none, or too large.
inline bool ParseTokens(const char** at, const char* end, std::uint32_t* tokens) {
  const char* p = *at;
  std::uint64_t value = 0;
  for (; p != end; ++p) {
    const auto digit = static_cast<unsigned char>(*p - '0');
    if (digit > 9) break;
    value = value * 10 + digit;
    if (value > kMaxTokens) return false;
  }
  *tokens = static_cast<std::uint32_t>(value);
  return std::exchange(*at, p) != p;
}

bool ParseRow(std::string_view line, StampParser* stamps, TraceRow* row) {
  if (line.size() < kExample.size() + 4 || line[kExample.size()] != ',') return false;
  if (!ParseStamp(line.substr(0, kExample.size()), stamps, &row->arrival_ns)) return false;
  const char* at = line.data() + kExample.size() + 1;
  const char* end = line.data() + line.size();
  if (!ParseTokens(&at, end, &row->prompt_tokens) || at == end || *at++ != ',') return false;
  return ParseTokens(&at, end, &row->output_tokens) && at == end;
}

// The parts of a row; false when there are not three.
bool Split(std::string_view line, std::string_view* stamp, std::string_view* context,
           std::string_view* generated) {
  const std::size_t first = line.find(',');
  if (first == std::string_view::npos) return false;
  const std::size_t second = line.find(',', first + 1);
  if (second == std::string_view::npos) return false;
  *stamp = line.substr(0, first);
  *context = line.substr(first + 1, second - first - 1);
  *generated = line.substr(second + 1);
  return generated->find(',') == std::string_view::npos;
}

std::string StampMistake(std::string_view stamp) {
  const std::string found = "TIMESTAMP is " + Quoted(stamp);
  const std::string expected =
      "expected a date and time with seven fraction digits and no zone, such as " +
      Quoted(kExample);
  const bool zoned =
      stamp.ends_with("Z") || (stamp.size() > 19 && stamp.find_first_of("+-", 19) != stamp.npos);
  if (zoned || stamp.size() == 19) {
    return found +
           ", which is the Azure LLM 2024 format (0 or 6 fraction digits and an offset) under the "
           "header it shares with 2023; " +
           expected + "; name --format azure_llm_2024, or do not mix both";
  }
  if (stamp.size() == kExample.size())
    return found + ", no such instant; " + expected + "; mend the row";
  return found + "; " + expected + "; mend the row";
}

std::string TokensMistake(std::string_view column, std::string_view text) {
  std::string found = std::string(column) + " is " + Quoted(text);
  if (text.starts_with('-')) found += ", a negative number";
  return found + "; expected an integer from 0 to 1000000000; mend or remove the row";
}

// Says what is wrong with a row that did not parse; slow, and called once.
std::string Mistake(std::string_view line) {
  std::string_view stamp, context, generated;
  if (!Split(line, &stamp, &context, &generated)) {
    std::size_t columns = 1;
    for (const char c : line) columns += c == ',';
    return "found " + std::to_string(columns) + (columns == 1 ? " column" : " columns") + " in " +
           Quoted(line) + "; expected 3 (" + std::string(kHeader) + "); mend or remove the row";
  }
  std::int64_t ns = 0;
  std::uint32_t tokens = 0;
  StampParser stamps;
  if (!ParseStamp(stamp, &stamps, &ns)) return StampMistake(stamp);
  const char* at = context.data();
  const char* end = at + context.size();
  const bool context_is_good = ParseTokens(&at, end, &tokens) && at == end;
  return context_is_good ? TokensMistake("GeneratedTokens", generated)
                         : TokensMistake("ContextTokens", context);
}

bool Detect(std::string_view head) {
  return head.substr(0, head.find_first_of("\r\n")) == kHeader;  // after the 2024 one had its say
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  std::string_view line;
  if (!text->Next(&line) || line != kHeader) {
    return LineError(text->path(), 1,
                     "found the header " + Quoted(line) + "; format azure_llm_2023 expects " +
                         Quoted(kHeader) + "; mend the header, or name another --format");
  }
  constexpr std::size_t kTypicalRowBytes = 36;
  out->Reserve(text->size_hint() / kTypicalRowBytes);
  StampParser stamps;
  std::uint64_t blank_line = 0;  // a mistake only if rows follow
  while (text->Next(&line)) {
    if (line.empty()) {
      if (blank_line == 0) blank_line = text->number();
      continue;
    }
    if (blank_line != 0) {
      return LineError(text->path(), blank_line,
                       "found an empty line; expected 3 columns; remove the line");
    }
    TraceRow row;
    if (!ParseRow(line, &stamps, &row))
      return LineError(text->path(), text->number(), Mistake(line));
    if (row.prompt_tokens == 0) {
      out->Drop("zero_prompt_tokens");
    } else if (row.output_tokens == 0) {
      out->Drop("zero_output_tokens");
    } else {
      out->Add(row);
    }
  }
  return absl::OkStatus();
}

}  // namespace

const TraceFormat kAzureLlm2023 = {
    .name = "azure_llm_2023",
    .summary = "Azure LLM inference 2023, conv and code, CSV (Azure/AzurePublicDataset)",
    .begins = kHeader,
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
