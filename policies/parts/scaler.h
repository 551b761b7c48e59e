// Scaler: how many devices there should be. The policy asks at every interval and scales to the
// answer (Actions::Scale: those with the lowest numbers). Owned by one policy.
#ifndef SCHEDTWIN_POLICIES_PARTS_SCALER_H_
#define SCHEDTWIN_POLICIES_PARTS_SCALER_H_

#include <cstdint>

#include "policies/api/time.h"

namespace schedtwin {

/// What a scaler decides by.
struct FleetLoad {
  Time now;
  std::uint32_t current = 0;      ///< devices there are to be: those that start or have failed, too
  std::uint32_t ready = 0;        ///< of them: those that take requests
  std::uint32_t most = 0;         ///< devices the run has
  std::uint64_t outstanding = 0;  ///< requests let in and not over
};

class Scaler {
 public:
  virtual ~Scaler() = default;
  virtual Duration interval() const = 0;
  /// From 1 to load.most.
  virtual std::uint32_t Devices(const FleetLoad& load) = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_SCALER_H_
