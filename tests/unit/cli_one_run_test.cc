// A device that throws in the middle of a run, seen from the command that runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/execute.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/one_run.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/store/check.h"
#include "tests/support/sleeping_runner.h"
#include "traces/source.h"

namespace schedtwin::cli {
namespace {

// RunReal on a device whose fourth step throws.
absl::StatusOr<RunResultData> RunOnBrokenDevice(const RunSpec& spec, const RunControl& control,
                                                RowRecorder* recorder) {
  const auto trace = TraceSource::Create(spec.trace, spec.view);
  if (!trace.ok()) return trace.status();
  RequestSource* const source = trace->get();
  const std::unique_ptr<Policy> policy = spec.policy->create(spec.parameters);
  ExecSetup setup;
  setup.make_runner = MakeSleepingRunner(spec.device, Duration::Micros(100), /*throw_at=*/3);
  setup.world.stop = control.stop;
  const auto result = Execute(setup, policy.get(), {&source, 1}, recorder, recorder->wants());
  if (!result.ok()) return result.status();
  ADD_FAILURE() << "it was to throw";
  return RunResultData{.summary = result->summary};
}

TEST(RunOne, ADeviceThatThrowsLeavesNoRun) {
  const std::string db = testing::TempDir() + "/one_run_throws.db";
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(db + suffix);
  Flags flags("exec", "", {});
  AddRunFlags(&flags, "full", WorldKind::kCpu);
  const std::vector<std::string> words = {"--db", db, "--trace",
                                          "synth:poisson:rate=1000,count=20"};
  ASSERT_TRUE(flags.Parse(words).ok());
  const auto experiment = ReadExperiment(flags);
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  const auto spec = Resolver().Resolve(*experiment, WorldKind::kCpu);
  ASSERT_TRUE(spec.ok()) << spec.status();

  const absl::Status status = RunOne(flags, *spec, RunOnBrokenDevice);
  EXPECT_EQ(status.message(), "device 0: the fan has stopped");
  EXPECT_EQ(ExitStatus(status), 1);

  const auto store = Store::OpenForReading(db);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto check = CheckStore(**store);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->problems, testing::IsEmpty());
  EXPECT_EQ(check->published_runs, 0);
  EXPECT_EQ(check->open_runs, 0);
  EXPECT_EQ(check->abandoned_runs, 0);
}

}  // namespace
}  // namespace schedtwin::cli
