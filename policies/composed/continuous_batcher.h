// ContinuousBatcher: iteration-level batching (Orca, OSDI'22) with a token budget for each step and
// prompts in chunks (Sarathi-Serve, vLLM v1): whoever has a slot joins at the next step, decodes
// come first, prompts take what is left of the budget.
#ifndef SCHEDTWIN_POLICIES_COMPOSED_CONTINUOUS_BATCHER_H_
#define SCHEDTWIN_POLICIES_COMPOSED_CONTINUOUS_BATCHER_H_

#include <algorithm>
#include <cstdint>

#include "policies/parts/batcher.h"

namespace schedtwin {

class ContinuousBatcher final : public Batcher {
 public:
  ContinuousBatcher(std::uint32_t max_requests, std::uint32_t max_tokens)
      : max_requests_(max_requests), max_tokens_(max_tokens) {}

  bool Admits(const StepDraft& step) const override { return step.running < max_requests_; }
  std::uint32_t PromptTokens(const StepDraft& step, std::uint32_t left) const override {
    const std::uint32_t budget = std::min(max_tokens_, step.max_tokens);
    return step.tokens() < budget ? std::min(left, budget - step.tokens()) : 0;
  }

 private:
  std::uint32_t max_requests_;
  std::uint32_t max_tokens_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_COMPOSED_CONTINUOUS_BATCHER_H_
