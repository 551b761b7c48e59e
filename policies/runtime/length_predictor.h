// LengthPredictor: what a run tells its policies of a request's output length. Policies never see
// the truth; a predictor does, and says what a real one could have said. Pure: the same answer for
// the same request, whenever it is asked, in every world.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTOR_H_
#define SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTOR_H_

#include <cstdint>

#include "policies/api/ids.h"

namespace schedtwin {

class LengthPredictor {
 public:
  virtual ~LengthPredictor() = default;
  /// Expected output tokens of the request, at least 1; `true_tokens` is what it will make.
  virtual std::uint32_t Predict(RequestId request, std::uint32_t true_tokens) const = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTOR_H_
