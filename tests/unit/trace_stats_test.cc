// TraceStats: by hand on small traces, and on the real files against the figures in the data's
// README.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/data.h"
#include "traces/open.h"
#include "traces/stats.h"

namespace schedtwin {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(TraceStats, PercentilesInterpolateLikeNumpy) {
  const std::vector<std::uint32_t> values = {10, 20, 30, 40};
  EXPECT_EQ(Percentile(values, 0), 10);
  EXPECT_EQ(Percentile(values, 50), 25);
  EXPECT_EQ(Percentile(values, 100), 40);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 39.7);
  EXPECT_EQ(Percentile(std::vector<std::uint32_t>{7}, 99), 7);
}

TEST(TraceStats, CountsByHand) {
  const std::vector<TraceRow> rows = {{0, 1, 4, 1}, {1 * kSecond, 2, 3, 1}, {4 * kSecond, 6, 2, 1}};
  const TraceStats stats = ComputeTraceStats(rows);
  EXPECT_EQ(stats.rows, 3u);
  EXPECT_EQ(stats.duration, Duration::Seconds(4));
  EXPECT_DOUBLE_EQ(*stats.rate_rps, 0.5);
  EXPECT_DOUBLE_EQ(*stats.gap_cv, 0.5);  // gaps 1 and 3: mean 2, deviation 1
  EXPECT_DOUBLE_EQ(stats.prompt_tokens.mean, 3);
  EXPECT_EQ(stats.prompt_tokens.p50, 2);
  EXPECT_EQ(stats.prompt_tokens.min, 1u);
  EXPECT_EQ(stats.prompt_tokens.max, 6u);
  EXPECT_EQ(stats.output_tokens.p50, 3);
  ASSERT_EQ(stats.dispersion.size(), 3u);
  EXPECT_EQ(stats.dispersion[0].window, Duration::Seconds(1));
  EXPECT_DOUBLE_EQ(*stats.dispersion[0].value, 0.5);  // counts 1 1 0 0: mean 0.5, variance 0.25
  EXPECT_FALSE(stats.dispersion[1].value.has_value());
}

TEST(TraceStats, WhatCannotBeSaidIsAbsent) {
  const TraceStats one = ComputeTraceStats(std::vector<TraceRow>{{0, 5, 6, 1}});
  EXPECT_FALSE(one.rate_rps.has_value());
  EXPECT_FALSE(one.gap_cv.has_value());
  EXPECT_EQ(one.prompt_tokens.p99, 5);
  const TraceStats together = ComputeTraceStats(std::vector<TraceRow>{{0, 5, 6, 1}, {0, 5, 6, 1}});
  EXPECT_FALSE(together.rate_rps.has_value());
  EXPECT_EQ(ComputeTraceStats({}).rows, 0u);
}

// Real files, where they are.
bool IsMissing(const std::string& path) { return !std::filesystem::exists(path); }
constexpr char kSkipped[] = " is not here; set SCHEDTWIN_DATA to the folder of the data";

TEST(TraceStats, AzureCodeHasThePublishedFigures) {
  const std::string path = DataFile("traces/azure-llm-2023/AzureLLMInferenceTrace_code.csv");
  if (IsMissing(path)) GTEST_SKIP() << path << kSkipped;
  const auto trace = OpenTrace({.spec = path});
  ASSERT_TRUE(trace.ok()) << trace.status();
  const TraceStats stats = ComputeTraceStats((*trace)->rows);
  EXPECT_EQ(stats.rows, 8'819u);
  EXPECT_NEAR(*stats.rate_rps, 2.57, 0.005);
  EXPECT_NEAR(*stats.gap_cv, 13.15, 0.005);
  EXPECT_NEAR(stats.prompt_tokens.mean, 2048, 0.5);
  EXPECT_EQ(stats.prompt_tokens.p50, 1469);
  EXPECT_NEAR(stats.prompt_tokens.p99, 7436, 0.5);
  EXPECT_NEAR(stats.output_tokens.mean, 27.9, 0.05);
  EXPECT_EQ(stats.output_tokens.p50, 13);
  EXPECT_NEAR(stats.output_tokens.p99, 251, 0.5);
  EXPECT_EQ((*trace)->provenance.content_hash, 0x09317bddde654569u);
}

TEST(TraceStats, AzureConvHasThePublishedFigures) {
  const std::string path = AzureConvFile();
  if (IsMissing(path)) GTEST_SKIP() << path << kSkipped;
  const auto trace = OpenTrace({.spec = path});
  ASSERT_TRUE(trace.ok()) << trace.status();
  const TraceStats stats = ComputeTraceStats((*trace)->rows);
  EXPECT_EQ(stats.rows, 19'366u);
  EXPECT_EQ(stats.duration,
            Duration::Nanos(3'501'721'937'000));  // 18:15:46.6805900 to 19:14:08.4025270
  EXPECT_NEAR(*stats.rate_rps, 5.53, 0.005);
  EXPECT_NEAR(*stats.gap_cv, 1.09, 0.005);
  EXPECT_NEAR(stats.prompt_tokens.mean, 1155, 0.5);
  EXPECT_EQ(stats.prompt_tokens.p50, 1020);
  EXPECT_NEAR(stats.prompt_tokens.p99, 4142, 0.5);
  EXPECT_EQ(stats.prompt_tokens.min, 2u);
  EXPECT_EQ(stats.prompt_tokens.max, 14'050u);
  EXPECT_NEAR(stats.output_tokens.mean, 211, 0.5);
  EXPECT_EQ(stats.output_tokens.p50, 129);
  EXPECT_NEAR(stats.output_tokens.p99, 601, 0.5);
  EXPECT_EQ(stats.output_tokens.min, 7u);
  EXPECT_EQ(stats.output_tokens.max, 1'000u);
  EXPECT_EQ((*trace)->provenance.rows_out_of_order, 0u);
  EXPECT_TRUE((*trace)->provenance.dropped.empty());
}

// The twin against the file itself: lengths by the largest distance of their distribution
// functions.
double KolmogorovDistance(const Trace& a, const Trace& b, std::uint32_t TraceRow::*field) {
  const auto sorted = [field](const Trace& trace) {
    std::vector<std::uint32_t> values;
    for (const TraceRow& row : trace.rows) values.push_back(row.*field);
    std::sort(values.begin(), values.end());
    return values;
  };
  const auto x = sorted(a), y = sorted(b);
  double worst = 0;
  for (const std::uint32_t value : x) {
    const auto below = [value](const std::vector<std::uint32_t>& v) {
      return static_cast<double>(std::upper_bound(v.begin(), v.end(), value) - v.begin()) /
             static_cast<double>(v.size());
    };
    worst = std::max(worst, std::abs(below(x) - below(y)));
  }
  return worst;
}

TEST(TraceStats, TheTwinOfAzureConvIsCloseToTheFile) {
  const std::string path = AzureConvFile();
  if (IsMissing(path)) GTEST_SKIP() << path << kSkipped;
  const auto real = OpenTrace({.spec = path});
  const auto twin = OpenTrace({.spec = "synth:azure_conv"});
  ASSERT_TRUE(real.ok() && twin.ok());
  EXPECT_LT(KolmogorovDistance(**real, **twin, &TraceRow::prompt_tokens), 0.035);
  EXPECT_LT(KolmogorovDistance(**real, **twin, &TraceRow::output_tokens), 0.035);
}

}  // namespace
}  // namespace schedtwin
