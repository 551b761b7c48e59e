// Length predictors: each is as good as it is said to be, and says the same of a request whenever
// it is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/length_predictors.h"
#include "tests/support/data.h"
#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

using ::testing::HasSubstr;
using Lengths = std::vector<std::uint32_t>;

constexpr std::uint32_t kCount = 20'000;

template <class DrawOne>
Lengths Many(std::uint32_t count, DrawOne draw) {
  Rng rng(7, "lengths");
  Lengths lengths;
  while (lengths.size() < count) lengths.push_back(1 + static_cast<std::uint32_t>(draw(&rng)));
  return lengths;
}

Lengths Exponential() {
  return Many(kCount, [](Rng* rng) { return 5000 * rng->Exponential(); });
}
Lengths Uniform() {
  return Many(kCount, [](Rng* rng) { return rng->Below(100'000); });
}
Lengths TwoPeaks() {
  return Many(kCount, [](Rng* rng) {
    return (rng->Below(3) == 0 ? 200'000 : 20'000) + 3000 * std::abs(rng->Normal());
  });
}
Lengths Azure() {
  const auto trace = OpenTrace({.spec = AzureConv(), .seed = 1});
  EXPECT_TRUE(trace.ok()) << trace.status();
  Lengths lengths;
  if (!trace.ok()) return lengths;
  const auto source = TraceSource::Create(*trace, {});
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return lengths;
  RequestSpec request;
  while ((*source)->Next(&request) == Pull::kRequest) lengths.push_back(request.output_tokens);
  return lengths;
}

std::unique_ptr<LengthPredictor> Make(const std::string& text, const Lengths& lengths,
                                      std::uint64_t seed = 1) {
  MadeLengthPredictor made = MakeLengthPredictor(text, seed, lengths);
  EXPECT_NE(made.predictor, nullptr) << made.error;
  return std::move(made.predictor);
}

/// What is said of requests 0, 1, ... of these true lengths.
Lengths Estimates(const LengthPredictor& predictor, const Lengths& lengths) {
  Lengths estimates;
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    estimates.push_back(predictor.Predict({i}, lengths[i]));
  }
  return estimates;
}

struct Kendall {
  double concordant = 0, discordant = 0;
  double untied_truths = 0, untied_estimates = 0;  ///< pairs

  double tau_b() const {
    return (concordant - discordant) / std::sqrt(untied_truths * untied_estimates);
  }
  double gamma() const { return (concordant - discordant) / (concordant + discordant); }
};

/// Pairs i < j with values[i] > values[j]; sorts. Merge sort.
double Inversions(Lengths* values) {
  if (values->size() < 2) return 0;
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  Lengths left(values->begin(), middle), right(middle, values->end());
  double inversions = Inversions(&left) + Inversions(&right);
  auto l = left.begin();
  auto r = right.begin();
  for (std::uint32_t& value : *values) {
    if (r == right.end() || (l != left.end() && *l <= *r)) {
      value = *l++;
    } else {
      inversions += static_cast<double>(left.end() - l);
      value = *r++;
    }
  }
  return inversions;
}

template <class Values>
double TiedPairs(Values values) {
  std::sort(values.begin(), values.end());
  double pairs = 0;
  for (auto it = values.begin(); it != values.end();) {
    const auto end = std::upper_bound(it, values.end(), *it);
    const auto n = static_cast<double>(end - it);
    pairs += n * (n - 1) / 2;
    it = end;
  }
  return pairs;
}

/// Knight's algorithm.
Kendall Measure(const Lengths& truths, const Lengths& estimates) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < truths.size(); ++i) pairs.emplace_back(truths[i], estimates[i]);
  std::sort(pairs.begin(), pairs.end());
  Lengths by_truth;
  for (const auto& pair : pairs) by_truth.push_back(pair.second);
  const auto n = static_cast<double>(truths.size());
  Kendall kendall;
  kendall.untied_truths = n * (n - 1) / 2 - TiedPairs(truths);
  kendall.untied_estimates = n * (n - 1) / 2 - TiedPairs(estimates);
  kendall.discordant = Inversions(&by_truth);
  const double untied =
      n * (n - 1) / 2 - TiedPairs(truths) - TiedPairs(estimates) + TiedPairs(pairs);
  kendall.concordant = untied - kendall.discordant;
  return kendall;
}

