// TokenJsq: joins the shortest queue in tokens: the device with the fewest pending ones, where a
// request counts its prompt until that is computed, and one for its decoding until it is over.
// Source: token JSQ of splitwise-sim (mutinifni/splitwise-sim 8f99e7dc). Of equals the lowest.
#ifndef SCHEDTWIN_POLICIES_PARTS_TOKEN_JSQ_H_
#define SCHEDTWIN_POLICIES_PARTS_TOKEN_JSQ_H_

#include "policies/parts/outstanding.h"
#include "policies/parts/router.h"

namespace schedtwin {

class TokenJsq final : public Router {
 public:
  DeviceId Pick(const Context& context, RequestId) override {
    return LeastLoaded(context, [this](DeviceId device) { return tokens_.of(device); });
  }
  void OnSent(const Context& context, RequestId request, DeviceId device) override {
    tokens_.Add(device, context.request(request).prompt_tokens() + 1ull);
  }
  void OnPrefilled(const Context& context, RequestId request, DeviceId device) override {
    tokens_.Remove(device, context.request(request).prompt_tokens());
  }
  void OnEnd(const Context& context, RequestId request, DeviceId device) override {
    const RequestView view = context.request(request);
    const bool prefilled = view.output_tokens() > 0;
    tokens_.Remove(device, prefilled ? 1ull : view.prompt_tokens() + 1ull);
  }

  std::uint64_t pending_tokens(DeviceId device) const { return tokens_.of(device); }

 private:
  Outstanding tokens_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_TOKEN_JSQ_H_
