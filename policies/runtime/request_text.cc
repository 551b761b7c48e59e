#include "policies/runtime/request_text.h"

#include <algorithm>

#include "policies/runtime/digest.h"

namespace schedtwin {

void RequestText::Reset(std::uint32_t request, const RequestSpec& spec, bool isolate) {
  request_ = request;
  prompt_tokens_ = spec.prompt_tokens;
  adapter_ = spec.adapter;
  apart_ = isolate ? std::uint64_t{spec.tenant} + 1 : 0;
  output_content_ = spec.output_content;
  computed_tokens = 0;
  caught_up = false;
  for (Chain& chain : chains_) chain.block_tokens = 0;
  told_.clear();
  prompt_.clear();
  std::uint32_t left = spec.prompt_tokens;
  for (const ContentSegment& segment : spec.content) {
    const std::uint32_t tokens = std::min(segment.tokens, left);
    if (tokens > 0) prompt_.push_back({segment.id, tokens});
    left -= tokens;
  }
  if (left > 0) prompt_.push_back({0, left});
}

RequestText::Chain& RequestText::ChainFor(std::uint32_t block_tokens, ModelId model) {
  Chain* unused = nullptr;
  for (Chain& chain : chains_) {
    if (chain.block_tokens == block_tokens && chain.model == model) return chain;
    if (chain.block_tokens == 0) unused = &chain;
  }
  if (unused == nullptr) unused = &chains_.emplace_back();
  unused->block_tokens = block_tokens;
  unused->model = model;
  unused->segment = 0;
  unused->offset = 0;
  unused->hashes.clear();
  return *unused;
}

std::span<const std::uint64_t> RequestText::Hashes(std::uint32_t tokens, std::uint32_t block_tokens,
                                                   ModelId model) {
  if (output_content_ == 0) tokens = std::min(tokens, prompt_tokens_);
  const std::size_t blocks = tokens / block_tokens;
  Chain& chain = ChainFor(block_tokens, model);
  while (chain.hashes.size() < blocks) chain.hashes.push_back(NextHash(&chain));
  return {chain.hashes.data(), blocks};
}

std::uint64_t RequestText::NextHash(Chain* chain) const {
  std::uint64_t hash = chain->hashes.empty() ? HashWords({adapter_, chain->model.value, apart_})
                                             : chain->hashes.back();
  for (std::uint32_t left = chain->block_tokens; left > 0;) {
    const bool output = chain->segment == prompt_.size();
    const std::uint64_t id = output ? output_content_ : prompt_[chain->segment].id;
    const std::uint32_t end = output ? 0xffffffffu : prompt_[chain->segment].tokens;
    const std::uint32_t tokens = std::min(left, end - chain->offset);
    const bool named = id != 0;
    hash = HashWords(
        {hash, named, named ? id : request_, (std::uint64_t{chain->offset} << 32) | tokens});
    left -= tokens;
    chain->offset += tokens;
    if (chain->offset == end) {
      ++chain->segment;
      chain->offset = 0;
    }
  }
  return hash;
}

bool RequestText::FirstTold(std::uint32_t device) {
  if (std::find(told_.begin(), told_.end(), device) != told_.end()) return false;
  told_.push_back(device);
  return true;
}

}  // namespace schedtwin
