// Admission: whether an arrival is let in, once it is known where it would go. Who is turned away
// ends as rejected; whom to ask, and to end it, is the policy's. Owned by one policy.
#ifndef SCHEDTWIN_POLICIES_PARTS_ADMISSION_H_
#define SCHEDTWIN_POLICIES_PARTS_ADMISSION_H_

#include <cstdint>

#include "policies/api/context.h"

namespace schedtwin {

/// The queue that an arrival would join, by the policy's own count.
struct WaitingLine {
  DeviceId device;
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;  ///< that these have to compute first
};

class Admission {
 public:
  virtual ~Admission() = default;
  /// True: it is let in, and whatever that uses up is used up. REQUIRES: the request lives.
  virtual bool Admit(Context& context, RequestId request, const WaitingLine& line) = 0;
};

class AdmitAll final : public Admission {
 public:
  bool Admit(Context&, RequestId, const WaitingLine&) override { return true; }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ADMISSION_H_
