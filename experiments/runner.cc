#include "experiments/runner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "experiments/host.h"
#include "experiments/log_text.h"
#include "experiments/real_runner.h"
#include "experiments/spec_source.h"
#include "experiments/text.h"
#include "experiments/world_setup.h"
#include "policies/runtime/digest.h"
#include "sim/simulate.h"

namespace schedtwin {

std::string_view RunResultName(RunResult result) {
  switch (result) {
    case RunResult::kFinished:
      return "finished";
    case RunResult::kStalled:
      return "stalled";
    case RunResult::kLivelocked:
      return "livelocked";
    case RunResult::kFailed:
      return "failed";
    case RunResult::kInterrupted:
      break;
  }
  return "interrupted";
}

std::uint64_t ExpectedRequests(const RunSpec& spec) {
  return std::min<std::uint64_t>(spec.trace->rows.size(), spec.view.limit);
}

absl::StatusOr<RunResultData> RunSim(const RunSpec& spec, const RunControl& control,
                                     RowRecorder* recorder) {
  absl::StatusOr<SpecSource> opened = SpecSource::Open(spec, control.requests_seen);
  if (!opened.ok()) return opened.status();
  RequestSource* const source = opened->get();
  const absl::StatusOr<WorldSetup> world = WorldSetup::Of(spec);
  if (!world.ok()) return world.status();
  const std::unique_ptr<Policy> policy = spec.policy->create(spec.parameters);
  SimSetup setup;
  setup.model = &spec.profile->model;
  setup.device = spec.device;
  setup.devices = spec.devices;
  setup.world = world->options();
  setup.world.stop = control.stop;

  const double thread_before = ThreadSeconds();
  const auto start = std::chrono::steady_clock::now();
  RunResultData out;
  // With a summary alone there is one call less between the loop and the numbers it leaves.
  Recorder* to = recorder;
  if (spec.record == RecordLevel::kSummary) to = &recorder->summary();
  out.summary = Simulate(setup, policy.get(), {&source, 1}, to, recorder->wants());
  const auto wall = std::chrono::steady_clock::now() - start;
  out.wall_s =
      std::chrono::duration<double>(wall).count() - static_cast<double>(recorder->write_ns()) / 1e9;
  out.thread_s = ThreadSeconds() - thread_before;
  return out;
}

RunInfo InfoOf(const RunSpec& spec) {
  const TraceProvenance& trace = spec.trace->provenance;
  RunInfo info;
  info.world = WorldName(spec.world);
  info.policy = spec.policy->name;
  info.library = spec.library;
  info.parameters = spec.parameter_values;
  info.model = spec.model;
  info.devices = spec.devices;
  if (spec.profile != nullptr) {
    info.profile = spec.profile->profile.name;
    info.profile_hash = DigestText(spec.profile->profile.hash);
  }
  info.trace = trace.source;
  info.trace_format = trace.format;
  info.trace_hash = DigestText(trace.content_hash);
  if (auto source = TraceSource::Create(spec.trace, spec.view); source.ok()) {
    info.trace_transforms = Join((*source)->transforms(), " ");
  }
  info.seed = spec.seed;
  info.record = RecordLevelName(spec.record);
  info.slo = spec.slo;
  info.oracle = spec.options.oracle;
  info.version = Version();
  info.host = HostText();
  info.experiment = spec.experiment;
  return info;
}

RunMetrics MetricsOf(const RunResultData& result, RowRecorder* recorder) {
  const RunSummary& summary = result.summary;
  return recorder->summary().Metrics(summary.requests == 0 ? Time::Infinite()
                                                           : summary.first_arrival);
}

RunOutcome OutcomeOf(const RunResultData& result, const RunMetrics& metrics, double process_s) {
  const RunSummary& summary = result.summary;
  RunOutcome out;
  out.result = RunResultName(summary.result);
  out.result_detail = summary.detail;
  out.outcome_digest = DigestText(summary.outcome_digest);
  out.decision_digest = DigestText(summary.decision_digest);
  out.requests = static_cast<std::int64_t>(summary.requests);
  out.events = static_cast<std::int64_t>(summary.events);
  out.steps = static_cast<std::int64_t>(summary.steps);
  for (std::size_t reason = 1; reason < static_cast<std::size_t>(Refusal::kCount); ++reason) {
    const auto count = static_cast<std::int64_t>(summary.refusals[reason]);
    out.refusals += count;
    if (count > 0) out.refused.emplace_back(RefusalName(static_cast<Refusal>(reason)), count);
  }
  out.wall_s = result.wall_s;
  out.process_s = process_s;
  out.metrics = metrics;
  out.execution = result.execution;
  if (out.execution.has_value()) out.execution->invalid = InvalidReason(metrics);
  return out;
}

}  // namespace schedtwin
