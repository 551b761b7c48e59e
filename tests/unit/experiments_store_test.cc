#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "experiments/metrics_sql.h"
#include "experiments/row_recorder.h"
#include "experiments/store/check.h"
#include "experiments/store/owner.h"
#include "experiments/store/schema.h"
#include "experiments/store/store.h"
#include "tests/unit/experiments_testing.h"

namespace schedtwin {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<Store> MustOpen(const std::string& path, const Owner& owner = CurrentOwner()) {
  auto store = Store::OpenForWriting(path, owner);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::int64_t Count(Store& store, const std::string& table) {
  const auto count = store.database().Integer("SELECT count(*) FROM " + table);
  EXPECT_TRUE(count.ok()) << count.status();
  return count.value_or(-1);
}

// Writes one run with `requests` rows; published or left open.
std::int64_t WriteRun(Store& store, std::uint32_t requests, bool publish) {
  const auto run = store.BeginRun(TestRun());
  EXPECT_TRUE(run.ok()) << run.status();
  auto writer = RowWriter::Create(store.database(), *run);
  EXPECT_TRUE(writer.ok()) << writer.status();
  RowRecorder recorder(RecordLevel::kRequests, Slo{}, requests, &*writer);
  RecordRandomRequests(1, requests, &recorder);
  EXPECT_TRUE(recorder.Flush().ok());
  if (!publish) return *run;
  RunOutcome outcome = TestOutcome();
  outcome.requests = requests;
  outcome.metrics = recorder.summary().Metrics();
  const absl::Status status = store.Publish(*run, outcome);
  EXPECT_TRUE(status.ok()) << status;
  return *run;
}

CheckReport MustCheck(Store& store) {
  auto report = CheckStore(store);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(CheckReport());
}

TEST(Store, MakesAStrictWalFileWithVersionAndForeignKeys) {
  auto store = MustOpen(TempPath("a.db"));
  Database& db = store->database();
  EXPECT_EQ(*db.Integer("PRAGMA user_version"), CurrentVersion());
  EXPECT_EQ(*db.Integer("PRAGMA application_id"), kApplicationId);
  EXPECT_EQ(*db.Integer("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(*db.Integer("PRAGMA synchronous"), 1);
  EXPECT_EQ(*db.Integer("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
  EXPECT_EQ(
      *db.Integer("SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND NOT strict "
                  "AND name NOT LIKE 'sqlite_%'"),
      0);
  EXPECT_FALSE(db.Execute("INSERT INTO metrics VALUES (99, 'a', 'b', 1.0)").ok());
}

TEST(Store, OpenRunsAreNotVisible) {
  auto store = MustOpen(TempPath("a.db"));
  const std::int64_t run = WriteRun(*store, 100, false);
  EXPECT_EQ(Count(*store, "requests"), 100);
  for (const char* view : {"published_runs", "published_requests", "published_parameters"}) {
    EXPECT_EQ(Count(*store, view), 0) << view;
  }
  EXPECT_FALSE(store->Resolve("latest").ok());
  ASSERT_TRUE(store->RemoveOpenRun(run).ok());
  for (const char* table : {"runs", "requests", "parameters"}) EXPECT_EQ(Count(*store, table), 0);
}

TEST(Store, PublishesRunRowsAndMetricsTogether) {
  auto store = MustOpen(TempPath("a.db"));
  WriteRun(*store, 50'000, true);  // more than one batch
  EXPECT_EQ(Count(*store, "published_runs"), 1);
  EXPECT_EQ(Count(*store, "published_requests"), 50'000);
  EXPECT_EQ(Count(*store, "published_metrics"), 22);
  EXPECT_THAT(MustCheck(*store).problems, IsEmpty());
}

TEST(Store, PublishesARunOnlyOnce) {
  auto store = MustOpen(TempPath("a.db"));
  const std::int64_t run = WriteRun(*store, 10, true);
  EXPECT_FALSE(store->Publish(run, TestOutcome()).ok());
  ASSERT_TRUE(store->RemoveOpenRun(run).ok());
  EXPECT_EQ(Count(*store, "published_runs"), 1) << "a published run stays";
}

TEST(Store, ResolvesNumbersAndLatest) {
  auto store = MustOpen(TempPath("a.db"));
  WriteRun(*store, 1, true);
  WriteRun(*store, 1, true);
  WriteRun(*store, 1, false);
  EXPECT_EQ(*store->Resolve("latest"), 2);
  EXPECT_EQ(*store->Resolve("latest-1"), 1);
  EXPECT_EQ(*store->Resolve("2"), 2);
  for (const char* bad : {"3", "latest-2", "0"}) {
    EXPECT_THAT(store->Resolve(bad).status().message(), HasSubstr("holds 2 published runs")) << bad;
  }
  for (const char* bad : {"", "latest-", "latest1", "-1", "last", "latest--1"}) {
    EXPECT_THAT(store->Resolve(bad).status().message(), HasSubstr("names no run")) << bad;
  }
}

TEST(Store, LatestIsTheOnePublishedLast) {
  auto store = MustOpen(TempPath("a.db"));
  const std::int64_t slow = WriteRun(*store, 1, false);
  const std::int64_t quick = WriteRun(*store, 1, true);
  RunOutcome outcome = TestOutcome();
  ASSERT_TRUE(store->Publish(slow, outcome).ok());
  EXPECT_EQ(*store->Resolve("latest"), slow);
  EXPECT_EQ(*store->Resolve("latest-1"), quick);
}

TEST(Store, OpeningRemovesRunsOfDeadOwnersOnly) {
  const std::string path = TempPath("a.db");
  Owner rebooted = CurrentOwner();
  rebooted.boot = "00000000-0000-0000-0000-000000000000";
  Owner recycled = CurrentOwner();
  recycled.start_ticks -= 1;  // the process id now belongs to another process
  Owner elsewhere = CurrentOwner();
  elsewhere.pid_namespace = "pid:[1]";
  elsewhere.pid = 999'999'999;
  for (const Owner& owner : {rebooted, recycled, elsewhere, CurrentOwner()}) {
    WriteRun(*MustOpen(path, owner), 5, false);
  }
  auto store = MustOpen(path);
  EXPECT_EQ(Count(*store, "runs"), 2) << "another container's and our own stay";
  EXPECT_EQ(Count(*store, "requests"), 10);
}

TEST(Owner, IsDeadOnlyWhenThatIsCertain) {
  const Owner self = CurrentOwner();
  EXPECT_FALSE(self.machine.empty());
  EXPECT_FALSE(IsDead(self, self));
  Owner reused = self;
  reused.start_ticks += 1;
  EXPECT_TRUE(IsDead(reused, self));
  Owner rebooted = self;
  rebooted.boot = "another";
  EXPECT_TRUE(IsDead(rebooted, self));
  rebooted.machine = "another";
  EXPECT_FALSE(IsDead(rebooted, self)) << "another machine has another boot, always";
  Owner unknown = self;
  unknown.boot.clear();
  EXPECT_FALSE(IsDead(unknown, self));
}

TEST(Owner, IsSeenWithoutProc) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const Owner self = CurrentOwner();
  Owner dead = self;
  dead.pid = child;
  Owner other = self;  // of root, or whoever runs this container
  other.pid = 1;
  // As with hidepid=2: others' processes are not in /proc, but live.
  const std::string nothing = TempPath("proc");
  EXPECT_FALSE(IsDead(self, self, nothing));
  EXPECT_FALSE(IsDead(other, self, nothing));
  EXPECT_TRUE(IsDead(dead, self, nothing));
}

TEST(Store, NeverGivesARunsNumberAgain) {
  auto store = MustOpen(TempPath("a.db"));
  const std::int64_t removed = WriteRun(*store, 3, false);
  auto writer = RowWriter::Create(store->database(), removed);
  ASSERT_TRUE(store->RemoveOpenRun(removed).ok());
  EXPECT_GT(WriteRun(*store, 3, true), removed);
  RowBuffer rows;
  rows.requests.push_back(OneShotRecord(99, 0, 1));
  EXPECT_FALSE(writer->Write(rows).ok()) << "its rows may land in no other run";
  EXPECT_EQ(Count(*store, "requests"), 3);
}

TEST(Store, KilledProcessLeavesAWholeFileWithoutItsRun) {
  const std::string path = TempPath("a.db");
  WriteRun(*MustOpen(path), 20, true);
  for (int round = 0; round < 5; ++round) {
    std::array<int, 2> pipe_ends;
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto store = Store::OpenForWriting(path);
      const auto run = (*store)->BeginRun(TestRun());
      auto writer = RowWriter::Create((*store)->database(), *run);
      RowRecorder recorder(RecordLevel::kRequests, Slo{}, 0, &*writer);
      for (std::uint32_t id = 0;; ++id) {
        recorder.OnRequest(OneShotRecord(id, id, id + 1));
        if (id == RowRecorder::kBatchRows && write(pipe_ends[1], "x", 1) != 1) _exit(1);
      }
    }
    char byte = 0;
    ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);  // one batch is in the file
    usleep(static_cast<useconds_t>(7'000 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);

    auto reader = Store::OpenForReading(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(Count(**reader, "published_runs"), 1);
    EXPECT_EQ(Count(**reader, "published_requests"), 20);
    const CheckReport report = MustCheck(**reader);
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.abandoned_runs, 1);
    auto writer = MustOpen(path);
    EXPECT_EQ(Count(*writer, "runs"), 1);
    EXPECT_EQ(Count(*writer, "requests"), 20);
  }
}

TEST(Store, TwoWritersTakeTurns) {
  const std::string path = TempPath("a.db");
  auto a = MustOpen(path);
  auto b = MustOpen(path);
  WriteRun(*a, 100, true);
  WriteRun(*b, 100, true);
  WriteRun(*a, 100, true);
  EXPECT_EQ(Count(*b, "published_requests"), 300);
}

TEST(Store, RefusesWhatIsNoResultsFile) {
  const std::string path = TempPath("a.db");
  std::ofstream(path) << std::string(4096, 'x');
  EXPECT_THAT(Store::OpenForWriting(path).status().message(),
              HasSubstr("not a schedtwin results file"));
  EXPECT_THAT(Store::OpenForReading(path).status().message(),
              HasSubstr("not a schedtwin results file"));
  EXPECT_EQ(std::filesystem::file_size(path), 4096u) << "nothing was written";

  const std::string other = TempPath("other.db");
  ASSERT_TRUE(Database::Open(other, OpenMode::kWrite)->Execute("CREATE TABLE t (x)").ok());
  EXPECT_THAT(Store::OpenForWriting(other).status().message(),
              HasSubstr("another program's database"));

  EXPECT_THAT(Store::OpenForReading(TempPath("none.db")).status().message(),
              HasSubstr("no results file"));
}

TEST(Store, RefusesFilesThatItCannotWrite) {
  const std::string missing = TempPath("a.db") + ".d/x/y.db";
  EXPECT_TRUE(absl::IsPermissionDenied(Store::OpenForWriting(missing).status()));
  const std::string path = TempPath("b.db");
  MustOpen(path).reset();
  chmod(path.c_str(), 0444);
  const bool root = geteuid() == 0;  // who may write everywhere, so be nobody for a moment
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "root here cannot become another user";
  const absl::Status status = Store::OpenForWriting(path).status();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

TEST(Store, ReadsAFileThatMayOnlyBeRead) {
  const std::string folder = TempPath("read only?") + ".d";  // what a URI would misread
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/a%41#b.db";
  WriteRun(*MustOpen(path), 20, true);
  ASSERT_FALSE(std::filesystem::exists(path + "-wal"));
  chmod(path.c_str(), 0444);
  chmod(folder.c_str(), 0555);
  const bool root = geteuid() == 0;
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "root here cannot become another user";
  {
    const auto store = Store::OpenForReading(path);
    EXPECT_TRUE(store.ok()) << store.status();
    if (store.ok()) {
      EXPECT_EQ(Count(**store, "published_requests"), 20);
      EXPECT_THAT(MustCheck(**store).problems, IsEmpty());
    }
  }
  ASSERT_TRUE(!root || seteuid(0) == 0);
  chmod(path.c_str(), 0000);
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const absl::Status status = Store::OpenForReading(path).status();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  chmod(folder.c_str(), 0755);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("cannot read results file"));
}

TEST(Store, ReadingNamesWhatIsNoResultsFile) {
  EXPECT_THAT(Store::OpenForReading("").status().message(), HasSubstr("is no file for results"));
  EXPECT_THAT(Store::OpenForReading("/tmp").status().message(), HasSubstr("is no regular file"));
  const std::string empty = TempPath("empty.db");
  std::ofstream(empty).close();
  EXPECT_THAT(Store::OpenForReading(empty).status().message(), HasSubstr("holds no runs yet"));
}

TEST(Database, TakesEveryNameForAFile) {
  const std::string folder = TempPath("d");
  std::filesystem::create_directories(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  {
    const auto store = Store::OpenForWriting("file:a.db?mode=memory");
    EXPECT_TRUE(store.ok()) << store.status();
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder + "/file:a.db?mode=memory"));
}

TEST(Migrations, DoNotWaitForeverForAHeldFile) {
  const std::string path = TempPath("a.db");
  auto holder = Database::Open(path, OpenMode::kWrite);
  ASSERT_TRUE(holder->Execute("BEGIN EXCLUSIVE; CREATE TABLE t (x)").ok());
  auto database = Database::Open(path, OpenMode::kWrite);
  database->set_busy_timeout(std::chrono::milliseconds(100));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsUnavailable(Migrate(*database)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Store, RefusesNewerSchemas) {
  const std::string path = TempPath("a.db");
  ASSERT_TRUE(MustOpen(path)->database().Execute("PRAGMA user_version = 999").ok());
  EXPECT_THAT(Store::OpenForWriting(path).status().message(),
              HasSubstr("newer schedtwin (schema 999"));
  EXPECT_THAT(Store::OpenForReading(path).status().message(), HasSubstr("newer schedtwin"));
}

TEST(Migrations, RunWhatIsMissingInOneTransaction) {
  const std::string path = TempPath("a.db");
  auto database = Database::Open(path, OpenMode::kWrite);
  const std::array<Migration, 1> first = {{{1, "CREATE TABLE a (x)"}}};
  ASSERT_TRUE(Migrate(*database, first).ok());
  const std::array<Migration, 3> broken = {
      {{1, "CREATE TABLE a (x)"}, {2, "CREATE TABLE b (x)"}, {3, "CREATE NONSENSE"}}};
  EXPECT_FALSE(Migrate(*database, broken).ok());
  EXPECT_EQ(*database->Integer("PRAGMA user_version"), 1);
  EXPECT_FALSE(database->Integer("SELECT count(*) FROM b").ok()) << "all or nothing";
  const std::array<Migration, 2> second = {{{1, "CREATE TABLE a (x)"}, {2, "CREATE TABLE b (x)"}}};
  ASSERT_TRUE(Migrate(*database, second).ok());
  ASSERT_TRUE(Migrate(*database, second).ok());
  EXPECT_EQ(*database->Integer("PRAGMA user_version"), 2);
}

TEST(Migrations, AnOlderFileKeepsItsRunsAndHolds) {
  const std::string path = TempPath("a.db");
  {
    auto database = Database::Open(path, OpenMode::kWrite);
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE(Migrate(*database, Migrations().first(3)).ok());
    ASSERT_TRUE(
        database
            ->Execute(
                "INSERT INTO runs VALUES (1, 'published', '', '', '', 1, 1, 1, 1, NULL, NULL, "
                "'sim', "
                "'fifo', 'm', 1, 'p', '', 't', '', '', '', 1, 'steps', NULL, NULL, NULL, 0, '1', "
                "'h', '', 'finished', '', '0123456789abcdef', '0123456789abcdef', 1, 1, 0, 0, 0, "
                "0, "
                "0, 0, 0, 0, 0, 1, 1, 0, 0, 9, 9, 1.0, 1.0);"
                "INSERT INTO requests VALUES (1, 0, 0, 0, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, NULL, "
                "NULL, 9);"
                "INSERT INTO steps VALUES (1, 0, 0, 0, 0, 0, 9, 0, 10, 1, 0, 0, 5, NULL, NULL)")
            .ok());
  }
  auto store = MustOpen(path);
  EXPECT_EQ(*store->database().Integer("SELECT cached_tokens FROM published_requests"), 0);
  EXPECT_EQ(*store->database().Integer("SELECT decision_ns IS NULL FROM published_steps"), 1);
  EXPECT_EQ(Count(*store, "published_operations"), 0);
  const auto metrics = MetricsFromRows(store->database(), 1);
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->prefix_hit_ratio(), std::nullopt);
}

TEST(Store, KeepsOperationsAndDecisions) {
  auto store = MustOpen(TempPath("a.db"));
  const auto run = store->BeginRun(TestRun());
  ASSERT_TRUE(run.ok()) << run.status();
  auto writer = RowWriter::Create(store->database(), *run);
  ASSERT_TRUE(writer.ok()) << writer.status();
  RowRecorder recorder(RecordLevel::kSteps, Slo{}, 0, &*writer);
  OperationRecord swap;
  swap.id = {3, 1};
  swap.request = {7};
  swap.from = swap.to = {0};
  swap.bytes = 4096;
  swap.ok = true;
  swap.asked = Time::Nanos(5);
  swap.start = Time::Nanos(6);
  swap.end = Time::Nanos(9);
  recorder.OnOperation(swap);
  StepRecord step;
  step.decision_ns = 1'500;
  recorder.OnStep(step);
  ASSERT_TRUE(recorder.Flush().ok());
  ASSERT_TRUE(store->Publish(*run, TestOutcome()).ok());
  Database& db = store->database();
  EXPECT_EQ(*db.Integer("SELECT count(*) FROM published_operations WHERE kind = 'swap_out' AND "
                        "request_id = 7 AND model IS NULL AND from_device = 0 AND bytes = 4096 AND "
                        "ok AND asked_ns = 5 AND start_ns = 6 AND end_ns = 9"),
            1);
  EXPECT_EQ(*db.Integer("SELECT decision_ns FROM published_steps"), 1'500);
  const RunMetrics metrics = recorder.summary().Metrics();
  EXPECT_EQ(metrics.operations[0].done, 1);
  EXPECT_EQ(metrics.operations[0].bytes, 4096);
  EXPECT_DOUBLE_EQ(metrics.decision_us->p50, 1.5);
}

TEST(Check, FindsWhatDoesNotHold) {
  auto store = MustOpen(TempPath("a.db"));
  WriteRun(*store, 100, true);
  const struct {
    const char* damage;
    const char* problem;
  } cases[] = {
      {"UPDATE runs SET outcome_digest = '12XY'", "is not 16 hexadecimal digits"},
      {"UPDATE runs SET rejected = rejected + 1", "ends add up to"},
      {"DELETE FROM requests WHERE request_id = 5", "99 are stored"},
      {"UPDATE requests SET end_ns = arrival_ns - 1 WHERE request_id = 7", "times out of order"},
      {"UPDATE metrics SET value = value * 1.001 WHERE name = 'e2e_ms' AND statistic = 'p90'",
       "e2e_ms p90 is stored as"},
      {"DELETE FROM metrics WHERE name = 'ttft_ms'", "ttft_ms p99 is not stored"},
      {"UPDATE runs SET makespan_ns = makespan_ns + 1", "makespan is not"},
      {"UPDATE runs SET first_arrival_ns = first_arrival_ns - 1, makespan_ns = makespan_ns + 1",
       "first_arrival_ns or last_end_ns is not that"},
      {"PRAGMA foreign_keys = OFF; DELETE FROM runs", "refers to a missing row of runs"},
      {"DROP VIEW published_steps; CREATE VIEW published_steps AS SELECT * FROM gone",
       "published_steps"},
  };
  for (const auto& [damage, problem] : cases) {
    ASSERT_TRUE(store->database().Execute("SAVEPOINT s").ok());
    if (std::string(damage).starts_with("PRAGMA")) {
      ASSERT_TRUE(
          store->database().Execute("RELEASE s").ok());  // the pragma works outside transactions
      WriteRun(*store, 3, true);
    }
    ASSERT_TRUE(store->database().Execute(damage).ok()) << damage;
    EXPECT_THAT(MustCheck(*store).problems, testing::Contains(HasSubstr(problem))) << damage;
    if (store->database().in_transaction()) {
      ASSERT_TRUE(store->database().Execute("ROLLBACK TO s; RELEASE s").ok());
    } else {
      ASSERT_TRUE(store->database()
                      .Execute("DELETE FROM requests; DELETE FROM metrics; DELETE FROM parameters")
                      .ok());
    }
  }
}

}  // namespace
}  // namespace schedtwin
