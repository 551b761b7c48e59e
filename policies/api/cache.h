// Cache: the prefix cache of one device, as a policy sees it: which full blocks at the head of a
// request's text are there already, and taking them over. Blocks are found by the chained hash of
// the text before and in them (with the tenant, where tenants are kept apart, the model and the
// adapter). Whether there is one at all the run says; without it nothing is ever found. Pinning and
// evicting are actions.
//
// Blocks of a prompt are there from the end of the step that computed the last token in them;
// blocks with output in them from when the request gives its blocks back, if its output has a name.
// They stay there, with or without owners, until they are handed out for other text: the least
// recently used first, of those given back at once the tail of the text first.
//
// What the next step of the standing set takes (Memory::StandingGrowth) counts as gone: the set
// comes first, so that a policy finds the same as one that has reserved for each listed decode.
#ifndef SCHEDTWIN_POLICIES_API_CACHE_H_
#define SCHEDTWIN_POLICIES_API_CACHE_H_

#include <cstdint>
#include <span>

#include "policies/api/ids.h"

namespace schedtwin {

class Cache {
 public:
  /// Tokens at the head of what the request knows that are cached here: a multiple of the block,
  /// less than all, so that something is left to compute.
  virtual std::uint32_t HitTokens(RequestId request) const = 0;
  /// Blocks that adopting them would take from the free ones: those that nobody uses now.
  virtual std::uint32_t HitFreeBlocks(RequestId request) const = 0;
  /// The names of the full blocks of its prompt, in order, by which they are found here, and on
  /// every device whose blocks are as large: for a router that keeps an index of its own. Empty
  /// where the run has no cache. Valid until the next call.
  virtual std::span<const std::uint64_t> PromptBlocks(RequestId request) const = 0;
  /// Makes the cached blocks of up to `max_tokens` tokens the request's own, shared with others,
  /// and their tokens count as computed; returns how many tokens that are. Part of an open memory
  /// transaction. A request that owns blocks, or has computed anything, gets none.
  virtual std::uint32_t Adopt(RequestId request, std::uint32_t max_tokens) = 0;

 protected:
  ~Cache() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_CACHE_H_
