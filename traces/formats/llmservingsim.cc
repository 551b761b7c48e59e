// LLMServingSim's requests (casys-kaist/LLMServingSim at 5daddb2):
//
//   {"input_toks": 10, "output_toks": 70, "arrival_time_ns": 46926808, "input_tok_ids": [1, ...],
//    "output_tok_ids": [11, ...]}
//
// Nanoseconds from the start. Where token ids are given they name the text: in steps of 16 tokens,
// each by a hash of all tokens up to its end, so that prompts that begin alike share blocks.
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "traces/formats/formats.h"
#include "traces/formats/json_lines.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

bool Detect(std::string_view head) {
  return FirstLineHas(head, {"input_toks", "output_toks", "arrival_time_ns"});
}

/// Names for a prompt's tokens, in order.
void NameTokens(std::span<const std::uint64_t> tokens, std::vector<ContentSegment>* text) {
  constexpr std::size_t kStep = 16;
  text->clear();
  std::uint64_t name = 0;
  for (std::size_t i = 0; i < tokens.size(); i += kStep) {
    const std::size_t count = std::min(kStep, tokens.size() - i);
    name = XXH64(&tokens[i], count * sizeof tokens[i], name);
    text->push_back({name | 1, static_cast<std::uint32_t>(count)});  // 0 would be no name
  }
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  constexpr std::uint64_t kMostNs = 9'000'000'000'000'000'000;
  JsonLines lines(text);
  std::vector<ContentSegment> segments;
  while (lines.Next()) {
    TraceRow row;
    std::uint64_t at = 0;
    absl::Status status = lines.Whole("arrival_time_ns", kMostNs, &at);
    if (status.ok()) status = ReadLengths(lines, "input_toks", "output_toks", &row);
    std::span<const std::uint64_t> tokens;
    if (status.ok() && lines.has("input_tok_ids")) status = lines.Wholes("input_tok_ids", &tokens);
    if (!status.ok()) return status;
    if (!tokens.empty() && tokens.size() != row.prompt_tokens) {
      return lines.Mistake("input_tok_ids", "; expected as many as input_toks, " +
                                                std::to_string(row.prompt_tokens) +
                                                "; mend or remove the line");
    }
    row.arrival_ns = static_cast<std::int64_t>(at);
    if (!CountLengths(row, out)) continue;
    NameTokens(tokens, &segments);
    out->Add(row, {.text = segments});
  }
  return lines.status();
}

}  // namespace

const TraceFormat kLlmServingSim = {
    .name = "llmservingsim",
    .summary = "LLMServingSim's requests, JSONL (casys-kaist/LLMServingSim)",
    .begins = R"({"input_toks": 10, "output_toks": 70, "arrival_time_ns": 46926808, )",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
