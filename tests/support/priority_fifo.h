// PriorityFifo: non-preemptive priorities on one central queue for one-shot models: a free device
// takes the longest waiting request of the most urgent class. For tests against theory. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_PRIORITY_FIFO_H_
#define SCHEDTWIN_TESTS_SUPPORT_PRIORITY_FIFO_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/idle_devices.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

class PriorityFifo final : public Policy {
 public:
  /// Requests have priorities from 0, the most urgent, to `classes` - 1.
  explicit PriorityFifo(std::size_t classes) : waiting_(classes) {}

  void OnStart(Context& context) override { idle_.AddAll(context); }
  void OnArrival(Context& context, RequestId request) override {
    waiting_.at(static_cast<std::size_t>(context.request(request).priority())).PushBack(request);
    idle_.WakeOne(context);
  }
  void OnCancel(Context&, RequestId request, CancelBy) override {
    for (RequestQueue& queue : waiting_) queue.Remove(request);
  }
  void OnSlotFree(Context& context, DeviceId device) override {
    const auto urgent = std::find_if(waiting_.begin(), waiting_.end(),
                                     [](const RequestQueue& queue) { return !queue.empty(); });
    if (urgent == waiting_.end()) {
      idle_.Add(device);
      return;
    }
    const Entry entry{urgent->front(), context.request(urgent->front()).units()};
    urgent->PopFront();
    context.actions().Launch({.device = device, .entries = {&entry, 1}});
  }

 private:
  std::vector<RequestQueue> waiting_;  ///< by priority
  IdleDevices idle_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_PRIORITY_FIFO_H_