TEST(KendallTau, OfFiveByHand) {
  // Of ten pairs one is tied in the truth and one in the estimate; (2, 3) and (3, 2) disagree.
  const Kendall kendall = Measure({1, 2, 2, 3, 4}, {1, 3, 2, 2, 9});
  EXPECT_EQ(kendall.concordant, 7);
  EXPECT_EQ(kendall.discordant, 1);
  EXPECT_EQ(kendall.untied_truths, 9);
  EXPECT_EQ(kendall.untied_estimates, 9);
}

struct Trace {
  const char* name;
  Lengths (*lengths)();
  friend void PrintTo(const Trace& trace, std::ostream* out) { *out << trace.name; }
};

class RankedLengthsOf : public testing::TestWithParam<Trace> {};

TEST_P(RankedLengthsOf, HaveTheKendallTauAskedFor) {
  const Lengths lengths = GetParam().lengths();
  ASSERT_GT(lengths.size(), 10'000u);
  for (const double tau : {-0.8, -0.3, 0.0, 0.3, 0.6, 0.9}) {
    const auto predictor = Make("ranked:tau=" + std::to_string(tau), lengths);
    const Kendall kendall = Measure(lengths, Estimates(*predictor, lengths));
    // The deviation of a sample's tau is at most 2 / (3 sqrt(n)): 0.0047.
    EXPECT_NEAR(kendall.tau_b(), tau, 0.02) << "asked for " << tau;
  }
}

TEST_P(RankedLengthsOf, AreDistributedLikeTheTruth) {
  Lengths lengths = GetParam().lengths();
  Lengths estimates = Estimates(*Make("ranked:tau=0.5", lengths), lengths);
  std::sort(lengths.begin(), lengths.end());
  std::sort(estimates.begin(), estimates.end());
  double worst = 0;  // Kolmogorov and Smirnov's distance
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto below = std::upper_bound(estimates.begin(), estimates.end(), lengths[i]);
    const auto truly = std::upper_bound(lengths.begin(), lengths.end(), lengths[i]);
    worst = std::max(worst, std::abs(static_cast<double>(below - estimates.begin()) -
                                     static_cast<double>(truly - lengths.begin())));
  }
  EXPECT_LT(worst / static_cast<double>(lengths.size()), 0.02);
}

TEST_P(RankedLengthsOf, WithoutErrorAreTheTruthOrItsReverse) {
  const Lengths lengths = GetParam().lengths();
  EXPECT_EQ(Estimates(*Make("ranked:tau=1", lengths), lengths), lengths);
  const Lengths reversed = Estimates(*Make("ranked:tau=-1", lengths), lengths);
  const Kendall kendall = Measure(lengths, reversed);
  EXPECT_EQ(kendall.concordant, 0);
  EXPECT_GT(kendall.discordant, 0);
}

