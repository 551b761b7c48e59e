// synth:poisson and synth:deterministic: independent or equal gaps, fixed or exponential sizes.
// With units in service nanoseconds they are the M and the D of M/M/1, M/D/1 and M/D/2.
#include <algorithm>

#include "absl/status/status.h"
#include "policies/api/rng.h"
#include "traces/generators.h"

namespace schedtwin {
namespace {

__extension__ using Wide = __int128;

constexpr std::string_view kDistributions[] = {"fixed", "exponential"};
constexpr std::int64_t kMaxCount = 100'000'000;
// Exponential draws reach 37 means (52 random bits), and a row holds 32 bits: so no draw is ever
// cut off.
constexpr std::int64_t kMaxMean = 100'000'000;

constexpr SynthParameter kCount = {"count",   SynthType::kInteger, "10000",   1,
                                   kMaxCount, "requests",          "how many"};
constexpr SynthParameter kRate = {"rate",       SynthType::kDecimal,    "10", 0, 0,
                                  "requests/s", "mean rate of arrivals"};
constexpr SynthParameter kPrompt = {"prompt", SynthType::kInteger,   "512", 1, kMaxMean,
                                    "tokens", "prompt length (mean)"};
constexpr SynthParameter kOutput = {"output", SynthType::kInteger,   "128", 1, kMaxMean,
                                    "tokens", "output length (mean)"};
constexpr SynthParameter kUnits = {
    "units", SynthType::kInteger, "1", 1, kMaxMean, "units", "size for one-shot models (mean)"};
constexpr SynthParameter kTokenDist = {"token_dist",
                                       SynthType::kChoice,
                                       "fixed",
                                       0,
                                       0,
                                       "",
                                       "distribution of prompt and output lengths",
                                       kDistributions};
constexpr SynthParameter kUnitDist = {"unit_dist", SynthType::kChoice,      "fixed",       0, 0,
                                      "",          "distribution of units", kDistributions};

constexpr SynthParameter kPoissonParameters[] = {kCount, kRate,      kPrompt,  kOutput,
                                                 kUnits, kTokenDist, kUnitDist};
constexpr SynthParameter kDeterministicParameters[] = {kCount, kRate, kPrompt, kOutput, kUnits};

// Nanoseconds of `count` mean gaps must stay clear of int64's end, long draws included.
absl::Status CheckSpan(const SynthValues& values) {
  const double span_ns =
      static_cast<double>(values.integer("count")) * 1e9 / values.decimal("rate").value();
  if (span_ns < 2e18) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "synth: count " + std::to_string(values.integer("count")) + " at rate " +
      ToString(values.decimal("rate")) +
      " spans more than 63 years; use a higher rate or a lower count");
}

std::uint32_t DrawSize(Rng* rng, double mean) {
  return std::max(1u, static_cast<std::uint32_t>(mean * rng->Exponential() + 0.5));
}

absl::Status GeneratePoisson(const SynthValues& values, std::uint64_t seed, TraceBuilder* out,
                             std::uint64_t* draws) {
  if (absl::Status status = CheckSpan(values); !status.ok()) return status;
  const std::int64_t count = values.integer("count");
  const Ratio& rate = values.decimal("rate");
  const double mean_gap_ns =
      1e9 * static_cast<double>(rate.denominator) / static_cast<double>(rate.numerator);
  const bool draw_tokens = values.choice("token_dist") == "exponential";
  const bool draw_units = values.choice("unit_dist") == "exponential";
  TraceRow row;
  row.prompt_tokens = static_cast<std::uint32_t>(values.integer("prompt"));
  row.output_tokens = static_cast<std::uint32_t>(values.integer("output"));
  row.units = static_cast<std::uint32_t>(values.integer("units"));
  const double prompt = row.prompt_tokens, output = row.output_tokens, units = row.units;

  Rng arrivals(seed, "arrivals");
  Rng lengths(seed, "lengths");
  Rng unit_sizes(seed, "units");
  out->Reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0)
      row.arrival_ns += static_cast<std::int64_t>(mean_gap_ns * arrivals.Exponential() + 0.5);
    if (draw_tokens) {
      row.prompt_tokens = DrawSize(&lengths, prompt);
      row.output_tokens = DrawSize(&lengths, output);
    }
    if (draw_units) row.units = DrawSize(&unit_sizes, units);
    out->Add(row);
  }
  *draws = arrivals.draws() + lengths.draws() + unit_sizes.draws();
  return absl::OkStatus();
}

absl::Status GenerateDeterministic(const SynthValues& values, std::uint64_t, TraceBuilder* out,
                                   std::uint64_t* draws) {
  if (absl::Status status = CheckSpan(values); !status.ok()) return status;
  const std::int64_t count = values.integer("count");
  const Ratio& rate = values.decimal("rate");
  TraceRow row;
  row.prompt_tokens = static_cast<std::uint32_t>(values.integer("prompt"));
  row.output_tokens = static_cast<std::uint32_t>(values.integer("output"));
  row.units = static_cast<std::uint32_t>(values.integer("units"));
  out->Reserve(static_cast<std::size_t>(count));
  // Request i comes at floor(i * gap). The gap is an exact fraction, whole + part / denominator, so
  // that nothing drifts however long the trace.
  const Wide numerator = Wide{1'000'000'000} * rate.denominator;
  const auto whole_ns = static_cast<std::int64_t>(numerator / rate.numerator);
  const auto part = static_cast<std::int64_t>(numerator % rate.numerator);
  std::int64_t parts = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out->Add(row);
    row.arrival_ns += whole_ns;
    parts += part;
    if (parts >= rate.numerator) {
      parts -= rate.numerator;
      ++row.arrival_ns;
    }
  }
  *draws = 0;
  return absl::OkStatus();
}

}  // namespace

const SynthGenerator kPoissonGenerator = {
    .name = "poisson",
    .summary = "Poisson arrivals; lengths and units fixed or exponential",
    .parameters = kPoissonParameters,
    .generate = GeneratePoisson,
};

const SynthGenerator kDeterministicGenerator = {
    .name = "deterministic",
    .summary = "equal gaps and equal sizes; draws nothing",
    .parameters = kDeterministicParameters,
    .generate = GenerateDeterministic,
};

}  // namespace schedtwin
