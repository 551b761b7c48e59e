// Instance: one device of llumnix: who waits for it, who runs on it, and the places in its batch
// that are kept for requests on their way to it. Owned by the policy; one thread.
#ifndef SCHEDTWIN_POLICIES_LLUMNIX_INSTANCE_H_
#define SCHEDTWIN_POLICIES_LLUMNIX_INSTANCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "policies/api/context.h"
#include "policies/llumnix/freeness.h"
#include "policies/parts/batcher.h"
#include "policies/parts/continuous_engine.h"
#include "policies/parts/decode_mode.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

/// Whoever is more important than the default.
inline bool HasHighPriority(const RequestView& request) { return request.priority() < 0; }

/// High priority first, then first come first served; who is put back goes to the front of its
/// kind. Knows what those who wait will take.
class PriorityQueue final : public EngineQueue {
 public:
  explicit PriorityQueue(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  /// True if it is the head now.
  bool PushBack(const Context& context, RequestId request) {
    const RequestView view = context.request(request);
    Count(view, 1);
    RequestQueue& queue = Of(view);
    const bool first = queue.empty() && (&queue == &high_ || high_.empty());
    queue.PushBack(request);
    return first;
  }

  bool empty() const override { return high_.empty() && normal_.empty(); }
  RequestId Head(const Context&) override { return Front().front(); }
  void PopHead(const Context& context) override {
    Count(context.request(Front().front()), -1);
    Front().PopFront();
  }
  void PutBack(const Context& context, RequestId request) override {
    const RequestView view = context.request(request);
    Count(view, 1);
    Of(view).PushFront(request);
  }
  bool Remove(const Context& context, RequestId request) override {
    const RequestView view = context.request(request);
    if (!Of(view).Remove(request)) return false;
    Count(view, -1);
    return true;
  }

  /// Linear, as Remove is.
  bool Contains(const RequestView& request) const {
    const RequestQueue& queue = HasHighPriority(request) ? high_ : normal_;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (queue[i] == request.id()) return true;
    }
    return false;
  }

  std::size_t size() const { return high_.size() + normal_.size(); }
  std::int64_t blocks() const { return blocks_; }
  /// Those that were preempted.
  std::int64_t killed() const { return killed_; }

 private:
  RequestQueue& Of(const RequestView& request) {
    return HasHighPriority(request) ? high_ : normal_;
  }
  RequestQueue& Front() { return high_.empty() ? normal_ : high_; }
  void Count(const RequestView& request, std::int64_t sign) {
    blocks_ += sign * BlocksFor(request.known_tokens(), block_tokens_);
    killed_ += request.preemptions() > 0 ? sign : 0;
  }

  std::uint32_t block_tokens_;
  RequestQueue high_;
  RequestQueue normal_;
  std::int64_t blocks_ = 0;
  std::int64_t killed_ = 0;
};

/// Continuous batching with chunked prompts, and places kept free. Whoever runs has a token of each
/// step, whoever comes included.
class PlaceBatcher final : public Batcher {
 public:
  PlaceBatcher(std::uint32_t max_requests, std::uint32_t max_tokens, std::uint32_t device_tokens)
      : max_tokens_(device_tokens > 0 ? std::min(max_tokens, device_tokens) : max_tokens),
        max_requests_(std::min(max_requests, max_tokens_)) {}

  bool Admits(const StepDraft& step) const override { return HasPlace(step.running); }
  std::uint32_t PromptTokens(const StepDraft& step, std::uint32_t left) const override {
    return step.tokens() < max_tokens_ ? std::min(left, max_tokens_ - step.tokens()) : 0;
  }

  bool HasPlace(std::size_t running) const { return running + kept_ < max_requests_; }
  void Keep() { ++kept_; }
  void GiveUp() { --kept_; }

 private:
  std::uint32_t max_tokens_;
  std::uint32_t max_requests_;
  std::uint32_t kept_ = 0;
};

struct Instance {
  Instance(DeviceId device, std::uint32_t block_tokens, DecodeMode mode, const PlaceBatcher& places)
      : waiting(block_tokens),
        batcher(places),
        engine(device, mode, VictimOrder::kLastAdmitted, &batcher, &waiting) {}

  InstanceState State(const Context& context) const {
    const DeviceView& view = context.device(engine.device());
    return {.total_blocks = view.total_blocks,
            .free_blocks = view.free_blocks,
            .running = static_cast<std::int64_t>(engine.running().size()),
            .waiting = static_cast<std::int64_t>(waiting.size()),
            .waiting_blocks = waiting.blocks(),
            .killed = waiting.killed(),
            .priority_requests = priority_requests,
            .draining = view.state == DeviceState::kDraining};
  }
  /// Memory or a place in the batch has become free, or somebody has come.
  void Wake(Context& context) {
    if (context.device(engine.device()).up()) engine.OnQueued(context, /*may_be_next=*/true);
  }

  PriorityQueue waiting;
  PlaceBatcher batcher;
  ContinuousEngine engine;
  std::int64_t priority_requests = 0;  ///< that wait or run here
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_LLUMNIX_INSTANCE_H_
