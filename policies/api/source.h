// RequestSource: where requests come from. Traces and generators implement it; the runtime pulls it
// lazily, one pending request per source, so that the event queue stays small however long the
// trace. Open-loop sources ignore OnRequestEnd; closed-loop clients use it to decide what comes
// next, and so they work alike in every world. Called from the policy thread only. Deterministic
// given its seed.
#ifndef SCHEDTWIN_POLICIES_API_SOURCE_H_
#define SCHEDTWIN_POLICIES_API_SOURCE_H_

#include <cstdint>
#include <span>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

/// A stretch of a prompt's text, by name: the same id is the same text wherever it occurs, and a
/// stretch may stop short of its end. Each one begins at the beginning of what its id names: two
/// stretches of one id say the same thing twice. What follows the same stretches is a shared
/// prefix.
struct ContentSegment {
  std::uint64_t id = 0;  ///< 0: text that no other request has
  std::uint32_t tokens = 0;
};

/// What a source says of one request. Plain value; sizes in tokens for decoder models, in units
/// (images, sequences) for one-shot models. `output_tokens` is the truth: no policy sees it without
/// the oracle.
struct RequestSpec {
  Time arrival;                     ///< scheduled arrival; never earlier than the one before it
  std::uint32_t prompt_tokens = 0;  ///< decoder models: at least 1
  std::uint32_t output_tokens = 0;  ///< decoder models: at least 1; one-shot models: 0
  std::uint32_t max_new_tokens =
      0;                            ///< what the client asked for at most; 0: the model's own limit
  std::uint32_t units = 1;          ///< one-shot models: size of the request, at least 1
  std::uint32_t tenant = 0;         ///< index into the run's tenants
  std::uint32_t request_class = 0;  ///< index into the run's classes
  std::int32_t priority = 0;        ///< smaller is more urgent
  ModelId model = {0};              ///< the model it asks for
  std::uint64_t session = 0;        ///< 0: none
  static constexpr std::uint64_t kNoParent = ~std::uint64_t{0};
  std::uint64_t parent = kNoParent;  ///< index, in this source, of the request that it continues
  Time deadline = Time::Infinite();  ///< absolute
  Time leaves = Time::Infinite();    ///< when the client gives up; absolute
  std::uint32_t adapter = 0;         ///< fine-tuned variant of the model (LoRA); 0: none
  /// The prompt's text, in order; what it does not cover, or all where it is empty, is text that no
  /// other request has. Read until Next is called again.
  std::span<const ContentSegment> content = {};
  std::uint32_t shape = 0;  ///< one-shot models: names the shapes of its inputs; 0: the model's own
  std::uint64_t output_content = 0;  ///< by which later prompts name its output; 0: none will
};

/// A name for the whole prompt: a hash of its segments, cut to its length; 0 if they do not cover
/// it.
inline std::uint64_t ContentOf(const RequestSpec& spec) {
  std::uint64_t name = spec.prompt_tokens;
  std::uint32_t left = spec.prompt_tokens;
  for (const ContentSegment& segment : spec.content) {
    const std::uint32_t tokens = segment.tokens < left ? segment.tokens : left;
    for (const std::uint64_t word : {segment.id, std::uint64_t{tokens}}) {
      name = (name ^ word) * 0x9e3779b97f4a7c15ull;
      name ^= name >> 29;
    }
    left -= tokens;
    if (left == 0) break;
  }
  if (left > 0 || spec.prompt_tokens == 0) return 0;
  return name == 0 ? 1 : name;
}

/// Why a request ended. Part of the outcome digest: append only.
enum class EndReason : std::uint8_t {
  kCompleted = 0,  ///< made all of its output
  kRejected = 1,   ///< turned away by the policy or by validation
  kTimedOut = 2,   ///< given up by the policy after its deadline
  kCancelled = 3,  ///< the client left
  kFailed = 4,     ///< the device lost it
  kCached = 5,     ///< answered from the response cache
};

enum class Pull : std::uint8_t {
  kRequest,  ///< `*out` holds the next request
  kLater,    ///< nothing now; ask again after a request has ended
  kDry,      ///< nothing will ever come again
};

class RequestSource {
 public:
  virtual ~RequestSource() = default;

  /// Yields the next request in order of arrival. After kDry every call gives kDry.
  virtual Pull Next(RequestSpec* out) = 0;

  /// Tells how a request of this source ended, at `now`. `index` counts the requests that this
  /// source has yielded, from 0.
  virtual void OnRequestEnd(std::uint64_t index, EndReason reason, Time now) {
    (void)index, (void)reason, (void)now;
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_SOURCE_H_
