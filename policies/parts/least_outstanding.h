// LeastOutstanding (LOR): the device with the fewest requests sent and not over, by the router's
// own count, not by what is reported. Source: Vidur's LOR, AlpaServe's runtime. Of equals the
// lowest.
#ifndef SCHEDTWIN_POLICIES_PARTS_LEAST_OUTSTANDING_H_
#define SCHEDTWIN_POLICIES_PARTS_LEAST_OUTSTANDING_H_

#include "policies/parts/outstanding.h"
#include "policies/parts/router.h"

namespace schedtwin {

class LeastOutstanding final : public Router {
 public:
  DeviceId Pick(const Context& context, RequestId) override {
    return LeastLoaded(context, [this](DeviceId device) { return requests_.of(device); });
  }
  void OnSent(const Context&, RequestId, DeviceId device) override { requests_.Add(device); }
  void OnEnd(const Context&, RequestId, DeviceId device) override { requests_.Remove(device); }

 private:
  Outstanding requests_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_LEAST_OUTSTANDING_H_
