#include "experiments/replay.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "experiments/experiment.h"
#include "experiments/store/log_reader.h"
#include "experiments/text.h"
#include "experiments/world_setup.h"
#include "policies/runtime/digest.h"

namespace schedtwin {
namespace {

constexpr char kRunSql[] =
    "SELECT world, experiment, profile_hash, trace, trace_hash, version, outcome_digest, "
    "decision_digest, oracle, record, "
    "(SELECT coalesce(max(sequence) + 1, 0) FROM log WHERE run_id = r.id), "
    "(SELECT hash FROM published_policy_libraries WHERE run_id = r.id) "
    "FROM published_runs r WHERE id = ?1";

std::string RunText(const RecordedRun& run) { return Cat("run ", run.id); }

// The device facts and options of the world in which the run was made.
ReplaySetup SetupOf(const RunSpec& spec, const WorldSetup& world) {
  ReplaySetup setup;
  setup.device = spec.device;
  setup.devices = spec.devices;
  if (spec.profile != nullptr) setup.model = &spec.profile->model;
  setup.world = world.options();
  setup.measured = spec.world != WorldKind::kSim;
  return setup;
}

}  // namespace

absl::StatusOr<RecordedRun> ReadRecordedRun(Store* store, std::int64_t id) {
  absl::StatusOr<Statement> find = store->database().Prepare(kRunSql);
  if (!find.ok()) return find.status();
  find->Bind(1, id);
  const absl::StatusOr<bool> row = find->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(Cat("run ", id, " is no longer there"));
  RecordedRun run;
  run.id = id;
  std::string* const texts[] = {&run.world,          &run.experiment,     &run.profile_hash,
                                &run.trace,          &run.trace_hash,     &run.version,
                                &run.outcome_digest, &run.decision_digest};
  int column = 0;
  for (std::string* text : texts) *text = find->text(column++);
  run.oracle = find->integer(8) != 0;
  run.lines = static_cast<std::uint64_t>(find->integer(10));
  if (!find->is_null(11)) run.library_hash = find->text(11);
  const std::string_view record = find->text(9);
  if (record != "full") {
    return absl::FailedPreconditionError(
        Cat(RunText(run), " has no log to replay (it was recorded with --record ", record,
            "); make it again with --record full"));
  }
  return run;
}

absl::StatusOr<RunSpec> SpecOf(const RecordedRun& run, const std::string& results) {
  const auto at = [&](const absl::Status& status) {
    return absl::Status(status.code(), Cat("cannot make the conditions of ", RunText(run),
                                           " again: ", std::string(status.message())));
  };
  const absl::StatusOr<Experiment> experiment =
      Experiment::FromText(run.experiment, Cat("experiment of ", RunText(run)));
  if (!experiment.ok()) return at(experiment.status());
  const std::optional<WorldKind> world = FindWorld(run.world);
  if (!world.has_value()) {
    return at(absl::InvalidArgumentError(
        Cat("this program knows no world '", run.world, "'; a newer schedtwin may")));
  }
  absl::StatusOr<RunSpec> spec = Resolver({}, results).Resolve(*experiment, *world);
  if (!spec.ok()) {
    const bool gone = absl::IsNotFound(spec.status());
    return at(gone ? absl::NotFoundError(Cat(std::string(spec.status().message()),
                                             "; files are looked for from the folder in which "
                                             "this program is started, as they were then"))
                   : spec.status());
  }
  if (spec->library.has_value() && spec->library->hash != run.library_hash) {
    return at(absl::FailedPreconditionError(
        Cat("policy library ", spec->library->file, " has changed since (content hash ",
            spec->library->hash, ", was ", run.library_hash,
            "); bring the old one back, or run `schedtwin sim` with the new one")));
  }
  const std::string trace_hash = DigestText(spec->trace->provenance.content_hash);
  if (trace_hash != run.trace_hash) {
    return at(absl::FailedPreconditionError(
        Cat("trace ", run.trace, " has changed since (content hash ", trace_hash, ", was ",
            run.trace_hash, "); bring the old one back, or run `schedtwin sim` on the new one")));
  }
  if (spec->profile == nullptr) return spec;
  const Profile& profile = spec->profile->profile;
  const std::string profile_hash = DigestText(profile.hash);
  if (profile_hash != run.profile_hash) {
    return at(absl::FailedPreconditionError(
        Cat("profile ", profile.name, " has changed since (hash ", profile_hash, ", was ",
            run.profile_hash,
            "); bring the old one back, or run `schedtwin sim` with the new "
            "one")));
  }
  return spec;
}

absl::StatusOr<ReplayResult> ReplayRun(const RecordedRun& run, const RunSpec& spec, Store* store,
                                       const ReplayControl& control) {
  const absl::StatusOr<WorldSetup> world = WorldSetup::Of(spec);
  if (!world.ok()) return world.status();
  ReplaySetup setup = SetupOf(spec, *world);
  setup.world.stop = control.stop;
  setup.lines_seen = control.lines_seen;
  const absl::StatusOr<std::unique_ptr<TraceSource>> trace =
      TraceSource::Create(spec.trace, spec.view);
  if (!trace.ok()) return trace.status();
  absl::StatusOr<LogReader> log = LogReader::Create(store->database(), run.id);
  if (!log.ok()) return log.status();
  RequestSource* const source = trace->get();
  const std::unique_ptr<Policy> policy = spec.policy->create(spec.parameters);
  ReplayResult result;
  result.report = Replay(setup, policy.get(), {&source, 1}, &*log);
  if (!log->status().ok()) return log->status();
  const RunSummary& summary = result.report.summary;
  result.digests_equal = DigestText(summary.outcome_digest) == run.outcome_digest &&
                         DigestText(summary.decision_digest) == run.decision_digest;
  return result;
}

}  // namespace schedtwin
