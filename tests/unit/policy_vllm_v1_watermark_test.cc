// vllm_v1 against a measurement of vLLM: preemptions with and without a watermark (vllm#44594, its
// script benchmarks/kv_cache_watermark.sh). 450 prompts of about 1000 tokens with outputs of about
// 5000, 128 at a time, on 299,584 tokens of KV. Who is preempted when hardly depends on how long a
// step takes, so a device of round numbers does. What was measured is one draw of the lengths: it
// must be one of those seen here, and the mean over 20 draws near it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "sim/simulate.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::MakePolicy;
using policy_testing::Settings;

constexpr std::uint32_t kPrompts = 450;
constexpr std::uint32_t kConcurrency = 128;
constexpr std::uint64_t kDraws = 20;

/// Clients that send the next request when one has ended: `kConcurrency` of them.
class Clients final : public RequestSource {
 public:
  explicit Clients(std::uint64_t seed) : lengths_(seed, "lengths") {}

  Pull Next(RequestSpec* out) override {
    if (sent_ == kPrompts) return Pull::kDry;
    if (waiting_ == kConcurrency) return Pull::kLater;
    ++sent_;
    ++waiting_;
    out->arrival = now_;
    out->prompt_tokens = 800 + lengths_.Below(401);
    out->output_tokens = out->max_new_tokens = 4000 + lengths_.Below(2001);
    return Pull::kRequest;
  }
  void OnRequestEnd(std::uint64_t, EndReason, Time now) override {
    --waiting_;
    now_ = now;
  }

 private:
  Rng lengths_;
  std::uint32_t sent_ = 0;
  std::uint32_t waiting_ = 0;
  Time now_;
};

/// 16 GiB of KV of Qwen2.5-7B: 18724 blocks of 16 tokens, one of which is the null block.
std::uint64_t Preemptions(const Settings& settings, std::uint32_t queue_depth, std::uint64_t draw) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Millis(5), Duration::Micros(20));
  SimSetup setup;
  setup.model = &model;
  setup.device.queue_depth = queue_depth;
  setup.device.total_blocks = 299'584 / 16 - 1;
  setup.device.block_tokens = 16;
  setup.device.max_model_len_tokens = 8192;
  const std::unique_ptr<Policy> policy = MakePolicy("vllm_v1", settings);
  Clients clients(draw);
  RequestSource* const sources[] = {&clients};
  const RunSummary summary = Simulate(setup, policy.get(), sources, nullptr, {});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  EXPECT_EQ(summary.ended[0], kPrompts);
  return summary.preemptions;
}

struct Measured {
  const char* name;
  const char* watermark;
  double preemptions;  ///< of one run
  double tolerance;    ///< of the mean over draws

  friend void PrintTo(const Measured& measured, std::ostream* out) { *out << measured.name; }
};

const Measured kMeasured[] = {{"Off", "0", 1065, 0.12},
                              {"Of2Percent", "0.02", 400, 0.12},
                              {"Of5Percent", "0.05", 187, 0.15},  // a low one of the draws
                              {"Of10Percent", "0.10", 168, 0.12}};

struct Spread {
  double mean = 0;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
};

Spread OverDraws(const char* what, const Measured& measured, const Settings& more,
                 std::uint32_t queue_depth, std::uint64_t draws) {
  // What its server sets on a GPU of 70 GiB or more.
  Settings settings = {{"max_num_batched_tokens", "8192"},
                       {"max_num_seqs", "256"},
                       {"watermark", measured.watermark}};
  settings.insert(settings.end(), more.begin(), more.end());
  Spread spread;
  for (std::uint64_t draw = 1; draw <= draws; ++draw) {
    const std::uint64_t count = Preemptions(settings, queue_depth, draw);
    spread.mean += static_cast<double>(count) / static_cast<double>(draws);
    spread.least = std::min(spread.least, count);
    spread.most = std::max(spread.most, count);
  }
  std::printf("watermark %-4s, measured %4g; %-17s %2d draws: mean %6.1f, %3d to %d\n",
              measured.watermark, measured.preemptions, what, static_cast<int>(draws), spread.mean,
              static_cast<int>(spread.least), static_cast<int>(spread.most));
  return spread;
}

class PolicyVllmV1Watermark : public testing::TestWithParam<Measured> {
 protected:
  void ExpectMeasured(const Spread& spread) {
    const Measured& measured = GetParam();
    EXPECT_NEAR(spread.mean, measured.preemptions, measured.tolerance * measured.preemptions);
    EXPECT_LE(static_cast<double>(spread.least), measured.preemptions);
    EXPECT_GE(static_cast<double>(spread.most), measured.preemptions);
  }
};

TEST_P(PolicyVllmV1Watermark, PreemptsAsOftenAsVllmDid) {
  ExpectMeasured(OverDraws("whole sequence,", GetParam(), {}, 1, kDraws));
}

TEST_P(PolicyVllmV1Watermark, ThatTheWholeSequenceMustFitMakesLittleDifference) {
  const Settings first_chunk = {{"full_sequence_must_fit", "false"}};
  ExpectMeasured(OverDraws("first chunk,", GetParam(), first_chunk, 1, kDraws));
}

TEST_P(PolicyVllmV1Watermark, AsyncSchedulingMakesLittleDifference) {
  // Every step lists its decodes: fewer draws, held to those of the standing form.
  constexpr std::uint64_t kFewer = 4;
  const Spread waits = OverDraws("whole sequence,", GetParam(), {}, 1, kFewer);
  const Spread ahead =
      OverDraws("async scheduling,", GetParam(), {{"async_scheduling", "true"}}, 2, kFewer);
  EXPECT_NEAR(ahead.mean, waits.mean, 0.05 * waits.mean);
}

INSTANTIATE_TEST_SUITE_P(Vllm44594, PolicyVllmV1Watermark, testing::ValuesIn(kMeasured),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace schedtwin
