// Texts: requests with named text, for tests of the prefix cache. Owns what their specs point to;
// outlives the run. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_TEXTS_H_
#define SCHEDTWIN_TESTS_SUPPORT_TEXTS_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "policies/api/source.h"

namespace schedtwin {

class Texts {
 public:
  /// A decoder request whose prompt is these stretches and nothing else.
  RequestSpec Request(std::int64_t arrival_ns, std::vector<ContentSegment> prompt,
                      std::uint32_t output_tokens, std::uint64_t output_content = 0) {
    const std::vector<ContentSegment>& kept = kept_.emplace_back(std::move(prompt));
    RequestSpec spec;
    spec.arrival = Time::Nanos(arrival_ns);
    for (const ContentSegment& stretch : kept) spec.prompt_tokens += stretch.tokens;
    spec.output_tokens = output_tokens;
    spec.content = kept;
    spec.output_content = output_content;
    return spec;
  }

 private:
  std::deque<std::vector<ContentSegment>> kept_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_TEXTS_H_
