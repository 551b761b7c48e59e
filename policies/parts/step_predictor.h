// StepPredictor: how long a step would take: by the run's profile, where it is asked and there is
// one, or else by a linear fit of its own to the steps that it has seen. What the fit goes by is
// the policy's choice: features of the step's sums. A fit says nothing before it has seen enough
// steps, nor of steps much larger than any of them. Owned by one engine; one thread; allocates
// nothing; the same on every machine that measures the same.
#ifndef SCHEDTWIN_POLICIES_PARTS_STEP_PREDICTOR_H_
#define SCHEDTWIN_POLICIES_PARTS_STEP_PREDICTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "policies/api/context.h"
#include "policies/parts/linear_fit.h"

namespace schedtwin {

/// What a step does, summed over its entries.
struct StepSums {
  double prefill_tokens = 0;
  double prefill_work = 0;  ///< pairs of tokens that attend: s * (C + s / 2) for s after C cached
  double prefills = 0;
  double decodes = 0;
  double decode_context_tokens = 0;  ///< own tokens included
};

/// REQUIRES: all of them live and are not launched yet.
inline StepSums SumsOf(const Context& context, std::span<const Entry> entries) {
  StepSums sums;
  for (const Entry& entry : entries) {
    const RequestView view = context.request(entry.request);
    const double cached = view.scheduled_tokens();
    if (view.phase() == Phase::kDecode) {
      sums.decodes += 1;
      sums.decode_context_tokens += cached + 1;
    } else {
      const double tokens = entry.tokens;
      sums.prefills += 1;
      sums.prefill_tokens += tokens;
      sums.prefill_work += tokens * (cached + 0.5 * tokens);
    }
  }
  return sums;
}

class StepPredictor {
 public:
  static constexpr std::size_t kFeatures = 7;
  using Fit = LinearFit<kFeatures>;
  using FeaturesOf = Fit::Features (*)(const StepSums&);

  /// `fit_steps`: seen before the fit says anything.
  StepPredictor(bool asks_profile, FeaturesOf features_of, std::uint32_t fit_steps)
      : asks_profile_(asks_profile), features_of_(features_of), fit_steps_(fit_steps) {}

  /// None: not known. REQUIRES: the requests live and are not in flight.
  std::optional<Duration> Predict(const Context& context, DeviceId device,
                                  std::span<const Entry> entries) {
    if (asks_profile_) {
      const auto predicted = context.services().Predict({.device = device, .entries = entries});
      if (predicted.has_value()) return predicted;
    }
    if (fit_.samples() < fit_steps_) return std::nullopt;
    const StepSums sums = SumsOf(context, entries);
    if (sums.prefill_tokens > kReach * most_prefill_tokens_ ||
        sums.decodes > kReach * most_decodes_) {
      return std::nullopt;
    }
    const double ns = fit_.Predict(features_of_(sums));
    if (!(ns > 0)) return Duration();
    return Duration::Nanos(static_cast<std::int64_t>(std::min(ns, kMostNs) + 0.5));
  }

  /// These are about to be launched.
  void OnLaunch(const Context& context, std::span<const Entry> entries) {
    in_flight_ = SumsOf(context, entries);
  }
  /// And have run to the end of their step.
  void OnMeasured(Duration took) {
    fit_.Add(features_of_(in_flight_), static_cast<double>(took.ns()));
    most_prefill_tokens_ = std::max(most_prefill_tokens_, in_flight_.prefill_tokens);
    most_decodes_ = std::max(most_decodes_, in_flight_.decodes);
  }

 private:
  static constexpr double kReach = 2;      // times the largest step seen
  static constexpr double kMostNs = 1e15;  // eleven days

  bool asks_profile_;
  FeaturesOf features_of_;
  std::uint32_t fit_steps_;
  Fit fit_;
  StepSums in_flight_;
  double most_prefill_tokens_ = 0;
  double most_decodes_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_STEP_PREDICTOR_H_
