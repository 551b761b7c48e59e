#include "exec/decoder_runner.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "exec/token_ids.h"
#include "policies/runtime/check.h"

namespace schedtwin {

DecoderRunner::DecoderRunner(const ModelShape& shape, const DeviceInfo& info, std::uint64_t seed,
                             LinearBackendKind backend)
    : shape_(shape), info_(info), vocab_(shape.vocab), seed_(seed), backend_(backend) {}

bool DecoderRunner::Load(StopCheck stop) {
  if (model_ != nullptr) return true;
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) MakeArena(tier);
  try {
    model_ = std::make_unique<CpuDecoder>(shape_,
                                          DecoderOptions{.block_tokens = info_.block_tokens,
                                                         .seed = seed_,
                                                         .backend = backend_,
                                                         .kv = MakeArena(Tier::kDevice)},
                                          stop);
  } catch (const MakingStopped&) {
    return false;
  }
  return true;
}

// ---- KV ----

KvArena* DecoderRunner::MakeArena(Tier tier) {
  std::unique_ptr<KvArena>& arena = arenas_[static_cast<std::size_t>(tier)];
  if (arena == nullptr) {
    const std::uint32_t blocks = tier == Tier::kDevice ? info_.total_blocks : info_.host_blocks;
    auto made = std::make_unique<KvArena>(shape_, info_.block_tokens, blocks);
    const std::lock_guard lock(mutex_);
    arena = std::move(made);
  }
  return arena.get();
}

const KvArena* DecoderRunner::arena(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return arenas_[static_cast<std::size_t>(tier)].get();
}

MadeTokens DecoderRunner::made_tokens(std::uint32_t request) const {
  const std::lock_guard lock(mutex_);
  const auto found = sequences_.find(request);
  if (found == sequences_.end()) return {};
  return {found->second.first_made, found->second.made};
}

bool DecoderRunner::Copy(const KvCopy& copy, StopCheck stop) {
  const KvArena& from = *copy.from->arena(copy.from_tier);
  KvArena& to = *MakeArena(copy.to_tier);
  for (std::size_t i = 0; i < copy.from_blocks.size(); ++i) {
    if (stop()) return false;
    to.CopyBlock(from, copy.from_blocks[i], copy.to_blocks[i]);
  }
  if (copy.from == this) return true;
  MadeTokens made = copy.from->made_tokens(copy.request);
  const std::lock_guard lock(mutex_);
  Sequence& sequence = sequences_[copy.request];
  sequence.first_made = made.first;
  sequence.made = std::move(made.tokens);
  return true;
}

// ---- Steps ----

void DecoderRunner::Take(const DeviceCommand& command) {
  const std::lock_guard lock(mutex_);
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

bool DecoderRunner::RunStep(const DeviceCommand& step, StopCheck stop) {
  SCHEDTWIN_CHECK(model_ != nullptr);
  parts_.clear();
  tokens_.clear();
  for (const DeviceCommand& entry : entries_) {
    AddPart(entry.request, {&sequences_.at(entry.request), entry.context_tokens, entry.tokens,
                            entry.decode || entry.samples});
  }
  entries_.clear();
  if (step.standing) {
    for (const std::uint32_t member : members_) {
      Sequence& sequence = sequences_.at(member);
      AddPart(member, {&sequence, sequence.context_tokens, 1, true, true});
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
  if (!model_->Forward(inputs_, step.tokens, sampled_.data(), stop)) return false;
  FeedBack();
  return true;
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
  // What another device has made, and no copy has brought, is not known here; its place is taken
  // by another token.
  const std::uint32_t at = position - sequence.first_made;
  const bool made = position >= sequence.first_made && at < sequence.made.size();
  return made ? sequence.made[at] : PromptToken(request, position, vocab_);
}

void DecoderRunner::FeedBack() {
  const std::lock_guard lock(mutex_);
  const std::int32_t* sampled = sampled_.data();
  for (const Part& part : parts_) {
    if (!part.samples) continue;
    Sequence& sequence = *part.sequence;
    if (part.member) ++sequence.context_tokens;
    const std::uint32_t position = part.context_tokens + part.tokens;
    if (sequence.first_made + sequence.made.size() != position) {  // the first, or not made here
      sequence.made.clear();
      sequence.first_made = position;
    }
    sequence.made.push_back(*sampled++);
  }
}

}  // namespace schedtwin
