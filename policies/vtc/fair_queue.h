// FairQueue: who waits for one device, and whose turn it is: of the clients that wait there the one
// with the smallest counter, of equals the one known first; its requests in the order they came. It
// also knows who runs on the device, to charge what they were made. One device's; the counters are
// shared.
#ifndef SCHEDTWIN_POLICIES_VTC_FAIR_QUEUE_H_
#define SCHEDTWIN_POLICIES_VTC_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/parts/engine_queue.h"
#include "policies/parts/request_queue.h"
#include "policies/vtc/counters.h"
#include "policies/vtc/peak_memory.h"

namespace schedtwin::vtc {

/// What the released code does otherwise than the paper, beside the lift.
struct Form {
  bool released = false;
  std::uint64_t max_total_tokens = 0;  ///< of its peak; 0: the device's KV
};

class FairQueue final : public EngineQueue {
 public:
  /// The counters outlive this.
  FairQueue(DeviceId device, const Form& form, Counters* counters)
      : device_(device), form_(form), counters_(counters) {}

  /// True if the device could run it were it alone there.
  bool CouldEverJoin(const Context& context, RequestId request) {
    return !form_.released || peak_.Fits(context, {}, request, Limit(context));
  }

  void Add(const Context& context, RequestId request) {
    const std::size_t client = counters_->ClientOf(context.request(request).tenant());
    counters_->OnArrival(client);
    QueueOf(client).PushBack(request);
  }
  /// Charges the tokens that those who run have got since the last time.
  void ChargeOutput(const Context& context) {
    for (Admitted& one : running_) ChargeOne(context, &one);
  }
  /// It has ended. False if it does not run here.
  bool OnEnd(const Context& context, RequestId request) {
    const auto at = Find(&running_, request);
    if (at == running_.end()) return false;
    ChargeOne(context, &*at);
    running_.erase(at);
    return true;
  }
  std::size_t clients_waiting() const {
    return static_cast<std::size_t>(std::count_if(
        queues_.begin(), queues_.end(), [](const RequestQueue& queue) { return !queue.empty(); }));
  }

  bool empty() const override { return clients_waiting() == 0; }
  RequestId Head(const Context&) override { return queues_[Next()].front(); }
  bool MayJoin(const Context& context, std::span<const RequestId> running) override {
    return !form_.released || peak_.Fits(context, running, Head(context), Limit(context));
  }
  void PopHead(const Context& context) override {
    const std::size_t client = Next();
    const RequestId request = queues_[client].front();
    queues_[client].PopFront();
    counters_->OnLeft(client);
    // A prompt is paid for once, however often it is computed.
    if (const auto before = Find(&put_back_, request); before != put_back_.end()) {
      running_.push_back(*before);
      put_back_.erase(before);
      return;
    }
    counters_->ChargeInput(client, context.request(request).prompt_tokens());
    // The released code charges for decodes; the first token is made by the prompt.
    running_.push_back({request, client, form_.released ? 1u : 0u});
  }
  void PutBack(const Context& context, RequestId request) override {
    const auto at = Find(&running_, request);
    ChargeOne(context, &*at);
    put_back_.push_back(*at);
    counters_->OnPutBack(at->client);
    QueueOf(at->client).PushFront(request);
    running_.erase(at);
  }
  bool Remove(const Context& context, RequestId request) override {
    const std::size_t client = counters_->ClientOf(context.request(request).tenant());
    if (client >= queues_.size() || !queues_[client].Remove(request)) return false;
    counters_->OnLeft(client);
    std::erase_if(put_back_, [&](const Admitted& one) { return one.request == request; });
    return true;
  }
  /// While one client waits its turn does not end; with more it may end at any token, and at each
  /// the peak may be another.
  bool HeadMayChange() const override { return clients_waiting() > (form_.released ? 0u : 1u); }

 private:
  struct Admitted {
    RequestId request;
    std::size_t client;
    std::uint32_t charged_tokens;  ///< of its output
  };

  static std::vector<Admitted>::iterator Find(std::vector<Admitted>* list, RequestId request) {
    return std::find_if(list->begin(), list->end(),
                        [&](const Admitted& one) { return one.request == request; });
  }
  RequestQueue& QueueOf(std::size_t client) {
    if (client >= queues_.size()) queues_.resize(client + 1);
    return queues_[client];
  }
  void ChargeOne(const Context& context, Admitted* one) {
    const std::uint32_t made = context.request(one->request).output_tokens();
    if (made <= one->charged_tokens) return;
    counters_->ChargeOutput(one->client, made - one->charged_tokens);
    one->charged_tokens = made;
  }
  /// REQUIRES: somebody waits.
  std::size_t Next() const {
    std::size_t next = Counters::kNobody;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].empty()) continue;
      if (next == Counters::kNobody || counters_->served(i) < counters_->served(next)) next = i;
    }
    return next;
  }

  std::uint64_t Limit(const Context& context) const {
    const DeviceView& device = context.device(device_);
    if (form_.max_total_tokens > 0) return form_.max_total_tokens;
    if (device.total_blocks == 0) return PeakMemory::kNoLimit;
    return std::uint64_t{device.total_blocks} * device.block_tokens;
  }

  DeviceId device_;
  Form form_;
  PeakMemory peak_;
  Counters* counters_;
  std::vector<RequestQueue> queues_;  ///< by client
  std::vector<Admitted> running_;
  std::vector<Admitted> put_back_;  ///< admitted before, and waiting again
};

}  // namespace schedtwin::vtc

#endif  // SCHEDTWIN_POLICIES_VTC_FAIR_QUEUE_H_
