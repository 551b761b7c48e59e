// CountedSource: passes requests on and counts them, so that someone can watch how far a run is.
// Policy thread of one run; the count is read elsewhere.
#ifndef SCHEDTWIN_EXPERIMENTS_COUNTED_SOURCE_H_
#define SCHEDTWIN_EXPERIMENTS_COUNTED_SOURCE_H_

#include <atomic>
#include <cstdint>

#include "policies/api/source.h"

namespace schedtwin {

class CountedSource final : public RequestSource {
 public:
  /// Both outlive this.
  CountedSource(RequestSource* source, std::atomic<std::uint64_t>* count)
      : source_(source), count_(count) {}

  Pull Next(RequestSpec* out) override {
    const Pull pull = source_->Next(out);
    if (pull == Pull::kRequest) count_->fetch_add(1, std::memory_order_relaxed);
    return pull;
  }
  void OnRequestEnd(std::uint64_t index, EndReason reason, Time now) override {
    source_->OnRequestEnd(index, reason, now);
  }

 private:
  RequestSource* source_;
  std::atomic<std::uint64_t>* count_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_COUNTED_SOURCE_H_
