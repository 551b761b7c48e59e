#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/metrics.h"
#include "experiments/metrics_sql.h"
#include "experiments/row_recorder.h"
#include "experiments/store/store.h"
#include "experiments/summary_recorder.h"
#include "policies/api/rng.h"
#include "tests/unit/experiments_testing.h"

namespace schedtwin {
namespace {

TEST(Metrics, PercentilesInterpolateLinearly) {
  std::vector<std::int64_t> values = {40, 10, 30, 20};  // numpy.percentile: 25, 37, 39.7
  const auto d = Summarize(std::span<std::int64_t>(values), 1.0);
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->count, 4);
  EXPECT_DOUBLE_EQ(d->mean, 25);
  EXPECT_DOUBLE_EQ(d->p50, 25);
  EXPECT_DOUBLE_EQ(d->p90, 37);
  EXPECT_DOUBLE_EQ(d->p99, 39.7);
  EXPECT_DOUBLE_EQ(d->max, 40);
}

TEST(Metrics, OfOneValueAndOfNone) {
  std::vector<double> one = {7.5};
  const auto d = Summarize(std::span<double>(one), 2.0);
  ASSERT_TRUE(d.has_value());
  for (const std::string_view name : StatisticNames()) EXPECT_DOUBLE_EQ(Statistic(*d, name), 15);
  EXPECT_EQ(Summarize(std::span<double>(), 1.0), std::nullopt);
}

TEST(Metrics, LatenciesAreFromTheScheduledArrivalAndNullsAreLeftOut) {
  SummaryRecorder recorder(Slo{});
  RequestRecord r = DecoderRecord(0, 1'000'000, 3'000'000, 9'000'000, 4);
  r.admitted = Time::Nanos(2'000'000);  // late generator: of no effect
  recorder.OnRequest(r);
  recorder.OnRequest(DecoderRecord(1, 2'000'000, 4'000'000, 4'000'000, 1));  // no TPOT
  recorder.OnRequest(OneShotRecord(2, 5'000'000, 6'000'000));                // no TTFT, no TPOT
  const RunMetrics m = recorder.Metrics();
  ASSERT_TRUE(m.ttft_ms && m.tpot_ms && m.e2e_ms);
  EXPECT_EQ(m.ttft_ms->count, 2);
  EXPECT_DOUBLE_EQ(m.ttft_ms->mean, 2);
  EXPECT_EQ(m.tpot_ms->count, 1);
  EXPECT_DOUBLE_EQ(m.tpot_ms->p50, 2);
  EXPECT_EQ(m.e2e_ms->count, 3);
  EXPECT_DOUBLE_EQ(m.e2e_ms->max, 8);
  EXPECT_EQ(m.makespan().ns(), 8'000'000);
  EXPECT_DOUBLE_EQ(*m.output_tokens_per_s(), 5 / 0.008);
  EXPECT_DOUBLE_EQ(m.throughput_rps->mean, 3 / 0.008);
  EXPECT_EQ(m.goodput_rps(), std::nullopt);
}

TEST(Metrics, UnservedRequestsCountButHaveNoLatency) {
  SummaryRecorder recorder(Slo{.e2e = Duration::Seconds(1)});
  for (const EndReason reason : {EndReason::kRejected, EndReason::kTimedOut, EndReason::kCancelled,
                                 EndReason::kFailed, EndReason::kCached}) {
    RequestRecord r = DecoderRecord(static_cast<std::uint32_t>(reason), 0, 10, 20, 2);
    r.reason = reason;
    recorder.OnRequest(r);
  }
  const RunMetrics m = recorder.Metrics();
  EXPECT_EQ(m.ended(), 5);
  EXPECT_EQ(m.completed, 1);
  EXPECT_EQ(m.cached, 1);
  EXPECT_EQ(m.rejected + m.timed_out + m.cancelled + m.failed, 4);
  EXPECT_EQ(m.e2e_ms->count, 1);
  EXPECT_EQ(m.good, 1);
}

TEST(Metrics, EmptyRunHasNulls) {
  const RunMetrics m = SummaryRecorder(Slo{.ttft = Duration::Millis(1)}).Metrics();
  EXPECT_FALSE(m.ttft_ms || m.tpot_ms || m.e2e_ms || m.throughput_rps);
  EXPECT_EQ(m.goodput_rps(), std::nullopt);
  EXPECT_TRUE(Flatten(m).empty());
}

TEST(Slo, MeetsEveryTargetExactly) {
  const RequestRecord r = DecoderRecord(0, 0, 100, 400, 4);
  EXPECT_TRUE(Slo{}.Met(r));
  EXPECT_TRUE((Slo{Duration::Nanos(100), Duration::Nanos(100), Duration::Nanos(400)}.Met(r)));
  EXPECT_FALSE((Slo{.ttft = Duration::Nanos(99)}.Met(r)));
  EXPECT_FALSE((Slo{.tpot = Duration::Nanos(99)}.Met(r)));
  EXPECT_FALSE((Slo{.e2e = Duration::Nanos(399)}.Met(r)));
  EXPECT_TRUE((Slo{.tpot = Duration::Nanos(1)}.Met(DecoderRecord(0, 0, 100, 100, 1))));
}

TEST(Throughput, CountsCompletionsInWholeWindows) {
  // 2.5 s: two windows of a tenth of it would be 0.25 s each; ten windows.
  EXPECT_EQ(ThroughputWindow(Duration::Millis(2500)).ns(), 250'000'000);
  EXPECT_EQ(ThroughputWindow(Duration::Seconds(3600)).ns(), 1'000'000'000);
  // However long the run, there are at most 100,000 windows.
  EXPECT_EQ(ThroughputWindow(Duration::Seconds(1'000'000'000)).ns(), 10'000'000'000'000);
  const auto year = SummarizeThroughput({}, Time(), Duration::Seconds(31'536'000));
  ASSERT_TRUE(year.has_value());
  EXPECT_LE(year->count, 100'000);
  const std::vector<std::int64_t> ends = {250'000'000, 250'000'001, 2'500'000'000};
  const auto d = SummarizeThroughput(ends, Time(), Duration::Millis(2500));
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->count, 10);
  EXPECT_DOUBLE_EQ(d->max, 4);  // one in 0.25 s
  EXPECT_DOUBLE_EQ(d->p50, 0);
  EXPECT_DOUBLE_EQ(d->mean, 3 / 2.5);
}

TEST(Slo, LongTargetsDoNotOverflow) {
  const RequestRecord r = DecoderRecord(0, 0, 100, 400, 1000);
  EXPECT_TRUE((Slo{.tpot = Duration::Seconds(31'536'000)}.Met(r)));
  EXPECT_FALSE((Slo{.tpot = Duration::Nanos(99)}.Met(DecoderRecord(0, 0, 100, 400, 4))));
  EXPECT_FALSE((Slo{.tpot = Duration::Nanos(100)}.Met(DecoderRecord(0, 0, 100, 401, 4))));
}

TEST(Metrics, MakespanIsFromTheFirstArrivalThoughThatNeverEnded) {
  SummaryRecorder recorder(Slo{});
  EXPECT_EQ(recorder.Metrics(Time::Nanos(5)).makespan(), Duration()) << "none ended";
  recorder.OnRequest(OneShotRecord(1, 2'000'000'000, 3'000'000'000));
  const RunMetrics m = recorder.Metrics(Time::Nanos(1'000'000'000));
  EXPECT_EQ(m.makespan(), Duration::Seconds(2));
  EXPECT_DOUBLE_EQ(m.throughput_rps->mean, 0.5);
}

// A run of random requests, recorded once, measured by both implementations.
class BothImplementations : public testing::TestWithParam<std::uint64_t> {};

TEST_P(BothImplementations, Agree) {
  const std::string path = TempPath("metrics.db");
  auto store = Store::OpenForWriting(path);
  ASSERT_TRUE(store.ok()) << store.status();
  RunInfo info = TestRun();
  info.slo = {Duration::Millis(40), Duration::Millis(3), Duration::Millis(90)};
  const auto run = (*store)->BeginRun(info);
  ASSERT_TRUE(run.ok()) << run.status();
  auto writer = RowWriter::Create((*store)->database(), *run);
  ASSERT_TRUE(writer.ok()) << writer.status();
  RowRecorder recorder(RecordLevel::kSteps, info.slo, 0, &*writer);
  const auto n = static_cast<std::uint32_t>(40'000 / GetParam());
  RecordRandomRequests(GetParam(), n, &recorder);
  RecordRandomSteps(GetParam(), 1'000, &recorder);
  ASSERT_TRUE(recorder.Flush().ok());
  RunOutcome outcome = TestOutcome();
  outcome.requests = n;
  outcome.metrics = recorder.summary().Metrics();
  ASSERT_TRUE((*store)->Publish(*run, outcome).ok());

  const auto from_rows = MetricsFromRows((*store)->database(), *run);
  ASSERT_TRUE(from_rows.ok()) << from_rows.status();
  EXPECT_EQ(from_rows->completed, outcome.metrics.completed);
  EXPECT_EQ(from_rows->good, outcome.metrics.good);
  EXPECT_EQ(from_rows->first_arrival, outcome.metrics.first_arrival);
  EXPECT_EQ(from_rows->last_end, outcome.metrics.last_end);
  const auto direct = Flatten(outcome.metrics);
  const auto sql = Flatten(*from_rows);
  EXPECT_EQ(outcome.metrics.prefix_hit_ratio().has_value(), n > 1) << "one alone found nothing";
  EXPECT_THAT(direct, testing::Contains(testing::Field(&MetricRow::name, "decision_us")).Times(5));
  EXPECT_THAT(direct, testing::Contains(testing::Field(&MetricRow::name, "operations")).Times(6));
  ASSERT_EQ(sql.size(), direct.size());
  for (std::size_t i = 0; i < sql.size(); ++i) {
    EXPECT_EQ(sql[i].name, direct[i].name);
    EXPECT_EQ(sql[i].statistic, direct[i].statistic);
    EXPECT_NEAR(sql[i].value, direct[i].value, 1e-9 * std::max(1.0, direct[i].value))
        << sql[i].name << " " << sql[i].statistic;
  }
}
// Both keep to their bound of windows, and agree, over thirty years.
TEST(Throughput, BothImplementationsAgreeOnALongRun) {
  auto store = Store::OpenForWriting(TempPath("metrics.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  const auto run = (*store)->BeginRun(TestRun());
  auto writer = RowWriter::Create((*store)->database(), *run);
  RowRecorder recorder(RecordLevel::kRequests, Slo{}, 0, &*writer);
  constexpr std::int64_t kYear = 31'536'000'000'000'000;
  for (std::uint32_t id = 0; id < 30; ++id) {
    recorder.OnRequest(OneShotRecord(id, kYear * id, kYear * id + kYear));
  }
  ASSERT_TRUE(recorder.Flush().ok());
  RunOutcome outcome = TestOutcome();
  outcome.requests = 30;
  outcome.metrics = recorder.summary().Metrics();
  ASSERT_TRUE((*store)->Publish(*run, outcome).ok());
  const auto from_rows = MetricsFromRows((*store)->database(), *run);
  ASSERT_TRUE(from_rows.ok()) << from_rows.status();
  EXPECT_LE(from_rows->throughput_rps->count, 100'000);
  EXPECT_EQ(from_rows->throughput_rps->count, outcome.metrics.throughput_rps->count);
  EXPECT_NEAR(from_rows->throughput_rps->max, outcome.metrics.throughput_rps->max, 1e-12);
}
INSTANTIATE_TEST_SUITE_P(Seeds, BothImplementations, testing::Values(1, 2, 97, 5000, 20000, 40000));

}  // namespace
}  // namespace schedtwin
