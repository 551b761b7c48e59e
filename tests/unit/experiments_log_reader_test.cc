// A log comes out of the results file as it went in, and a measured run is replayed from there.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/store/log_reader.h"
#include "experiments/store/row_writer.h"
#include "experiments/store/store.h"
#include "policies/api/rng.h"
#include "tests/support/mini_batch.h"
#include "tests/support/real_world.h"
#include "tests/unit/experiments_testing.h"

namespace schedtwin {
namespace {

class LogReading : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Store::OpenForWriting(TempPath("log.db"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store = *std::move(opened);
  }

  std::int64_t Write(const std::vector<LogRecord>& lines) {
    const auto run = store->BeginRun(TestRun());
    EXPECT_TRUE(run.ok()) << run.status();
    auto writer = RowWriter::Create(store->database(), *run);
    EXPECT_TRUE(writer.ok()) << writer.status();
    RowBuffer rows;
    rows.log = lines;
    EXPECT_TRUE(writer->Write(rows).ok());
    return *run;
  }

  LogReader Read(std::int64_t run) {
    auto reader = LogReader::Create(store->database(), run);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  std::unique_ptr<Store> store;
};

TEST_F(LogReading, GivesTheLinesOfOneRunInOrderToTheBit) {
  Rng rng(1, "log reader");
  std::vector<LogRecord> lines;
  for (std::uint64_t i = 0; i < 500; ++i) {
    lines.push_back({i, Time::Nanos(static_cast<std::int64_t>(rng.Next64() >> 1)),
                     static_cast<std::uint8_t>(rng.Below(256)),
                     static_cast<std::uint8_t>(rng.Below(256)), rng.Next64(), rng.Next64(),
                     rng.Next64()});
  }
  Write({lines[0], lines[1]});
  const std::int64_t run = Write(lines);
  LogReader reader = Read(run);
  LogRecord line;
  for (const LogRecord& wanted : lines) {
    ASSERT_TRUE(reader.Next(&line));
    EXPECT_EQ(line.sequence, wanted.sequence);
    EXPECT_EQ(line.time, wanted.time);
    EXPECT_EQ(line.kind, wanted.kind);
    EXPECT_EQ(line.code, wanted.code);
    EXPECT_EQ(line.a, wanted.a);
    EXPECT_EQ(line.b, wanted.b);
    EXPECT_EQ(line.c, wanted.c);
  }
  EXPECT_FALSE(reader.Next(&line));
  EXPECT_FALSE(reader.Next(&line));
  EXPECT_TRUE(reader.status().ok());
}

TEST_F(LogReading, SaysWhichLineIsMissing) {
  std::vector<LogRecord> lines(3);
  for (std::uint64_t i = 0; i < 3; ++i) lines[i].sequence = i + i / 2;  // 0 1 3
  LogReader reader = Read(Write(lines));
  LogRecord line;
  EXPECT_TRUE(reader.Next(&line));
  EXPECT_TRUE(reader.Next(&line));
  EXPECT_FALSE(reader.Next(&line));
  EXPECT_NE(reader.status().message().find("line 2 is missing"), absl::string_view::npos);
  EXPECT_FALSE(reader.Next(&line));
}

TEST_F(LogReading, AMeasuredRunIsReplayedFromTheFile) {
  ReplaySetup setup;
  setup.device.name = "fake";
  setup.device.total_blocks = 40;
  setup.device.block_tokens = 4;
  setup.world.identify_blocks = true;
  const std::vector<RequestSpec> requests(12, TokenRequest(5, 20, 15));
  MiniBatch policy(/*standing=*/true, /*max_steps=*/16), again(true, 16);
  const RealRun run = RunForReal(setup, /*seed=*/9, &policy, requests);
  ASSERT_EQ(run.summary.result, RunResult::kFinished);
  LogReader reader = Read(Write(run.log));
  ListSource source(requests);
  RequestSource* const sources[] = {&source};
  const ReplayReport report = Replay(run.setup, &again, sources, &reader);
  EXPECT_FALSE(report.divergence.has_value()) << report.lines;
  EXPECT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_EQ(report.lines, run.log.size());
  EXPECT_EQ(report.summary.decision_digest, run.summary.decision_digest);
  EXPECT_EQ(report.summary.outcome_digest, run.summary.outcome_digest);
}

}  // namespace
}  // namespace schedtwin
