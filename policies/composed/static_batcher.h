// StaticBatcher: run to completion (FasterTransformer): a batch is admitted when nobody runs, its
// prompts are computed in one step, and nobody joins before its last request is over. A prompt is
// split only where it exceeds what the device takes in one step.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_STATIC_BATCHER_H_
#define SCHEDTWIN_POLICIES_COMPOSED_STATIC_BATCHER_H_

#include <algorithm>
#include <cstdint>

#include "policies/parts/batcher.h"

namespace schedtwin {

class StaticBatcher final : public Batcher {
 public:
  explicit StaticBatcher(std::uint32_t max_requests) : max_requests_(max_requests) {}

  bool Admits(const StepDraft& step) const override {
    return step.running == step.admitted && step.running < max_requests_;
  }
  std::uint32_t PromptTokens(const StepDraft& step, std::uint32_t left) const override {
    return std::min(left, step.max_tokens - step.tokens());
  }

 private:
  std::uint32_t max_requests_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_STATIC_BATCHER_H_
