#include "exec/profile_errors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {
namespace {

/// The model's time of a probe's step, through the same commands as a device would be given.
double PredictedNs(const StepTimeModel& model, ModelKind kind, const ProbeShape& shape) {
  StepBuilder builder(kind);
  for (const ProbeEntry& entry : shape.entries) {
    builder.AddEntry({.kind = CommandKind::kEntry,
                      .decode = entry.decode,
                      .samples = entry.samples || entry.decode,
                      .tokens = entry.tokens,
                      .context_tokens = entry.context_tokens});
  }
  const auto entries = static_cast<std::uint32_t>(shape.entries.size());
  return static_cast<double>(
      builder.Predict({.tokens = shape.padding_tokens, .entries = entries}, model).ns());
}

struct Pair {
  double predicted_ns;
  double measured_ns;
};

/// To a thousandth: all that a reader can use.
double Rounded(double x) { return std::round(x * 1000) / 1000; }

/// REQUIRES: not empty.
FitError ErrorOf(std::string part, std::string method, const std::vector<Pair>& pairs) {
  FitError error;
  error.part = std::move(part);
  error.method = std::move(method);
  error.rows = pairs.size();
  std::vector<double> off;
  double predicted = 0;
  double measured = 0;
  for (const Pair& pair : pairs) {
    off.push_back(100 * std::fabs(pair.predicted_ns / pair.measured_ns - 1));
    predicted += pair.predicted_ns;
    measured += pair.measured_ns;
  }
  std::sort(off.begin(), off.end());
  const double at = 0.95 * static_cast<double>(off.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const double high = off[std::min(low + 1, off.size() - 1)];
  const double sum = std::accumulate(off.begin(), off.end(), 0.0);
  error.mape_percent = Rounded(sum / static_cast<double>(off.size()));
  error.p95_percent = Rounded(off[low] + (high - off[low]) * (at - static_cast<double>(low)));
  error.max_percent = Rounded(off.back());
  error.bias_percent = Rounded(100 * (predicted / measured - 1));
  return error;
}

}  // namespace

std::vector<FitError> ProfileErrors(const Profile& profile, std::span<const MeasuredStep> steps) {
  const StepTimeModel model(profile);
  const double overhead_ns = profile.host_overhead_ns;
  constexpr const char* kNames[] = {"body", "LM head", "decode attention", "prefill attention"};
  std::vector<Pair> parts[4];
  std::vector<Pair> means, medians, cpu;
  double wall_sum_ns = 0;
  double cpu_sum_ns = 0;
  for (const MeasuredStep& step : steps) {
    const double predicted_ns = PredictedNs(model, profile.kind, step.shape);
    if (step.cpu_mean_ns > 0) {
      wall_sum_ns += step.mean_ns;
      cpu_sum_ns += step.cpu_mean_ns;
    }
    if (step.shape.part != ProbePart::kHeldOut) {
      parts[static_cast<std::size_t>(step.shape.part)].push_back(
          {predicted_ns, step.mean_ns + overhead_ns});
      continue;
    }
    means.push_back({predicted_ns, step.mean_ns + overhead_ns});
    medians.push_back({predicted_ns, step.median_ns + overhead_ns});
    if (step.cpu_mean_ns > 0) cpu.push_back({predicted_ns, step.cpu_mean_ns + overhead_ns});
  }
  std::vector<FitError> errors;
  const auto add = [&](std::string part, std::string method, const std::vector<Pair>& pairs) {
    if (!pairs.empty()) errors.push_back(ErrorOf(std::move(part), std::move(method), pairs));
  };
  const bool decoder = profile.kind == ModelKind::kDecoder;
  add("step",
      absl::StrCat("held out: ", decoder ? "mixed steps" : "sizes between the points",
                   ", against the mean of each"),
      means);
  add("step, medians", "held out: the same, against the median of each", medians);
  add("step, thread CPU time",
      absl::StrCat("held out: the same, against the CPU time of each; of all steps, wall time is ",
                   Rounded(wall_sum_ns / cpu_sum_ns), " x CPU time"),
      cpu);
  for (std::size_t i = 0; i < 4; ++i) {
    add(absl::StrCat("steps for the ", kNames[i]), "the steps that it was fitted to", parts[i]);
  }
  return errors;
}

}  // namespace schedtwin
