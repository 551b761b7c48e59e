// TokenBucket: a rate limit of each tenant: a bucket fills with `per_second` requests' worth a
// second, holds `burst` at most and starts full; a request takes one or is turned away (RFC 2697's
// committed rate and burst). Exact: levels are counted in billionths of a request.
#ifndef SCHEDTWIN_POLICIES_PARTS_TOKEN_BUCKET_H_
#define SCHEDTWIN_POLICIES_PARTS_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/parts/admission.h"

namespace schedtwin {

class TokenBucket final : public Admission {
 public:
  /// REQUIRES: 1 <= burst and per_second, both at most 10^9.
  TokenBucket(std::uint64_t per_second, std::uint64_t burst)
      : per_second_(per_second), capacity_(burst * kOne) {}

  bool Admit(Context& context, RequestId request, const WaitingLine&) override {
    return Take(context.request(request).tenant(), context.now());
  }
  /// One request of `tenant`. Instants must not go back.
  bool Take(std::uint32_t tenant, Time now) {
    if (tenant >= buckets_.size()) buckets_.resize(tenant + 1, {capacity_, Time()});
    Bucket& bucket = buckets_[tenant];
    const auto waited = static_cast<std::uint64_t>((now - bucket.filled).ns());
    // Full long before the product could overflow.
    const std::uint64_t missing = capacity_ - bucket.level;
    const bool full = waited >= missing / per_second_ + 1;
    bucket.level = full ? capacity_ : std::min(capacity_, bucket.level + waited * per_second_);
    bucket.filled = now;
    if (bucket.level < kOne) return false;
    bucket.level -= kOne;
    return true;
  }

 private:
  static constexpr std::uint64_t kOne = 1'000'000'000;  // a rate of 1/s is 1 of these a nanosecond
  struct Bucket {
    std::uint64_t level = 0;
    Time filled;  // when `level` was right
  };

  std::uint64_t per_second_;
  std::uint64_t capacity_;
  std::vector<Bucket> buckets_;  // by tenant
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_TOKEN_BUCKET_H_
