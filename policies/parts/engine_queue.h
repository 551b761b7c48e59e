// EngineQueue: who waits for one device, and who of them is admitted next. A ContinuousEngine asks;
// the policy that owns both puts arrivals in. Not every order is one of arrival: a fair queue has
// another head each time somebody is served. FcfsQueue is the plain one. One thread.
#ifndef SCHEDTWIN_POLICIES_PARTS_ENGINE_QUEUE_H_
#define SCHEDTWIN_POLICIES_PARTS_ENGINE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "policies/api/context.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

class EngineQueue {
 public:
  virtual ~EngineQueue() = default;

  virtual bool empty() const = 0;
  /// Whom to admit next; the same one until somebody is put in or taken out. REQUIRES: !empty().
  virtual RequestId Head(const Context& context) = 0;
  /// True if the head may join those who run there, as far as the queue is concerned; if not,
  /// nobody behind it is asked. REQUIRES: !empty().
  virtual bool MayJoin(const Context& context, std::span<const RequestId> running) {
    (void)context, (void)running;
    return true;
  }
  /// Takes the head out: it was admitted. REQUIRES: !empty().
  virtual void PopHead(const Context& context) = 0;
  /// Takes back one that was preempted, or that a failed device has lost. Of several that are lost
  /// at once the last admitted comes first.
  virtual void PutBack(const Context& context, RequestId request) = 0;
  /// Takes out one that is over or goes elsewhere; false if it is not here.
  virtual bool Remove(const Context& context, RequestId request) = 0;
  /// True if after any step the head may be another, or may join, though nobody comes or goes: a
  /// plan of many steps must not pass over that.
  virtual bool HeadMayChange() const { return false; }
};

/// First come first served; who is put back goes to the front.
class FcfsQueue final : public EngineQueue {
 public:
  void PushBack(const Context& context, RequestId request) {
    queue_.PushBack(request);
    tokens_ += context.request(request).next_tokens();
  }

  bool empty() const override { return queue_.empty(); }
  RequestId Head(const Context&) override { return queue_.front(); }
  void PopHead(const Context& context) override {
    tokens_ -= context.request(queue_.front()).next_tokens();
    queue_.PopFront();
  }
  void PutBack(const Context& context, RequestId request) override {
    queue_.PushFront(request);
    tokens_ += context.request(request).next_tokens();
  }
  bool Remove(const Context& context, RequestId request) override {
    if (!queue_.Remove(request)) return false;
    tokens_ -= context.request(request).next_tokens();
    return true;
  }

  bool Contains(RequestId request) const { return queue_.Contains(request); }
  std::size_t size() const { return queue_.size(); }
  /// That all who wait have to compute first.
  std::uint64_t tokens() const { return tokens_; }

 private:
  RequestQueue queue_;
  std::uint64_t tokens_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_ENGINE_QUEUE_H_
