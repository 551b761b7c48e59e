// ResponseOrder: responses leave in the order in which their requests left the queue, whichever
// execution is done first. Owned by the policy; deterministic.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RESPONSE_ORDER_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RESPONSE_ORDER_H_

#include <cstddef>

#include "policies/api/context.h"
#include "policies/triton_dynamic/ring.h"

namespace schedtwin::triton {

class ResponseOrder {
 public:
  /// The request leaves the queue: its response is the last for now.
  void Reserve(Context& context, RequestId request) {
    context.actions().HoldResponse(request);
    slots_.PushBack(request);
  }
  /// Sends what is finished and has nobody unfinished before it.
  void Send(Context& context) {
    while (!slots_.empty() && context.request(slots_.front()).state() == RequestState::kHeld) {
      context.actions().ReleaseResponse(slots_.PopFront());
    }
  }
  /// The request ends without a response, or has none here.
  void Remove(Context& context, RequestId request) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] != request) continue;
      slots_.Erase(i);
      Send(context);
      return;
    }
  }

 private:
  Ring<RequestId> slots_;
};

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RESPONSE_ORDER_H_
