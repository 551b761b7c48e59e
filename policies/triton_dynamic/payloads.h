// Payload: a batch that has left the queue, from its first request to its launch; until then it
// may be open and grow. Payloads live in a pool that keeps their memory. Owned by the policy.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_PAYLOADS_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_PAYLOADS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/api/plan.h"
#include "policies/api/time.h"

namespace schedtwin::triton {

struct Payload {
  std::vector<Entry> entries;
  std::uint32_t units = 0;
  std::uint32_t shape = 0;                 ///< of its first request
  Time oldest_enqueue = Time::Infinite();  ///< of all that it ever had
  bool misfit = false;  ///< a request of another shape is next: nothing is merged into it
  bool closed = false;  ///< marked as executing: it does not grow any more

  void Add(RequestId request, std::uint32_t request_units, std::uint32_t request_shape,
           Time enqueued) {
    if (entries.empty()) shape = request_shape;
    entries.push_back({request, request_units});
    units += request_units;
    oldest_enqueue = std::min(oldest_enqueue, enqueued);
  }
  void Merge(const Payload& other) {
    entries.insert(entries.end(), other.entries.begin(), other.entries.end());
    units += other.units;
    oldest_enqueue = std::min(oldest_enqueue, other.oldest_enqueue);
  }
  /// False: the request is not in it.
  bool Remove(RequestId request) {
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& e) { return e.request == request; });
    if (entry == entries.end()) return false;
    units -= entry->tokens;
    entries.erase(entry);
    return true;
  }
};

using PayloadId = std::uint32_t;
inline constexpr PayloadId kNoPayload = 0xffffffffu;

class PayloadPool {
 public:
  PayloadId New() {
    if (free_.empty()) {
      payloads_.emplace_back();
      return static_cast<PayloadId>(payloads_.size() - 1);
    }
    const PayloadId id = free_.back();
    free_.pop_back();
    return id;
  }
  void Free(PayloadId id) {
    std::vector<Entry> kept = std::move(payloads_[id].entries);
    kept.clear();
    payloads_[id] = Payload{.entries = std::move(kept)};
    free_.push_back(id);
  }
  /// Valid until the next New().
  Payload& operator[](PayloadId id) { return payloads_[id]; }
  const Payload& operator[](PayloadId id) const { return payloads_[id]; }

 private:
  std::vector<Payload> payloads_;
  std::vector<PayloadId> free_;
};

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_PAYLOADS_H_
