// RequestText: the text of one request by name, and the chained hashes of its blocks, by which a
// prefix cache finds them: h(i) = H(h(i-1), text of block i), h(-1) being the hash of what keeps
// texts apart (adapter, model, tenant if they are isolated). Names are those of RequestSpec: equal
// text has equal hashes wherever its stretches are cut by the borders of blocks. What has no name
// is text that no other request has; the request itself finds it again after a preemption.
//
// Each block is hashed once, when it is first asked for. Owned by RequestTable; one thread; keeps
// its memory when it is used for another request.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TEXT_H_
#define SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TEXT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "policies/api/source.h"

namespace schedtwin {

class RequestText {
 public:
  /// Takes the text of a request; `isolate`: no other tenant has the same.
  void Reset(std::uint32_t request, const RequestSpec& spec, bool isolate);

  /// The prompt, all of it; id 0: text without a name.
  std::span<const ContentSegment> prompt() const { return prompt_; }
  /// 0: the output has no name.
  std::uint64_t output_content() const { return output_content_; }

  /// Hashes of the full blocks among the first `tokens` tokens; of an output without a name there
  /// are none. Valid until the next call. REQUIRES: block_tokens > 0.
  std::span<const std::uint64_t> Hashes(std::uint32_t tokens, std::uint32_t block_tokens,
                                        ModelId model);

  /// True once for each device: it has not been told of the text yet.
  bool FirstTold(std::uint32_t device);

  // What the steps that have ended have computed of it, where it is now.
  std::uint32_t computed_tokens = 0;
  bool caught_up = false;  ///< all but the last token made; from then on it grows with the output

 private:
  /// The hashes for one size of block and one model, and the place in the text where they stop.
  struct Chain {
    std::uint32_t block_tokens = 0;  ///< 0: not in use
    ModelId model;
    std::size_t segment = 0;
    std::uint32_t offset = 0;
    std::vector<std::uint64_t> hashes;
  };

  Chain& ChainFor(std::uint32_t block_tokens, ModelId model);
  std::uint64_t NextHash(Chain* chain) const;

  std::uint32_t request_ = 0;
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t adapter_ = 0;
  std::uint64_t apart_ = 0;  ///< the tenant and 1, if tenants are isolated
  std::uint64_t output_content_ = 0;
  std::vector<ContentSegment> prompt_;
  std::vector<Chain> chains_;
  std::vector<std::uint32_t> told_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_REQUEST_TEXT_H_
