// synth:azure_conv: a twin of the Azure conversation service, for machines that lack its trace.
// Tables measured on AzureLLMInferenceTrace_conv.csv (Azure/AzurePublicDataset, commit b469a11,
// CC-BY-4.0; Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting",
// ISCA'24): 19,366 requests in 3,502 s.
//
// Arrivals: a renewal process in the service's own time, which runs with the measured number of
// requests of each minute. The minutes give the dispersion over 10 s and 60 s and a coefficient of
// variation of 1.05; the rest of the 1.09 is in the gaps, each an exponential draw stretched or
// shrunk by a fixed part (fitted).
//
// Lengths: the prompt by the inverse of the measured distribution, the output by that of its
// twelfth of the prompts, for the two hang together (prompts around 390 tokens give 97, prompts
// around 1,050 give 410).
//
// Known gaps: the order of lengths in time is not kept (lag-1 correlation of outputs 0.11 in the
// original, 0 here); after 59 minutes the hour begins anew.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "policies/api/rng.h"
#include "traces/generators.h"

namespace schedtwin {
namespace {

constexpr std::string_view kMeasuredCount = "19366";

// Requests in each minute; the last two hold the mean of the trace's last 81.7 s. Deviations from
// the mean are reduced by 3.4%, the share of chance in the measured variance, for the twin adds its
// own.
constexpr double kPerMinute[] = {196, 267, 329, 352, 308, 275, 270, 263, 322, 299, 302, 303,
                                 345, 326, 285, 281, 282, 309, 343, 350, 350, 343, 405, 394,
                                 384, 396, 429, 475, 471, 449, 444, 501, 434, 410, 420, 415,
                                 461, 312, 329, 317, 333, 354, 319, 359, 334, 374, 330, 252,
                                 225, 252, 267, 282, 259, 257, 245, 262, 249, 197, 197};
constexpr std::size_t kMinutes = std::size(kPerMinute);
constexpr double kMinuteNs = 60e9;
constexpr double kStretch = 0.215;

// Prompt tokens at these probabilities, linear in between.
constexpr double kPromptAt[] = {
    0,    0.005, 0.01, 0.02, 0.05, 0.08, 0.1,  0.125, 0.15,  0.1875, 0.25, 0.3125, 0.34,
    0.36, 0.375, 0.4,  0.43, 0.46, 0.5,  0.56, 0.625, 0.66,  0.6875, 0.72, 0.75,   0.79,
    0.83, 0.875, 0.9,  0.93, 0.96, 0.97, 0.98, 0.99,  0.995, 0.999,  1};
constexpr double kPromptTokens[] = {2,    17,   29,   91,   181,  201,  207,  235,  372,  383,
                                    396,  405,  411,  419,  428,  703,  946,  994,  1020, 1050,
                                    1083, 1102, 1120, 1147, 1189, 1314, 1508, 2309, 2734, 4076,
                                    4086, 4090, 4098, 4142, 4831, 6179, 14050};
static_assert(std::size(kPromptAt) == std::size(kPromptTokens));

// Output tokens at these probabilities, one row for each twelfth of the requests by prompt length.
constexpr double kOutputAt[] = {0,    0.02, 0.06, 0.12, 0.25, 0.375, 0.5, 0.625,
                                0.75, 0.88, 0.94, 0.98, 0.99, 0.996, 1};
constexpr std::size_t kOutputKnots = std::size(kOutputAt);
constexpr double kOutputTokens[][kOutputKnots] = {
    {11, 12, 16, 68, 106, 130, 153, 168, 184, 217, 217, 265, 315, 470, 1000},
    {7, 14, 18, 18, 60, 71, 86, 119, 162, 191, 217, 217, 217, 223, 436},
    {15, 48, 57, 63, 75, 83, 88, 93, 99, 112, 127, 147, 160, 174, 199},
    {43, 73, 81, 85, 90, 95, 100, 105, 115, 134, 146, 164, 172, 186, 200},
    {10, 41, 61, 77, 86, 92, 97, 104, 114, 138, 167, 402, 418, 450, 739},
    {27, 51, 83, 101, 383, 394, 398, 411, 420, 446, 514, 592, 613, 639, 921},
    {33, 76, 373, 383, 394, 397, 406, 414, 428, 456, 526, 608, 660, 938, 992},
    {31, 84, 373, 380, 394, 397, 408, 417, 429, 479, 547, 628, 666, 946, 1000},
    {28, 49, 94, 375, 392, 396, 405, 414, 428, 467, 535, 620, 667, 936, 1000},
    {26, 44, 54, 72, 114, 150, 177, 210, 386, 414, 438, 538, 598, 660, 954},
    {15, 34, 45, 50, 66, 77, 89, 101, 116, 139, 156, 188, 203, 240, 458},
    {17, 27, 30, 35, 41, 47, 54, 64, 77, 110, 139, 198, 288, 475, 757},
};
constexpr std::size_t kTwelfths = std::size(kOutputTokens);

// The value at probability u in (0, 1), rounded to a whole number.
std::uint32_t Invert(const double* at, const double* values, std::size_t knots, double u) {
  const auto above = static_cast<std::size_t>(std::upper_bound(at + 1, at + knots - 1, u) - at);
  const std::size_t below = above - 1;
  const double part = (u - at[below]) / (at[above] - at[below]);
  return static_cast<std::uint32_t>(values[below] + (values[above] - values[below]) * part + 0.5);
}

/// Turns gaps counted in requests into instants, at the measured rate of each minute.
class Hour {
 public:
  /// Moves on by `requests`, a number of mean gaps; gives nanoseconds since the start.
  std::int64_t Advance(double requests) {
    double left = kPerMinute[minute_ % kMinutes] * (1 - part_);
    while (requests >= left) {
      requests -= left;
      ++minute_;
      part_ = 0;
      left = kPerMinute[minute_ % kMinutes];
    }
    part_ += requests / kPerMinute[minute_ % kMinutes];
    return static_cast<std::int64_t>(minute_) * 60'000'000'000 +
           static_cast<std::int64_t>(part_ * kMinuteNs);
  }

