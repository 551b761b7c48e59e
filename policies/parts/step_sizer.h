// StepSizer: how much offline work goes into a step: as many decodes, and as long a chunk of a
// prompt, as keep the step's predicted time within a budget; where there is none, prompts as long
// as they raise its throughput. Owned by one HybridEngine, whose step it looks at while it is put
// together; one thread.
#ifndef SCHEDTWIN_POLICIES_PARTS_STEP_SIZER_H_
#define SCHEDTWIN_POLICIES_PARTS_STEP_SIZER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/parts/step_predictor.h"

namespace schedtwin {

struct HybridRules {
  std::uint32_t max_tokens = 0;    ///< of one step
  std::uint32_t max_requests = 0;  ///< in one step
  /// Predicted time of a step with online work, and of one without, at most; none: no bound.
  std::optional<Duration> beside_online;
  std::optional<Duration> offline_only;
  /// Where nothing bounds a step: prompts are added while tokens per predicted time do not fall.
  bool best_throughput = false;
  /// Offline tokens of a step whose time cannot be told, and of one prompt in a step that would be
  /// empty otherwise, whatever the budget.
  std::uint32_t fallback_tokens = 1;
};

class StepSizer {
 public:
  StepSizer(DeviceId device, const HybridRules& rules, const StepPredictor& predictor)
      : device_(device), rules_(rules), predictor_(predictor) {}

  StepPredictor& predictor() { return predictor_; }

  /// A step is put together; what online work there is is in it.
  void Begin(bool online_work) {
    budget_ = online_work ? rules_.beside_online : rules_.offline_only;
    offline_tokens_ = 0;
  }
  void OnAdded(std::uint32_t offline_tokens) { offline_tokens_ += offline_tokens; }

  /// How many of `decodes`, from the first on, can be added to `step`, which is as before when this
  /// returns; one of them, if the step would be empty otherwise.
  std::uint32_t DecodesThatFit(const Context& context, std::span<const Entry> decodes,
                               std::vector<Entry>* step) {
    const std::size_t online = step->size();
    const auto most = static_cast<std::uint32_t>(decodes.size());
    const std::uint32_t fitting = Largest(most, [&](std::uint32_t n) {
      step->insert(step->end(), decodes.begin(), decodes.begin() + n);
      const bool fits = WithinBudget(context, *step, n);
      step->resize(online);
      return fits;
    });
    return fitting == 0 && online == 0 ? std::min(most, 1u) : fitting;
  }

  /// How many of the prompt's tokens, at most those of `whole`, can be added to `step`, which is as
  /// before when this returns; some of them, if it would be empty otherwise.
  std::uint32_t ChunkThatFits(const Context& context, const Entry& whole,
                              std::vector<Entry>* step) {
    if (!budget_.has_value() && rules_.best_throughput && !step->empty()) {
      return RaisesThroughput(context, whole, step) ? whole.tokens : 0;
    }
    const std::uint32_t tokens = Largest(whole.tokens, [&](std::uint32_t n) {
      step->push_back({whole.request, n});
      const bool fits = WithinBudget(context, *step, offline_tokens_ + n);
      step->pop_back();
      return fits;
    });
    if (tokens > 0 || !step->empty()) return tokens;
    return std::min(whole.tokens, rules_.fallback_tokens);
  }

 private:
  bool WithinBudget(const Context& context, std::span<const Entry> step,
                    std::uint32_t offline_tokens) {
    if (!budget_.has_value()) return true;
    const auto predicted = predictor_.Predict(context, device_, step);
    return predicted.has_value() ? *predicted <= *budget_
                                 : offline_tokens <= rules_.fallback_tokens;
  }
  /// The largest n <= most with fits(n), if the sizes that fit are those up to some size; 0: none.
  template <class Fits>
  static std::uint32_t Largest(std::uint32_t most, Fits fits) {
    if (most == 0 || fits(most)) return most;
    std::uint32_t good = 0, bad = most;
    while (bad - good > 1) {
      const std::uint32_t middle = good + (bad - good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    return good;
  }
  bool RaisesThroughput(const Context& context, const Entry& added, std::vector<Entry>* step) {
    double tokens = 0;
    for (const Entry& entry : *step) tokens += entry.tokens;
    const auto before = predictor_.Predict(context, device_, *step);
    step->push_back(added);
    const auto after = predictor_.Predict(context, device_, *step);
    step->pop_back();
    if (!before.has_value() || !after.has_value()) return true;
    return (tokens + added.tokens) * static_cast<double>(before->ns()) >=
           tokens * static_cast<double>(after->ns());
  }

  DeviceId device_;
  HybridRules rules_;
  StepPredictor predictor_;
  std::optional<Duration> budget_;  ///< of the step that is put together
  std::uint32_t offline_tokens_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_STEP_SIZER_H_
