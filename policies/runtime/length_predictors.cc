#include "policies/runtime/length_predictors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "policies/api/rng.h"

namespace schedtwin {
namespace {

constexpr std::string_view kStream = "length_predictor";
constexpr std::string_view kKnown = "it is one of oracle, noisy, ranked, bucketed";

/// sin(pi x / 2) of |x| <= 1 by its Taylor series, whose terms past the last one vanish: libm's
/// differs between machines.
double SinOfQuarterTurns(double x) {
  const double angle = x * 1.57079632679489661923;
  double term = angle, sum = angle;
  for (int n = 2; n < 30; n += 2) {
    term *= -angle * angle / (n * (n + 1));
    sum += term;
  }
  return std::clamp(sum, -1.0, 1.0);
}

std::uint32_t ToTokens(double tokens) {
  if (!(tokens < std::numeric_limits<std::uint32_t>::max())) {
    return std::numeric_limits<std::uint32_t>::max();
  }
  return std::max(1u, static_cast<std::uint32_t>(std::floor(tokens + 0.5)));
}

}  // namespace

std::uint32_t NoisyLengths::Predict(RequestId request, std::uint32_t true_tokens) const {
  Rng rng(seed_, kStream, request.value);
  return ToTokens(true_tokens * FixedExp(sigma_ * rng.Normal()));
}

RankedLengths::RankedLengths(std::uint64_t seed, double tau, std::vector<std::uint32_t> lengths)
    : seed_(seed), correlation_(SinOfQuarterTurns(tau)), lengths_(std::move(lengths)) {
  // cos(pi tau / 2), and exactly 0 where nothing is left to chance.
  noise_ = std::abs(tau) >= 1 ? 0 : std::sqrt(1 - correlation_ * correlation_);
  if (noise_ == 0) correlation_ = tau < 0 ? -1 : 1;
}

std::uint32_t RankedLengths::Predict(RequestId request, std::uint32_t true_tokens) const {
  Rng rng(seed_, kStream, request.value);
  const auto count = static_cast<double>(lengths_.size());
  const auto [first, last] = std::equal_range(lengths_.begin(), lengths_.end(), true_tokens);
  const auto ties = static_cast<std::uint32_t>(last - first);
  // A length that the trace does not have stands between its neighbours.
  const double rank = static_cast<double>(first - lengths_.begin()) +
                      (ties == 0 ? 0 : 0.5 + rng.Below(std::max(ties, 1u)));
  const double p = std::clamp(rank, 0.5, count - 0.5) / count;
  const double score = correlation_ * FixedNormalQuantile(p) + noise_ * rng.Normal();
  // The estimate is the length of that score: the last whose share of the distribution begins at or
  // below it.
  std::size_t low = 0, high = lengths_.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (FixedNormalQuantile(static_cast<double>(middle) / count) <= score) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return std::max(1u, lengths_[low]);
}

std::uint32_t BucketedLengths::Predict(RequestId request, std::uint32_t true_tokens) const {
  const auto bucket =
      std::partition_point(buckets_.begin(), buckets_.end() - 1,
                           [&](const Bucket& candidate) { return candidate.upper < true_tokens; });
  auto i = static_cast<std::size_t>(bucket - buckets_.begin());
  Rng rng(seed_, kStream, request.value);
  const bool right = rng.Uniform() < accuracy_;
  if (!right && buckets_.size() > 1) {
    const bool above = i == 0 || (i + 1 < buckets_.size() && rng.Below(2) == 1);
    i = above ? i + 1 : i - 1;
  }
  return std::max(1u, buckets_[i].estimate);
}

namespace {

/// The text's part before the colon, and what is set behind it; each setting is used once.
class Settings {
 public:
  explicit Settings(std::string_view text) {
    name = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(name.size() + 1, text.size()));
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find(','));
      const std::string_view key = one.substr(0, one.find('='));
      given_.emplace_back(key, one.substr(std::min(key.size() + 1, one.size())));
      text.remove_prefix(std::min(one.size() + 1, text.size()));
    }
  }

  std::optional<std::string_view> Take(std::string_view key) {
    for (auto it = given_.begin(); it != given_.end(); ++it) {
      if (it->first != key) continue;
      const std::string_view value = it->second;
      given_.erase(it);
      return value;
    }
    return std::nullopt;
  }

  /// A number from `least` to `most`; without it `otherwise`, and an error if that is none either.
  double Number(std::string_view key, double least, double most, std::optional<double> otherwise) {
    const std::optional<std::string_view> text = Take(key);
    if (!text && otherwise) return *otherwise;
    double value = 0;
    const std::string_view digits = text.value_or("");
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
    if (!text) {
      Fail("it needs " + std::string(key) + "=, a number" + Range(least, most));
    } else if (!whole || !(value >= least && value <= most)) {
      Fail(std::string(key) + " cannot be '" + std::string(digits) + "'; it takes a number" +
           Range(least, most));
    }
    return value;
  }

  void Fail(const std::string& what) {
    if (error.empty()) error = "length predictor " + std::string(name) + ": " + what;
  }
  void FailOnWhatIsLeft(std::string_view known) {
    if (given_.empty()) return;
    Fail("it has no setting '" + std::string(given_.front().first) + "'; it has " +
         std::string(known));
  }

  std::string_view name;
  std::string error;

 private:
  static std::string Range(double least, double most) {
    const auto whole = [](double value) {
      return std::to_string(static_cast<std::int64_t>(value));
    };
    return " from " + whole(least) + " to " + whole(most);
  }

  std::vector<std::pair<std::string_view, std::string_view>> given_;
};

