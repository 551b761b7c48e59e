#include "exec/decoder_runner.h"

#include <algorithm>
#include <iterator>

#include "exec/token_ids.h"
#include "policies/runtime/check.h"

namespace schedtwin {

DecoderRunner::DecoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed,
                             LinearBackendKind backend)
    : info_(info),
      vocab_(shape.vocab),
      model_(shape, {.kv_blocks = info.total_blocks,
                     .block_tokens = info.block_tokens,
                     .seed = seed,
                     .backend = backend}) {}

void DecoderRunner::Take(const DeviceCommand& command) {
  switch (command.kind) {
    case CommandKind::kJoin:
      sequences_[command.request].context_tokens = command.context_tokens;
      members_.push_back(command.request);
      return;
    case CommandKind::kLeave:
      std::erase(members_, command.request);
      return;
    case CommandKind::kBlock: {
      std::vector<std::uint32_t>& blocks = sequences_[command.request].blocks;
      blocks.resize(command.context_tokens + 1);
      blocks.back() = command.tokens;
      return;
    }
    case CommandKind::kContent:
      sequences_[command.request].text.push_back(
          {command.context_tokens, command.tokens, command.handle()});
      return;
    case CommandKind::kEnd:
      sequences_.erase(command.request);
      return;
    case CommandKind::kEntry:
      entries_.push_back(command);
      return;
    default:
      return;  // the caller's
  }
}

void DecoderRunner::RunStep(const DeviceCommand& step) {
  parts_.clear();
  tokens_.clear();
  for (const DeviceCommand& entry : entries_) {
    AddPart(entry.request, {&sequences_[entry.request], entry.context_tokens, entry.tokens,
                            entry.decode || entry.samples});
  }
  entries_.clear();
  if (step.standing) {
    for (const std::uint32_t member : members_) {
      Sequence& sequence = sequences_[member];
      AddPart(member, {&sequence, sequence.context_tokens++, 1, true});
    }
  }
  inputs_.clear();
  sampled_.clear();
  const std::int32_t* tokens = tokens_.data();
  for (const Part& part : parts_) {
    inputs_.push_back({.tokens = tokens,
                       .count = part.tokens,
                       .context_tokens = part.context_tokens,
                       .blocks = part.sequence->blocks.data(),
                       .sample = part.samples});
    tokens += part.tokens;
    if (part.samples) sampled_.push_back(-1);
  }
  model_.Forward(inputs_, step.tokens, sampled_.data());
  FeedBack();
}

void DecoderRunner::AddPart(std::uint32_t request, const Part& part) {
  const Sequence& sequence = *part.sequence;
  SCHEDTWIN_CHECK(std::uint64_t{part.context_tokens} + part.tokens <=
                  sequence.blocks.size() * info_.block_tokens);
  for (std::uint32_t i = 0; i < part.tokens; ++i) {
    tokens_.push_back(TokenAt(request, sequence, part.context_tokens + i));
  }
  parts_.push_back(part);
}

std::int32_t DecoderRunner::TokenAt(std::uint32_t request, const Sequence& sequence,
                                    std::uint32_t position) const {
  const auto next = std::upper_bound(
      sequence.text.begin(), sequence.text.end(), position,
      [](std::uint32_t at, const Stretch& stretch) { return at < stretch.position; });
  if (next != sequence.text.begin()) {
    const Stretch& stretch = *std::prev(next);
    const std::uint32_t offset = position - stretch.position;
    if (offset < stretch.tokens) return ContentToken(stretch.content, offset, vocab_);
  }
  // What another device has made is not known here; its place is taken by another token.
  const std::uint32_t at = position - sequence.first_made;
  const bool made = position >= sequence.first_made && at < sequence.made.size();
  return made ? sequence.made[at] : PromptToken(request, position, vocab_);
}

void DecoderRunner::FeedBack() {
  const std::int32_t* sampled = sampled_.data();
  for (const Part& part : parts_) {
    if (!part.samples) continue;
    Sequence& sequence = *part.sequence;
    const std::uint32_t position = part.context_tokens + part.tokens;
    if (sequence.first_made + sequence.made.size() != position) {  // the first, or not made here
      sequence.made.clear();
      sequence.first_made = position;
    }
    sequence.made.push_back(*sampled++);
  }
}

}  // namespace schedtwin
