// schedtwin sweep: every combination of lists of values, on all cores, in the simulated world.
#include "experiments/sweep.h"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/sweep_report.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"
#include "experiments/store/row_writer.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

constexpr std::string_view kDefaultRecord = "summary";

Flags SweepFlags() {
  Flags flags("sweep [EXPERIMENT] [FLAG...]",
              "Runs every combination of lists of values in the simulator, on all cores, and shows "
              "the frontier\n"
              "of latency against throughput. Any flag that says what to run takes a list: values "
              "separated by\n"
              "commas, or of integers a range A..B (--trace and --slo take no lists; repeat "
              "`values` of an axis on\n"
              "trace.source in an EXPERIMENT file for several traces). Runs that differ in their "
              "seed alone are\n"
              "averaged. Results and digests do not depend on --jobs.",
              {"schedtwin sweep --set policy.max_num_seqs=32,64,128,256 --rate-scale 0.5,1,2",
               "schedtwin sweep --policy vllm_v1,static_batch --trace synth:azure_conv --limit "
               "2000 --seed 1..5",
               "schedtwin sweep grid.textproto --jobs 2 --json"});
  flags.Arguments(0, 1);
  AddRunFlags(&flags, kDefaultRecord);
  flags.Value("jobs", "N", "runs at once (default: one per core)");
  flags.Value("latency", "FIGURE",
              "what the frontier trades for throughput, such as ttft_ms.p90 (default e2e_ms.p99)");
  return flags;
}

absl::StatusOr<unsigned> ReadJobs(const Flags& flags) {
  const std::optional<std::string> text = flags.value("jobs");
  if (!text.has_value()) return CpuCount();
  const std::optional<std::int64_t> jobs = ParseInteger(*text);
  if (!jobs.has_value() || *jobs < 1 || *jobs > 1024) {
    return absl::InvalidArgumentError(
        Cat("--jobs: cannot be '", *text, "'; it takes an integer from 1 to 1024"));
  }
  return static_cast<unsigned>(*jobs);
}

std::string AxesText(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& axis : axes) out += Cat(axis.path, ": ", Join(axis.values, ", "), "\n");
  return out;
}

// Writes one point as a run of its own.
absl::StatusOr<SweepRow> PublishRow(Store* store, std::int64_t sweep, std::size_t index,
                                    const SweepPoint& point, PointResult result) {
  if (!result.run.ok()) return result.run.status();
  SweepRow row;
  row.values = point.values;
  row.info = std::move(result.info);
  row.info.sweep = {sweep, static_cast<std::int64_t>(index)};
  // The process is busy with other points, too: what counts is the time of this one's thread.
  row.outcome = OutcomeOf(*result.run, result.metrics, result.run->thread_s);
  const absl::StatusOr<std::int64_t> run = store->BeginRun(row.info);
  if (!run.ok()) return run.status();
  row.run = *run;
  absl::Status status;
  if (result.rows.size() > 0) {
    absl::StatusOr<RowWriter> writer = RowWriter::Create(store->database(), *run);
    status = writer.ok() ? writer->Write(result.rows) : writer.status();
  }
  if (status.ok()) status = store->Publish(*run, row.outcome);
  if (!status.ok()) {
    store->RemoveOpenRun(*run).IgnoreError();
    return status;
  }
  return row;
}

absl::Status RunPoints(const std::vector<SweepPoint>& points, Store* store, SweepResult* result) {
  const Interrupt interrupt;
  Progress progress("sweep", "runs", points.size());
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status =
      RunSweep(points, result->jobs, interrupt.flag(), [&](std::size_t i, PointResult point) {
        absl::StatusOr<SweepRow> row =
            PublishRow(store, result->sweep, i, points[i], std::move(point));
        if (!row.ok()) return row.status();
        result->rows.push_back(*std::move(row));
        if (progress.counter() != nullptr) progress.counter()->fetch_add(1);
        return absl::OkStatus();
      });
  result->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return absl::IsCancelled(status) ? InterruptedError() : status;
}

absl::Status CheckResults(const SweepResult& result) {
  std::size_t unfinished = 0;
  const SweepRow* first = nullptr;
  for (const SweepRow& row : result.rows) {
    if (row.outcome.result == "finished") continue;
    ++unfinished;
    if (first == nullptr) first = &row;
  }
  if (first == nullptr) return absl::OkStatus();
  return absl::AbortedError(Cat(unfinished, " of ", result.rows.size(),
                                " runs did not finish; run ", first->run, " ",
                                first->outcome.result, ": ", first->outcome.result_detail));
}

absl::Status RunSweepCommand(const Flags& flags) {
  absl::StatusOr<Experiment> experiment = ReadExperiment(flags);
  if (!experiment.ok()) return experiment.status();
  absl::StatusOr<std::vector<Axis>> axes = TakeAxes(&*experiment);
  if (!axes.ok()) return axes.status();
  if (axes->empty()) {
    return absl::InvalidArgumentError(
        "sweep: there is nothing to vary; give a list, such as --rate-scale 0.5,1,2, or use "
        "`schedtwin sim`");
  }
  SweepResult result;
  result.latency = flags.value_or("latency", "e2e_ms.p99");
  absl::Status status = CheckLatencyFigure(result.latency, "--latency");
  if (!status.ok()) return status;
  const absl::StatusOr<unsigned> jobs = ReadJobs(flags);
  if (!jobs.ok()) return jobs.status();
  result.jobs = *jobs;
  const std::string db = flags.value_or("db", kDefaultDb);
  Resolver resolver({.record = kDefaultRecord}, db);
  const absl::StatusOr<std::vector<SweepPoint>> points =
      ExpandPoints(*experiment, *axes, &resolver);
  if (!points.ok()) return points.status();
  result.axes = *std::move(axes);

  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(db);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::int64_t> sweep = (*store)->AddSweep(
      static_cast<std::int64_t>(points->size()), AxesText(result.axes), experiment->ToText());
  if (!sweep.ok()) return sweep.status();
  result.sweep = *sweep;
  status = RunPoints(*points, store->get(), &result);
  if (!status.ok()) return status;
  result.process_s = ProcessSeconds();
  if (flags.given("json")) {
    PrintJson(SweepJson(result));
  } else {
    Print(SweepText(result));
    Print(Cat("stored in ", db, " as runs ", result.rows.front().run, " to ",
              result.rows.back().run, "\n"));
  }
  return CheckResults(result);
}

}  // namespace

const Command kSweep = {"sweep", "run every combination of lists of values, on all cores",
                        SweepFlags, RunSweepCommand};

}  // namespace schedtwin::cli
