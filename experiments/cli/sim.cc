// schedtwin sim: one run in the simulated world.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/run_report.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/row_recorder.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

Flags SimFlags() {
  Flags flags(
      "sim [EXPERIMENT] [FLAG...]",
      "Runs one policy on one trace in the simulator: virtual time, device models from a profile.\n"
      "The run is stored in the results file. EXPERIMENT is a .textproto file; flags override it.",
      {"schedtwin sim --trace synth:azure_conv --policy vllm_v1 --profile llama3-8b-a100",
       "schedtwin sim --trace AzureLLMInferenceTrace_conv.csv --rate-scale 2 --slo "
       "ttft=1s,tpot=50ms",
       "schedtwin sim --policy dynamic_batch --profile resnet50-t4 --trace synth:poisson:rate=200 "
       "\\",
       "    --set policy.max_queue_delay=5ms", "schedtwin sim burst.textproto --seed 7 --json"});
  flags.Arguments(0, 1);
  AddRunFlags(&flags, ExperimentDefaults().record);
  return flags;
}

// The open run of this process; removed on the way out unless it was published.
class OpenRun {
 public:
  OpenRun(Store* store, std::int64_t id) : store_(store), id_(id) {}
  ~OpenRun() {
    if (store_ != nullptr) store_->RemoveOpenRun(id_).IgnoreError();
  }
  OpenRun(const OpenRun&) = delete;
  OpenRun& operator=(const OpenRun&) = delete;

  std::int64_t id() const { return id_; }
  absl::Status Publish(const RunOutcome& outcome) {
    const absl::Status status = store_->Publish(id_, outcome);
    if (status.ok()) store_ = nullptr;
    return status;
  }

 private:
  Store* store_;
  std::int64_t id_;
};

absl::StatusOr<RunOutcome> RunAndPublish(const RunSpec& spec, Store* store, OpenRun* run) {
  const Interrupt interrupt;
  std::optional<RowWriter> writer;
  if (spec.record != RecordLevel::kSummary) {
    absl::StatusOr<RowWriter> created = RowWriter::Create(store->database(), run->id());
    if (!created.ok()) return created.status();
    writer = *std::move(created);
  }
  const std::uint64_t expected = ExpectedRequests(spec);
  RowRecorder recorder(spec.record, spec.slo, expected, writer.has_value() ? &*writer : nullptr);
  absl::StatusOr<RunResultData> result;
  {
    Progress progress("sim", "requests", expected);
    result =
        RunSim(spec, {.stop = interrupt.flag(), .requests_seen = progress.counter()}, &recorder);
  }
  if (!result.ok()) return result.status();
  if (interrupt.raised()) return InterruptedError();
  if (writer.has_value()) {
    const absl::Status status = recorder.Flush();
    if (!status.ok()) return status;
  }
  const RunOutcome outcome = OutcomeOf(*result, MetricsOf(*result, &recorder), ProcessSeconds());
  const absl::Status status = run->Publish(outcome);
  if (!status.ok()) return status;
  return outcome;
}

// What to type next, where there is a run to compare with.
std::string CompareHint(Store* store, const std::string& db) {
  if (!store->Resolve("latest-1").ok()) return "";
  return Cat("; `schedtwin compare latest-1 latest", db == kDefaultDb ? "" : Cat(" --db ", db),
             "` compares it with the run before");
}

absl::Status RunSimCommand(const Flags& flags) {
  const absl::StatusOr<Experiment> experiment = ReadExperiment(flags);
  if (!experiment.ok()) return experiment.status();
  Resolver resolver;
  const absl::StatusOr<RunSpec> spec = resolver.Resolve(*experiment);
  if (!spec.ok()) return spec.status();
  const std::string db = flags.value_or("db", kDefaultDb);
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(db);
  if (!store.ok()) return store.status();
  const RunInfo info = InfoOf(*spec, "sim");
  const absl::StatusOr<std::int64_t> id = (*store)->BeginRun(info);
  if (!id.ok()) return id.status();
  OpenRun run(store->get(), *id);
  absl::StatusOr<RunOutcome> outcome = RunAndPublish(*spec, store->get(), &run);
  if (!outcome.ok()) return outcome.status();
  outcome->process_s = ProcessSeconds();
  if (flags.given("json")) {
    PrintJson(RunJson(*id, info, *outcome));
  } else {
    Print(RunText(*id, info, *outcome));
    Print(Cat("  stored in ", db, CompareHint(store->get(), db), "\n"));
  }
  if (outcome->result == "finished") return absl::OkStatus();
  return absl::AbortedError(Cat("run ", *id, " ", outcome->result, ": ", outcome->result_detail));
}

}  // namespace

const Command kSim = {"sim", "run a policy on a trace in the simulator", SimFlags, RunSimCommand};

}  // namespace schedtwin::cli
