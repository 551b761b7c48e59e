// EarlyRejection: turns away on arrival whose first token would come too late, before anything is
// computed for it. Source: Mooncake (FAST'25): TTFT = queue + prefill, by the profile's prediction.
// What waits ahead is charged at the speed of the request's own prompt: one prediction for an
// arrival, whatever the queue. Decodes that run beside the prompts are not charged, so it rejects
// too few rather than too many.
//
// Nothing can be predicted without a profile: then all are let in, and the first time is noted.
#ifndef SCHEDTWIN_POLICIES_PARTS_EARLY_REJECTION_H_
#define SCHEDTWIN_POLICIES_PARTS_EARLY_REJECTION_H_

#include <cstdint>
#include <optional>

#include "policies/parts/admission.h"

namespace schedtwin {

class EarlyRejection final : public Admission {
 public:
  /// `ttft`: from the scheduled arrival.
  explicit EarlyRejection(Duration ttft) : ttft_(ttft) {}

  bool Admit(Context& context, RequestId request, const WaitingLine& line) override {
    const RequestView view = context.request(request);
    const Entry prompt{request, view.next_tokens()};
    const std::optional<Duration> alone =
        context.services().Predict({.device = line.device, .entries = {&prompt, 1}});
    if (!alone) {
      if (!noted_) context.actions().Note("early rejection: no profile, all are let in");
      noted_ = true;
      return true;
    }
    const double queued = static_cast<double>(line.tokens) / prompt.tokens;
    const double first_token = static_cast<double>(alone->ns()) * (1 + queued);
    const Duration late = context.now() - view.arrival();
    return first_token <= static_cast<double>((ttft_ - late).ns());
  }

 private:
  Duration ttft_;
  bool noted_ = false;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_EARLY_REJECTION_H_