INSTANTIATE_TEST_SUITE_P(Traces, RankedLengthsOf,
                         testing::Values(Trace{"Exponential", Exponential},
                                         Trace{"Uniform", Uniform}, Trace{"TwoPeaks", TwoPeaks},
                                         Trace{"AzureConv", Azure}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(RankedLengths, FewDistinctLengthsTieInTheEstimateToo) {
  const Lengths lengths = Many(kCount, [](Rng* rng) { return rng->Below(4); });
  const Kendall kendall = Measure(lengths, Estimates(*Make("ranked:tau=0.5", lengths), lengths));
  const auto n = static_cast<double>(kCount);
  EXPECT_LT((kendall.concordant - kendall.discordant) / (n * (n - 1) / 2), 0.5);  // ties count 0
  EXPECT_GT(kendall.gamma(), 0.5);  // and what does not tie is ranked better
}

TEST(RankedLengths, LengthThatTheTraceLacksStandsBetweenItsNeighbours) {
  const auto predictor = Make("ranked:tau=1", {10, 20, 30, 40});
  EXPECT_EQ(predictor->Predict({0}, 1), 10u);
  EXPECT_THAT(predictor->Predict({0}, 25), testing::AnyOf(20u, 30u));
  EXPECT_EQ(predictor->Predict({0}, 1000), 40u);
}

TEST(NoisyLengths, ErrorIsLognormal) {
  constexpr std::uint32_t kTruth = 1'000'000;  // rounding to tokens is nothing
  for (const double sigma : {0.1, 0.5, 1.0}) {
    const auto predictor = Make("noisy:sigma=" + std::to_string(sigma), {});
    const double n = 200'000;
    double mean = 0, square = 0, ratio = 0, longer = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t estimate = predictor->Predict({i}, kTruth);
      const double error = std::log(estimate / double{kTruth});
      mean += error / n;
      square += error * error / n;
      ratio += estimate / double{kTruth} / n;
      longer += (estimate > kTruth) / n;
    }
    EXPECT_NEAR(mean, 0, 5 * sigma / std::sqrt(n));
    EXPECT_NEAR(square / (sigma * sigma), 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(longer, 0.5, 5 * 0.5 / std::sqrt(n));
    const double variance = std::exp(sigma * sigma) * (std::exp(sigma * sigma) - 1);
    EXPECT_NEAR(ratio, std::exp(sigma * sigma / 2), 5 * std::sqrt(variance / n));
  }
}

TEST(NoisyLengths, StayWithinWhatALengthCanBe) {
  const auto predictor = Make("noisy:sigma=10", {});
  bool shortest = false, longest = false;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint32_t estimate = predictor->Predict({i}, 1000);
    ASSERT_GE(estimate, 1u);
    shortest |= estimate == 1;
    longest |= estimate == 0xffffffffu;
  }
  EXPECT_TRUE(shortest && longest);
  EXPECT_EQ(Make("noisy:sigma=0", {})->Predict({3}, 77), 77u);
}

TEST(BucketedLengths, AreRightAsOftenAsAskedAndElseNeighbours) {
  const Lengths lengths = Uniform();
  const auto predictor = Make("bucketed:buckets=10,accuracy=0.8", lengths);
  const auto oracle = Make("bucketed:buckets=10,accuracy=1", lengths);
  Lengths uppers = Estimates(*oracle, lengths);
  std::sort(uppers.begin(), uppers.end());
  uppers.erase(std::unique(uppers.begin(), uppers.end()), uppers.end());
  ASSERT_EQ(uppers.size(), 10u);
  const auto bucket_of = [&](std::uint32_t length) {
    return std::lower_bound(uppers.begin(), uppers.end(), length) - uppers.begin();
  };
  double right = 0, above = 0, below = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const auto off = bucket_of(predictor->Predict({i}, lengths[i])) - bucket_of(lengths[i]);
    ASSERT_LE(std::abs(off), 1);
    (off == 0 ? right : off > 0 ? above : below) += 1.0 / kCount;
  }
  const double deviation = std::sqrt(0.8 * 0.2 / kCount);
  EXPECT_NEAR(right, 0.8, 5 * deviation);
  EXPECT_NEAR(above, 0.1, 5 * deviation);  // the ends have one neighbour each
  EXPECT_NEAR(below, 0.1, 5 * deviation);
}

TEST(BucketedLengths, HaveEqualMassAndTheirUpperBound) {
  Lengths lengths(100);
  std::iota(lengths.begin(), lengths.end(), 1);
  const auto predictor = Make("bucketed:buckets=4,accuracy=1", lengths);
  for (const std::uint32_t length : lengths) {
    EXPECT_EQ(predictor->Predict({0}, length), (length + 24) / 25 * 25);
  }
  EXPECT_EQ(predictor->Predict({0}, 5000), 100u);
  const auto median = Make("bucketed:buckets=4,accuracy=1,estimate=median", lengths);
  for (const std::uint32_t length : lengths) {
    EXPECT_EQ(median->Predict({0}, length), (length - 1) / 25 * 25 + 13);
  }
}

TEST(BucketedLengths, EqualLengthsStayTogether) {
  const Lengths lengths = {5, 5, 5, 5, 5, 5, 9, 9};
  const auto predictor = Make("bucketed:buckets=4,accuracy=0", lengths);
  EXPECT_EQ(predictor->Predict({0}, 5), 9u);  // two buckets are left, the other one is wrong
  EXPECT_EQ(predictor->Predict({0}, 9), 5u);
  EXPECT_EQ(Make("bucketed:buckets=1,accuracy=0", lengths)->Predict({0}, 5), 9u);
}

TEST(BucketedLengths, TakeBounds) {
  const auto predictor = Make("bucketed:bounds=64/256/1024,accuracy=1", {});
  EXPECT_EQ(predictor->Predict({0}, 1), 64u);
  EXPECT_EQ(predictor->Predict({0}, 64), 64u);
  EXPECT_EQ(predictor->Predict({0}, 65), 256u);
  EXPECT_EQ(predictor->Predict({0}, 9999), 1024u);
  const Lengths lengths = {3, 10, 11, 2000, 3000, 4000};
  const auto median = Make("bucketed:bounds=64/256/1024,accuracy=1,estimate=median", lengths);
  EXPECT_EQ(median->Predict({0}, 7), 10u);
  EXPECT_EQ(median->Predict({0}, 100), 256u) << "nothing is there";
  EXPECT_EQ(median->Predict({0}, 1000), 3000u);
}

