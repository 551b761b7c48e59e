#include "experiments/cli/one_run.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "experiments/cli/output.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/run_report.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/row_recorder.h"
#include "experiments/store/store.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

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

absl::StatusOr<RunOutcome> RunAndPublish(const RunSpec& spec, const RunFunction& run_function,
                                         Store* store, OpenRun* run) {
  const Interrupt interrupt;
  const bool real = spec.world != WorldKind::kSim;  // its rows are written when it is over
  std::optional<RowWriter> writer;
  if (spec.record != RecordLevel::kSummary) {
    absl::StatusOr<RowWriter> created = RowWriter::Create(store->database(), run->id());
    if (!created.ok()) return created.status();
    writer = *std::move(created);
  }
  const std::uint64_t expected = ExpectedRequests(spec);
  RowRecorder recorder(spec.record, spec.slo, expected,
                       writer.has_value() && !real ? &*writer : nullptr, real);
  absl::StatusOr<RunResultData> result;
  {
    Progress progress(real ? "exec" : "sim", "requests", expected);
    result = run_function(spec, {.stop = interrupt.flag(), .requests_seen = progress.counter()},
                          &recorder);
  }
  if (!result.ok()) return result.status();
  if (interrupt.raised()) return InterruptedError();
  if (writer.has_value()) {
    const absl::Status status = real ? writer->Write(recorder.TakeRows()) : recorder.Flush();
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

struct StoredRun {
  std::int64_t id = 0;
  RunInfo info;
  RunOutcome outcome;
};

absl::StatusOr<StoredRun> RunAndStore(const RunSpec& spec, const RunFunction& run_function,
                                      Store* store) {
  StoredRun stored;
  stored.info = InfoOf(spec);
  const absl::StatusOr<std::int64_t> id = store->BeginRun(stored.info);
  if (!id.ok()) return id.status();
  stored.id = *id;
  OpenRun run(store, *id);
  absl::StatusOr<RunOutcome> outcome = RunAndPublish(spec, run_function, store, &run);
  if (!outcome.ok()) return outcome.status();
  outcome->process_s = ProcessSeconds();
  stored.outcome = *std::move(outcome);
  return stored;
}

Json JsonOf(const StoredRun& run) { return RunJson(run.id, run.info, run.outcome); }
std::string TextOf(const StoredRun& run) { return RunText(run.id, run.info, run.outcome); }

absl::Status Finished(const StoredRun& run) {
  if (run.outcome.result == "finished") return absl::OkStatus();
  return absl::AbortedError(
      Cat("run ", run.id, " ", run.outcome.result, ": ", run.outcome.result_detail));
}

}  // namespace

absl::Status RunOne(const Flags& flags, const RunSpec& spec, const RunFunction& run_function) {
  const std::string db = flags.value_or("db", kDefaultDb);
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(db);
  if (!store.ok()) return store.status();
  const absl::StatusOr<StoredRun> run = RunAndStore(spec, run_function, store->get());
  if (!run.ok()) return run.status();
  if (flags.given("json")) {
    PrintJson(JsonOf(*run));
  } else {
    Print(TextOf(*run));
    Print(Cat("  stored in ", db, CompareHint(store->get(), db), "\n"));
  }
  return Finished(*run);
}

absl::Status RunWithBaseline(const Flags& flags, const RunSpec& spec, const RunSpec& baseline,
                             const RunFunction& run_function) {
  const std::string db = flags.value_or("db", kDefaultDb);
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForWriting(db);
  if (!store.ok()) return store.status();
  const absl::StatusOr<StoredRun> run = RunAndStore(spec, run_function, store->get());
  if (!run.ok()) return run.status();
  const absl::StatusOr<StoredRun> base = RunAndStore(baseline, run_function, store->get());
  if (!base.ok()) return base.status();
  const bool no_effect = run->outcome.outcome_digest == base->outcome.outcome_digest;
  if (flags.given("json")) {
    Json json = JsonOf(*run);
    json["baseline"] = JsonOf(*base);
    json["no_effect"] = no_effect;
    PrintJson(json);
  } else {
    Print(Cat(TextOf(*run), "baseline ", TextOf(*base)));
    if (no_effect) Print(Cat("  no effect: the outcome is that of ", base->info.policy, "\n"));
    Print(Cat("  stored in ", db, CompareHint(store->get(), db), "\n"));
  }
  const absl::Status finished = Finished(*run);
  return finished.ok() ? Finished(*base) : finished;
}

}  // namespace schedtwin::cli
