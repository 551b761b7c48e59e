// PromptBatcher: whole prompts, as many as a budget of prompt tokens holds, beside the decodes; a
// prompt above the budget comes alone. Only what the device takes in one step cuts a prompt.
#ifndef SCHEDTWIN_POLICIES_VTC_PROMPT_BATCHER_H_
#define SCHEDTWIN_POLICIES_VTC_PROMPT_BATCHER_H_

#include <algorithm>
#include <cstdint>

#include "policies/parts/batcher.h"

namespace schedtwin::vtc {

class PromptBatcher final : public Batcher {
 public:
  PromptBatcher(std::uint32_t max_requests, std::uint32_t max_prompt_tokens)
      : max_requests_(max_requests), max_prompt_tokens_(max_prompt_tokens) {}

  bool Admits(const StepDraft& step) const override { return step.running < max_requests_; }
  std::uint32_t PromptTokens(const StepDraft& step, std::uint32_t left) const override {
    const bool fits = std::uint64_t{step.prompt_tokens} + left <= max_prompt_tokens_;
    if (!fits && step.prompt_tokens > 0) return 0;
    return step.tokens() < step.max_tokens ? std::min(left, step.max_tokens - step.tokens()) : 0;
  }

 private:
  std::uint32_t max_requests_;
  std::uint32_t max_prompt_tokens_;
};

}  // namespace schedtwin::vtc

#endif  // SCHEDTWIN_POLICIES_VTC_PROMPT_BATCHER_H_