 private:
  std::uint64_t minute_ = 0;
  double part_ = 0;  // of the minute that has passed, below 1
};

// A gap between requests, in mean gaps.
double DrawGap(Rng* rng) {
  const double stretch = (rng->Next32() & 1) != 0 ? 1 + kStretch : 1 - kStretch;
  return rng->Exponential() * stretch;
}

constexpr SynthParameter kParameters[] = {
    {"count", SynthType::kInteger, kMeasuredCount, 1, 100'000'000, "requests", "how many"},
};

absl::Status Generate(const SynthValues& values, std::uint64_t seed, TraceBuilder* out,
                      std::uint64_t* draws) {
  const std::int64_t count = values.integer("count");
  // Twice through the same draws: their sum first, so that the trace lasts as long as the service
  // took for this many requests, whatever the seed.
  double sum = 0;
  Rng rehearsal(seed, "arrivals");
  for (std::int64_t i = 1; i < count; ++i) sum += DrawGap(&rehearsal);
  const double scale = count > 1 ? static_cast<double>(count - 1) / sum : 0;

  Rng arrivals(seed, "arrivals");
  Rng lengths(seed, "lengths");
  Hour hour;
  out->Reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    TraceRow row;
    if (i > 0) row.arrival_ns = hour.Advance(scale * DrawGap(&arrivals));
    const double prompt = lengths.Uniform();
    const double output = lengths.Uniform();
    const auto twelfth = static_cast<std::size_t>(prompt * static_cast<double>(kTwelfths));
    row.prompt_tokens = Invert(kPromptAt, kPromptTokens, std::size(kPromptAt), prompt);
    row.output_tokens = Invert(kOutputAt, kOutputTokens[twelfth], kOutputKnots, output);
    out->Add(row);
  }
  *draws = arrivals.draws() + lengths.draws();
  return absl::OkStatus();
}

}  // namespace

const SynthGenerator kAzureConvTwin = {
    .name = "azure_conv",
    .summary =
        "twin of the Azure conversation service: 19,366 requests in about an hour (Splitwise, "
        "ISCA'24)",
    .parameters = kParameters,
    .generate = Generate,
};

}  // namespace schedtwin
