// Mooncake's traces (kvcache-ai/Mooncake at 3b5a594; Qin et al., FAST'25):
//
//   {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, ..., 13]}
//
// Milliseconds from the start; one number for each block of 512 tokens of the prompt, the last one
// partial; equal numbers are equal text from the prompt's beginning. The stamps of `conversation`
// lie on a grid of about three seconds: requests of one tick did not come at one instant.
#include "traces/formats/formats.h"
#include "traces/formats/hashed_blocks.h"
#include "traces/formats/json_lines.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kBlockTokens = 512;

bool Detect(std::string_view head) {
  return FirstLineHas(head, {"timestamp", "input_length", "output_length", "hash_ids"});
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  JsonLines lines(text);
  HashedBlocks blocks(kBlockTokens);
  while (lines.Next()) {
    TraceRow row;
    ExactTime at;
    if (const absl::Status read = ReadTime(lines, "timestamp", 6, "milliseconds", &at);
        !read.ok()) {
      return read;
    }
    row.arrival_ns = at.ns;
    std::span<const std::uint64_t> numbers;
    absl::Status status = ReadLengths(lines, "input_length", "output_length", &row);
    if (status.ok()) status = ReadBlocks(lines, blocks, row.prompt_tokens, &numbers);
    if (!status.ok()) return status;
    if (!CountLengths(row, out)) continue;
    if (!at.exact) out->Flag(kTimeRounded);
    out->Add(row, {.text = blocks.TextOf(numbers, row.prompt_tokens)});
  }
  return lines.status();
}

}  // namespace

const TraceFormat kMooncake = {
    .name = "mooncake",
    .summary = "Mooncake's traces with prefix blocks of 512 tokens, JSONL (kvcache-ai/Mooncake)",
    .begins = R"({"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [)",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