TEST(LengthPredictors, SayTheSameWheneverAsked) {
  const Lengths lengths = Exponential();
  for (const char* text :
       {"oracle", "noisy:sigma=0.5", "ranked:tau=0.4", "bucketed:buckets=8,accuracy=0.5",
        "bucketed:bounds=500/5000/9999,accuracy=0"}) {
    SCOPED_TRACE(text);
    const Lengths once = Estimates(*Make(text, lengths), lengths);
    EXPECT_EQ(once, Estimates(*Make(text, lengths), lengths));
    const auto predictor = Make(text, lengths);
    for (std::uint32_t i = kCount; i-- > 0;) {
      ASSERT_EQ(predictor->Predict({i}, lengths[i]), once[i]);
    }
    const Lengths other_seed = Estimates(*Make(text, lengths, 2), lengths);
    EXPECT_EQ(other_seed == once, std::string(text) == "oracle");
  }
}

TEST(LengthPredictors, ThoseThatTellTheTruthAreMarked) {
  const Lengths lengths = {1, 2, 3, 4};
  for (const char* text : {"oracle", "noisy:sigma=0", "ranked:tau=1", "ranked:tau=-1",
                           "bucketed:buckets=4,accuracy=1"}) {
    EXPECT_TRUE(MakeLengthPredictor(text, 1, lengths).tells_truth) << text;
  }
  for (const char* text : {"noisy:sigma=0.1", "ranked:tau=0.9", "bucketed:buckets=4,accuracy=0.9",
                           "bucketed:buckets=2,accuracy=1", "bucketed:bounds=2,accuracy=1"}) {
    EXPECT_FALSE(MakeLengthPredictor(text, 1, lengths).tells_truth) << text;
  }
}

TEST(LengthPredictors, MistakesAreOneClearLine) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "there is no length predictor ''; it is one of oracle, noisy, ranked, bucketed"},
      {"orcale", "there is no length predictor 'orcale'"},
      {"oracle:sigma=1", "length predictor oracle: it has no setting 'sigma'; it has none"},
      {"noisy", "length predictor noisy: it needs sigma=, a number from 0 to 10"},
      {"noisy:", "it needs sigma="},
      {"noisy:sigma", "sigma cannot be ''"},
      {"noisy:sigma=x", "sigma cannot be 'x'; it takes a number from 0 to 10"},
      {"noisy:sigma=-1", "sigma cannot be '-1'"},
      {"noisy:sigma=nan", "sigma cannot be 'nan'"},
      {"noisy:sigma=1,sigma=2", "it has no setting 'sigma'"},
      {"noisy:sigma=0.5ms", "sigma cannot be '0.5ms'"},
      {"ranked:tau=1.5", "tau cannot be '1.5'; it takes a number from -1 to 1"},
      {"ranked:tau=0.5,x=1", "it has no setting 'x'; it has tau"},
      {"bucketed:buckets=4", "it needs accuracy="},
      {"bucketed:buckets=0,accuracy=1", "buckets cannot be '0'"},
      {"bucketed:buckets=2.5,accuracy=1", "buckets takes a whole number"},
      {"bucketed:accuracy=1,estimate=mean", "estimate cannot be 'mean'; it is upper or median"},
      {"bucketed:accuracy=1,bounds=64/32", "bounds cannot be '64/32'"},
      {"bucketed:accuracy=1,bounds=0/32", "bounds cannot be '0/32'"},
      {"bucketed:accuracy=1,bounds=3/", "bounds cannot be '3/'"},
      {"bucketed:accuracy=1,bounds=", "bounds cannot be ''"},
      {"bucketed:accuracy=1,bounds=3,buckets=2", "it has no setting 'buckets'"},
  };
  for (const auto& [text, line] : mistakes) {
    const MadeLengthPredictor made = MakeLengthPredictor(text, 1, {1, 2, 3});
    EXPECT_EQ(made.predictor, nullptr) << text;
    EXPECT_THAT(made.error, HasSubstr(line));
    EXPECT_EQ(made.error.find('\n'), std::string::npos);
  }
  EXPECT_THAT(MakeLengthPredictor("ranked:tau=0.5", 1, {}).error, HasSubstr("no lengths to rank"));
  EXPECT_THAT(MakeLengthPredictor("bucketed:accuracy=1", 1, {}).error, HasSubstr("set bounds="));
}

}  // namespace
}  // namespace schedtwin
