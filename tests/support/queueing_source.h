// QueueingSource: Poisson arrivals with independent service times of given laws, as a source of
// requests, without a vector of millions of rows. Service times are sizes of requests: units of a
// one-shot model, or output tokens of a decoder after a prompt of one token. With one class it
// gives what synth:poisson does. Deterministic given its seed; one thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SOURCE_H_
#define SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SOURCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/api/request.h"
#include "policies/api/rng.h"
#include "policies/api/source.h"

namespace schedtwin::queueing {

/// The mean service time.
inline constexpr std::uint32_t kServiceNs = 1'000'000;

/// Laws of service times, each of mean 1.
enum class Law : std::uint8_t {
  kConstant,
  kExponential,
  kUniform,           ///< on [0, 2]
  kTwoPoint,          ///< kShort with probability kShortShare, else kLong
  kHyperexponential,  ///< two exponentials that bring half of the work each: "balanced means"
};

inline constexpr double kShort = 0.5, kShortShare = 0.8, kLong = 3;
/// The probability of the shorter exponential: (1 + sqrt(1/3)) / 2, for a squared coefficient of
/// variation of 2.
inline constexpr double kFastShare = 0.78867513459481288;

inline double SecondMoment(Law law) {
  switch (law) {
    case Law::kConstant:
      return 1;
    case Law::kExponential:
      return 2;
    case Law::kUniform:
      return 4.0 / 3;
    case Law::kTwoPoint:
      return kShortShare * kShort * kShort + (1 - kShortShare) * kLong * kLong;
    case Law::kHyperexponential:
      return 1 / (2 * kFastShare * (1 - kFastShare));
  }
  return 0;
}

inline double Draw(Law law, Rng& rng) {
  switch (law) {
    case Law::kConstant:
      return 1;
    case Law::kExponential:
      return rng.Exponential();
    case Law::kUniform:
      return 2 * rng.Uniform();
    case Law::kTwoPoint:
      return rng.Uniform() < kShortShare ? kShort : kLong;
    case Law::kHyperexponential: {
      const double share = rng.Uniform() < kFastShare ? kFastShare : 1 - kFastShare;
      return rng.Exponential() / (2 * share);
    }
  }
  return 0;
}

/// A part of the arrivals; its place in the list is its priority.
struct ServiceClass {
  double share = 1;
  double mean = 1;
  Law law = Law::kExponential;
};

/// How a service time becomes the size of a request.
struct Sizing {
  ModelKind kind = ModelKind::kOneShot;
  std::uint32_t mean = kServiceNs;  ///< units or tokens of a service time of 1
};

class QueueingSource final : public RequestSource {
 public:
  /// `rate`: arrivals per mean service time. REQUIRES: the shares add up to 1.
  QueueingSource(std::uint64_t seed, std::uint64_t count, double rate, Sizing sizing,
                 std::vector<ServiceClass> classes)
      : arrivals_(seed, "arrivals"),
        units_(seed, "units"),
        class_of_(seed, "classes"),
        left_(count),
        mean_gap_ns_(kServiceNs / rate),
        sizing_(sizing),
        geometric_mean_(-1 / FixedLog(1 - 1.0 / sizing.mean)),
        classes_(std::move(classes)) {}

  Pull Next(RequestSpec* out) override {
    if (left_ == 0) return Pull::kDry;
    --left_;
    if (!first_) at_ns_ += static_cast<std::int64_t>(mean_gap_ns_ * arrivals_.Exponential() + 0.5);
    first_ = false;
    const std::size_t k = NextClass();
    const ServiceClass& service = classes_[k];
    *out = RequestSpec{.arrival = Time::Nanos(at_ns_), .priority = static_cast<std::int32_t>(k)};
    const double time = service.mean * Draw(service.law, units_);
    if (sizing_.kind == ModelKind::kDecoder) {
      out->prompt_tokens = 1;
      out->output_tokens = Tokens(service.law, time);
    } else {
      out->units = std::max(1u, static_cast<std::uint32_t>(sizing_.mean * time + 0.5));
    }
    return Pull::kRequest;
  }

 private:
  std::size_t NextClass() {
    if (classes_.size() == 1) return 0;
    double above = class_of_.Uniform();
    std::size_t k = 0;
    while (k + 1 < classes_.size() && above >= classes_[k].share) above -= classes_[k++].share;
    return k;
  }

  /// Tokens are few, so it matters how they are rounded: an exponential time, scaled and rounded
  /// up, is geometric, a uniform one uniform on 1 .. 2 mean - 1, both with the very mean.
  std::uint32_t Tokens(Law law, double time) const {
    const double tokens = law == Law::kExponential ? geometric_mean_ * time
                          : law == Law::kUniform   ? (sizing_.mean - 0.5) * time
                                                   : sizing_.mean * time;
    return std::max(1u, static_cast<std::uint32_t>(std::ceil(tokens)));
  }

  Rng arrivals_;
  Rng units_;
  Rng class_of_;
  std::uint64_t left_;
  double mean_gap_ns_;
  Sizing sizing_;
  double geometric_mean_;
  std::vector<ServiceClass> classes_;
  bool first_ = true;
  std::int64_t at_ns_ = 0;
};

}  // namespace schedtwin::queueing

#endif  // SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SOURCE_H_
