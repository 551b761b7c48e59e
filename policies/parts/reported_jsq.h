// ReportedJsq: joins the shortest queue by what devices report: waiting and running requests. A
// report is old when it comes, and a router that goes by it alone sends all that arrives meanwhile
// to one device (herding); with `optimistic` it also counts what it has sent since the report was
// taken and knows not to be over. A device that has not reported counts as empty. Of equals the
// lowest.
//
// Source: JSQ of splitwise-sim, made explicit as in Llumnix and Dynamo: reports with an interval
// and a delay, optimistic increments.
#ifndef SCHEDTWIN_POLICIES_PARTS_REPORTED_JSQ_H_
#define SCHEDTWIN_POLICIES_PARTS_REPORTED_JSQ_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/parts/router.h"

namespace schedtwin {

class ReportedJsq final : public Router {
 public:
  explicit ReportedJsq(bool optimistic = true) : optimistic_(optimistic) {}

  DeviceId Pick(const Context& context, RequestId) override {
    return LeastLoaded(context, [this](DeviceId device) { return Length(device); });
  }
  void OnSent(const Context& context, RequestId request, DeviceId device) override {
    if (optimistic_) Of(device).sent.push_back({request, context.now()});
  }
  void OnEnd(const Context&, RequestId request, DeviceId device) override {
    std::erase_if(Of(device).sent, [&](const Sent& sent) { return sent.request == request; });
  }
  void OnReport(const DeviceReport& report) override {
    Known& known = Of(report.id);
    known.length = std::uint64_t{report.waiting} + report.running;
    // What was sent at the very instant of the report may not be in it.
    std::erase_if(known.sent, [&](const Sent& sent) { return sent.at < report.taken; });
  }

 private:
  struct Sent {
    RequestId request;
    Time at;
  };
  struct Known {
    std::uint64_t length = 0;
    std::vector<Sent> sent;  // since the report was taken, and not over
  };

  Known& Of(DeviceId device) {
    if (device.value >= known_.size()) known_.resize(device.value + 1);
    return known_[device.value];
  }
  std::uint64_t Length(DeviceId device) {
    const Known& known = Of(device);
    return known.length + known.sent.size();
  }

  bool optimistic_;
  std::vector<Known> known_;  // by device
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_REPORTED_JSQ_H_
