// ActivePrompts: what a router that keeps its own books knows of the requests it has sent to one
// device and that are not over: the prompt tokens still to be computed, and the KV blocks of their
// prompts, where a block that several share counts once. Blocks go by the names of the prefix
// cache; where the run has none each request has its own.
//
// Source: ActiveSequences of NVIDIA Dynamo, lib/kv-router/src/sequences/single.rs at 04df1c42, with
// its defaults: output blocks and the decay of prompt load by time are off. Owned by one router.
#ifndef SCHEDTWIN_POLICIES_PARTS_ACTIVE_PROMPTS_H_
#define SCHEDTWIN_POLICIES_PARTS_ACTIVE_PROMPTS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/api/context.h"

namespace schedtwin {

class ActivePrompts {
 public:
  std::uint64_t requests() const { return requests_; }
  /// That prompts without a first token have to compute.
  std::uint64_t prefill_tokens() const { return prefill_tokens_; }
  std::uint64_t blocks() const { return unnamed_blocks_ + owners_.size(); }

  /// Full blocks of a prompt that nobody of those has.
  std::uint64_t AdditionalBlocks(std::span<const std::uint64_t> names,
                                 std::uint32_t full_blocks) const {
    if (names.empty()) return full_blocks;
    const auto first = std::find_if(names.begin(), names.end(),
                                    [this](std::uint64_t name) { return !owners_.contains(name); });
    return static_cast<std::uint64_t>(names.end() - first);
  }

  /// `names`: of its full blocks, or none and `full_blocks` of its own; the same at its end.
  void Add(RequestId request, std::uint64_t uncached_tokens, std::span<const std::uint64_t> names,
           std::uint32_t full_blocks) {
    ++requests_;
    for (const std::uint64_t name : names) ++owners_[name];
    if (names.empty()) unnamed_blocks_ += full_blocks;
    if (uncached_tokens == 0) return;
    prefilling_.push_back({request, uncached_tokens});
    prefill_tokens_ += uncached_tokens;
  }
  /// It has its first token. Nothing happens if that was told before.
  void Prefilled(RequestId request) {
    const auto at = std::find_if(prefilling_.begin(), prefilling_.end(),
                                 [&](const Prefill& one) { return one.request == request; });
    if (at == prefilling_.end()) return;
    prefill_tokens_ -= at->tokens;
    prefilling_.erase(at);
  }
  void Remove(RequestId request, std::span<const std::uint64_t> names, std::uint32_t full_blocks) {
    Prefilled(request);
    --requests_;
    for (const std::uint64_t name : names) {
      const auto owners = owners_.find(name);
      if (--owners->second == 0) owners_.erase(owners);
    }
    if (names.empty()) unnamed_blocks_ -= full_blocks;
  }

 private:
  struct Prefill {
    RequestId request;
    std::uint64_t tokens;
  };

  std::uint64_t requests_ = 0;
  std::uint64_t prefill_tokens_ = 0;
  std::uint64_t unnamed_blocks_ = 0;
  std::vector<Prefill> prefilling_;
  std::unordered_map<std::uint64_t, std::uint32_t> owners_;  ///< of a block; never iterated
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ACTIVE_PROMPTS_H_
