// Services: estimates that a policy may ask for, the same in every world. Nothing here is the
// truth: an estimate that the run has no basis for is absent, and oracle knowledge needs a
// capability that the experiment grants and that is stamped on the run.
#ifndef SCHEDTWIN_POLICIES_API_SERVICES_H_
#define SCHEDTWIN_POLICIES_API_SERVICES_H_

#include <cstdint>
#include <optional>

#include "policies/api/ids.h"
#include "policies/api/plan.h"
#include "policies/api/time.h"

namespace schedtwin {

class Services {
 public:
  /// How long the plan's first step would take if it started now; absent without a profile.
  virtual std::optional<Duration> Predict(const Plan& plan) const = 0;
  /// How long a transfer of `blocks` KV blocks would take; absent without a link model.
  virtual std::optional<Duration> TransferTime(DeviceId from, DeviceId to,
                                               std::uint32_t blocks) const = 0;
  /// How long loading a model would take; absent without a load model.
  virtual std::optional<Duration> LoadTime(DeviceId device, ModelId model) const = 0;
  /// Expected output tokens of a request: by the run's length predictor; absent without one.
  virtual std::optional<std::uint32_t> OutputLength(RequestId request) const = 0;

 protected:
  ~Services() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_SERVICES_H_
