// The length predictors that a run can be given, made from a text such as `noisy:sigma=0.5`. Each
// says of the true output length what a real predictor of a stated quality could have said:
//
//   oracle                            the truth
//   noisy:sigma=0.5                   the truth times a lognormal error: right in the median, by
//                                     e^(sigma^2 / 2) too long in the mean
//   ranked:tau=0.6                    estimates with the trace's own distribution, whose rank
//                                     correlation with the truth is Kendall's tau (vllm-ltr reports
//                                     its predictor so): a Gaussian copula of correlation
//                                     sin(pi tau / 2) (Kruskal 1958). Equal lengths are ranked by a
//                                     draw of each request, so tau is that of truths so ranked;
//                                     with few distinct lengths estimates tie as well
//   bucketed:buckets=10,accuracy=0.8  the class of a classifier of lengths (S3, SSJF), right with
//                                     that probability, else a neighbouring one; said as the
//                                     bucket's upper bound, which S3 reserves memory by, or with
//                                     estimate=median as the median of the trace's lengths in it.
//                                     Buckets of equal mass in the trace, or bounds=64/256/1024:
//                                     upper bounds; what is longer counts as of the last
//
// Draws are keyed by (seed, request), so that an answer depends on nothing that was asked before.
// Immutable once made; safe from any thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTORS_H_
#define SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policies/runtime/length_predictor.h"

namespace schedtwin {

class OracleLengths final : public LengthPredictor {
 public:
  std::uint32_t Predict(RequestId, std::uint32_t true_tokens) const override { return true_tokens; }
};

class NoisyLengths final : public LengthPredictor {
 public:
  /// `sigma`: deviation of the logarithm, at least 0.
  NoisyLengths(std::uint64_t seed, double sigma) : seed_(seed), sigma_(sigma) {}
  std::uint32_t Predict(RequestId request, std::uint32_t true_tokens) const override;

 private:
  std::uint64_t seed_;
  double sigma_;
};

class RankedLengths final : public LengthPredictor {
 public:
  /// `tau` from -1 to 1. REQUIRES: `lengths`, the true ones of the trace, are sorted; one at least.
  RankedLengths(std::uint64_t seed, double tau, std::vector<std::uint32_t> lengths);
  std::uint32_t Predict(RequestId request, std::uint32_t true_tokens) const override;

 private:
  std::uint64_t seed_;
  double correlation_;  ///< of the normal scores
  double noise_;        ///< what is left to an independent one
  std::vector<std::uint32_t> lengths_;
};

class BucketedLengths final : public LengthPredictor {
 public:
  struct Bucket {
    std::uint32_t upper = 0;     ///< holds what is longer than the one before and at most this
    std::uint32_t estimate = 0;  ///< said of its requests
  };
  /// REQUIRES: one bucket at least, with rising bounds; `accuracy` from 0 to 1.
  BucketedLengths(std::uint64_t seed, double accuracy, std::vector<Bucket> buckets)
      : seed_(seed), accuracy_(accuracy), buckets_(std::move(buckets)) {}
  std::uint32_t Predict(RequestId request, std::uint32_t true_tokens) const override;

 private:
  std::uint64_t seed_;
  double accuracy_;
  std::vector<Bucket> buckets_;
};

struct MadeLengthPredictor {
  std::unique_ptr<LengthPredictor> predictor;  ///< null: see `error`
  /// What it says is the truth, or gives it away: `oracle`, and the others without any error. Such
  /// a predictor needs the oracle's capability.
  bool tells_truth = false;
  std::string error;  ///< one line: what is wrong, and what would be right
};

/// `lengths`: the true output lengths of the trace, in any order; `ranked` and buckets of equal
/// mass come from them.
MadeLengthPredictor MakeLengthPredictor(const std::string& text, std::uint64_t seed,
                                        std::vector<std::uint32_t> lengths);

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_LENGTH_PREDICTORS_H_