using Bucket = BucketedLengths::Bucket;

/// Rising upper bounds written as 64/256/1024.
std::vector<Bucket> ParseBounds(std::string_view text, Settings* settings) {
  std::vector<Bucket> buckets;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::uint32_t bound = 0;
    const auto result = std::from_chars(at, end, bound);
    const bool rises = buckets.empty() ? bound > 0 : bound > buckets.back().upper;
    if (result.ec != std::errc() || !rises || (result.ptr != end && *result.ptr != '/')) {
      settings->Fail("bounds cannot be '" + std::string(text) +
                     "'; they are rising numbers of tokens, such as 64/256/1024");
      return {};
    }
    buckets.push_back({bound, bound});
    if (result.ptr == end) return buckets;
    at = result.ptr + 1;
  }
}

/// Bounds such that each bucket holds about as many lengths; equal lengths stay together.
std::vector<Bucket> EqualMass(const std::vector<std::uint32_t>& sorted, std::size_t count) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 1; i <= count; ++i) {
    const std::size_t last = (i * sorted.size() + count - 1) / count - 1;
    const std::uint32_t upper = sorted[last];
    if (buckets.empty() || upper > buckets.back().upper) buckets.push_back({upper, upper});
  }
  return buckets;
}

/// A bucket that holds no length of the trace keeps its bound as its estimate.
void UseMedians(const std::vector<std::uint32_t>& sorted, std::vector<Bucket>* buckets) {
  auto first = sorted.begin();
  for (Bucket& bucket : *buckets) {
    const bool is_last = &bucket == &buckets->back();
    const auto last = is_last ? sorted.end() : std::upper_bound(first, sorted.end(), bucket.upper);
    if (first != last) bucket.estimate = first[(last - first - 1) / 2];
    first = last;
  }
}

MadeLengthPredictor MakeBucketed(Settings* settings, std::uint64_t seed,
                                 const std::vector<std::uint32_t>& sorted) {
  const double accuracy = settings->Number("accuracy", 0, 1, std::nullopt);
  const std::optional<std::string_view> bounds = settings->Take("bounds");
  const std::string_view estimate = settings->Take("estimate").value_or("upper");
  std::vector<Bucket> buckets;
  if (bounds) {
    buckets = ParseBounds(*bounds, settings);
  } else {
    const double count = settings->Number("buckets", 1, 1'000'000, 10);
    if (count != std::floor(count)) settings->Fail("buckets takes a whole number");
    if (sorted.empty()) settings->Fail("the trace has no lengths to make buckets of; set bounds=");
    if (settings->error.empty()) buckets = EqualMass(sorted, static_cast<std::size_t>(count));
  }
  if (estimate == "median") {
    if (!buckets.empty()) UseMedians(sorted, &buckets);
  } else if (estimate != "upper") {
    settings->Fail("estimate cannot be '" + std::string(estimate) + "'; it is upper or median");
  }
  settings->FailOnWhatIsLeft("accuracy, estimate, and either buckets or bounds");
  if (!settings->error.empty()) return {};
  MadeLengthPredictor made{std::make_unique<BucketedLengths>(seed, accuracy, std::move(buckets)),
                           false, ""};
  // As many buckets as there are lengths.
  made.tells_truth = accuracy == 1 && !sorted.empty() &&
                     std::all_of(sorted.begin(), sorted.end(), [&](std::uint32_t length) {
                       return made.predictor->Predict({0}, length) == length;
                     });
  return made;
}

}  // namespace

MadeLengthPredictor MakeLengthPredictor(const std::string& text, std::uint64_t seed,
                                        std::vector<std::uint32_t> lengths) {
  Settings settings(text);
  MadeLengthPredictor made;
  std::sort(lengths.begin(), lengths.end());
  if (settings.name == "oracle") {
    settings.FailOnWhatIsLeft("none");
    made = {std::make_unique<OracleLengths>(), true, ""};
  } else if (settings.name == "noisy") {
    const double sigma = settings.Number("sigma", 0, 10, std::nullopt);
    settings.FailOnWhatIsLeft("sigma");
    made = {std::make_unique<NoisyLengths>(seed, sigma), sigma == 0, ""};
  } else if (settings.name == "ranked") {
    const double tau = settings.Number("tau", -1, 1, std::nullopt);
    settings.FailOnWhatIsLeft("tau");
    if (lengths.empty()) settings.Fail("the trace has no lengths to rank");
    made = {std::make_unique<RankedLengths>(seed, tau, std::move(lengths)), tau == 1 || tau == -1,
            ""};
  } else if (settings.name == "bucketed") {
    made = MakeBucketed(&settings, seed, lengths);
  } else {
    settings.error =
        "there is no length predictor '" + std::string(settings.name) + "'; " + std::string(kKnown);
  }
  if (settings.error.empty()) return made;
  return {nullptr, false, std::move(settings.error)};
}

}  // namespace schedtwin
