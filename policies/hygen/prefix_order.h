// PrefixOrder: offline requests in the order in which they came, or so that those who share most of
// their prompts are next to one another. Who shares most with what is cached on the device now goes
// first; of equals, who has the whole prompt, then the session, of the one before it; then who came
// first. Every so often the oldest goes instead, so that nobody waits for ever. Only the oldest
// `window` are looked at. Owned by one engine of hygen; one thread; the device's cache outlives it.
#ifndef SCHEDTWIN_POLICIES_HYGEN_PREFIX_ORDER_H_
#define SCHEDTWIN_POLICIES_HYGEN_PREFIX_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "policies/parts/engine_queue.h"
#include "policies/parts/request_queue.h"

namespace schedtwin {

struct PrefixOrderRule {
  bool by_prefix = false;
  std::uint32_t window = 1;          ///< of the oldest, looked at
  std::uint32_t oldest_percent = 0;  ///< of those that go, the oldest instead
};

class PrefixOrder final : public EngineQueue {
 public:
  PrefixOrder(const Cache* cache, const PrefixOrderRule& rule) : cache_(cache), rule_(rule) {}

  void PushBack(RequestId request) { queue_.PushBack(request); }

  bool empty() const override { return queue_.empty(); }
  RequestId Head(const Context& context) override {
    if (!rule_.by_prefix || share_ + rule_.oldest_percent >= 100) return queue_.front();
    const std::size_t looked_at = std::min<std::size_t>(queue_.size(), rule_.window);
    RequestId best = queue_.front();
    for (std::size_t i = 1; i < looked_at; ++i) {
      if (Sharing(context, queue_[i]) > Sharing(context, best)) best = queue_[i];
    }
    return best;
  }
  void PopHead(const Context& context) override {
    const RequestId head = Head(context);
    const RequestView view = context.request(head);
    last_content_ = view.content();
    last_session_ = view.session();
    share_ = (share_ + rule_.oldest_percent) % 100;
    queue_.Remove(head);
  }
  void PutBack(const Context&, RequestId request) override { queue_.PushFront(request); }
  bool Remove(const Context&, RequestId request) override { return queue_.Remove(request); }

 private:
  std::tuple<std::uint32_t, bool, bool> Sharing(const Context& context, RequestId request) const {
    const RequestView view = context.request(request);
    return {cache_->HitTokens(request), view.content() != 0 && view.content() == last_content_,
            view.session() != 0 && view.session() == last_session_};
  }

  const Cache* cache_;
  PrefixOrderRule rule_;
  RequestQueue queue_;
  std::uint64_t last_content_ = 0;
  std::uint64_t last_session_ = 0;
  std::uint32_t share_ = 0;  ///< percent of one that the oldest has coming
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_HYGEN_PREFIX_ORDER_H_
