// The Qwen-Bailian traces (alibaba-edu/qwen-bailian-usagetraces-anon; Wang et al., "KVCache in the
// Wild", ATC'25):
//
//   {"chat_id": 0, "parent_chat_id": -1, "timestamp": 0.0, "input_length": 502,
//    "output_length": 1494, "type": "thinking", "turn": 1, "hash_ids": [0, 1, ..., 31]}
//
// Seconds from the start; one number for each block of 16 tokens of the prompt, the last one
// partial. A request continues the chat of its parent (-1: none); a chat and all that continue it
// are one session, named by its first chat where that is in the trace. The type is the class.
#include <string>
#include <unordered_map>

#include "traces/formats/formats.h"
#include "traces/formats/hashed_blocks.h"
#include "traces/formats/json_lines.h"
#include "traces/formats/number.h"
#include "traces/formats/row_fields.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint64_t kMostChats = 1'000'000'000'000;

bool Detect(std::string_view head) {
  return FirstLineHas(head, {"chat_id", "parent_chat_id", "timestamp", "input_length",
                             "output_length", "hash_ids"});
}

/// -1: none.
absl::Status ReadParent(const JsonLines& lines, std::optional<std::uint64_t>* parent) {
  std::string_view digits;
  if (const absl::Status read = lines.Number("parent_chat_id", &digits); !read.ok()) return read;
  if (digits == "-1") return absl::OkStatus();
  std::uint64_t value = 0;
  if (const absl::Status read = lines.Whole("parent_chat_id", kMostChats, &value); !read.ok()) {
    return read;
  }
  *parent = value;
  return absl::OkStatus();
}

/// By chat: the first of its session.
using Roots = std::unordered_map<std::uint64_t, std::uint64_t>;

absl::Status ReadOne(const JsonLines& lines, HashedBlocks* blocks, Roots* roots,
                     TraceBuilder* out) {
  TraceRow row;
  ExactTime at;
  std::uint64_t chat = 0;
  std::string_view type;
  std::span<const std::uint64_t> numbers;
  std::optional<std::uint64_t> parent;
  absl::Status status = ReadTime(lines, "timestamp", 9, "seconds", &at);
  if (status.ok()) status = lines.Whole("chat_id", kMostChats, &chat);
  if (status.ok()) status = ReadParent(lines, &parent);
  if (status.ok() && lines.has("type")) status = lines.Text("type", &type);
  if (status.ok()) status = ReadLengths(lines, "input_length", "output_length", &row);
  if (status.ok()) status = ReadBlocks(lines, *blocks, row.prompt_tokens, &numbers);
  if (!status.ok()) return status;
  row.arrival_ns = at.ns;
  if (!CountLengths(row, out)) return absl::OkStatus();
  const auto root = parent ? roots->find(*parent) : roots->end();
  const std::uint64_t first = root != roots->end() ? root->second : parent.value_or(chat);
  const std::string session = std::to_string(first);
  const TraceDetails details = {.session = session,
                                .request_class = type,
                                .key = chat,
                                .parent = parent,
                                .text = blocks->TextOf(numbers, row.prompt_tokens)};
  if (!out->Add(row, details)) {
    return lines.Mistake("chat_id", ", as on a line before; mend or remove one of them");
  }
  roots->emplace(chat, first);
  if (!at.exact) out->Flag(kTimeRounded);
  return absl::OkStatus();
}

absl::Status Read(TextReader* text, const ReadOptions&, TraceBuilder* out) {
  JsonLines lines(text);
  HashedBlocks blocks(kBlockTokens);
  Roots roots;
  while (lines.Next()) {
    if (const absl::Status read = ReadOne(lines, &blocks, &roots, out); !read.ok()) return read;
  }
  return lines.status();
}

}  // namespace

const TraceFormat kQwenBailian = {
    .name = "qwen_bailian",
    .summary =
        "Qwen-Bailian chats with prefix blocks of 16 tokens, JSONL "
        "(alibaba-edu/qwen-bailian-usagetraces-anon)",
    .begins = R"({"chat_id": 0, "parent_chat_id": -1, "timestamp": 0.0, "input_length": 502, )",
    .detect = Detect,
    .read = Read,
};

}  // namespace schedtwin
