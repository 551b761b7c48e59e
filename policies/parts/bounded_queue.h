// BoundedQueue: turns away who would find `max_waiting` requests in the queue already. Source:
// Triton's max_queue_size (REJECT), where what is in a batch already does not count either.
#ifndef SCHEDTWIN_POLICIES_PARTS_BOUNDED_QUEUE_H_
#define SCHEDTWIN_POLICIES_PARTS_BOUNDED_QUEUE_H_

#include <cstdint>

#include "policies/parts/admission.h"

namespace schedtwin {

class BoundedQueue final : public Admission {
 public:
  explicit BoundedQueue(std::uint64_t max_waiting) : max_waiting_(max_waiting) {}

  bool Admit(Context&, RequestId, const WaitingLine& line) override {
    return line.requests < max_waiting_;
  }

 private:
  std::uint64_t max_waiting_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_BOUNDED_QUEUE_H_
