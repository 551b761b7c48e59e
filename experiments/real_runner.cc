#include "experiments/real_runner.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "exec/cpu_models.h"
#include "exec/execute.h"
#include "experiments/spec_source.h"
#include "experiments/text.h"
#include "experiments/world_setup.h"

namespace schedtwin {

std::string_view WaitName(Wait wait) { return wait == Wait::kSpin ? "spin" : "sleep"; }

std::string InvalidReason(const RunMetrics& metrics) {
  if (!metrics.lateness_ms.has_value()) return "";
  const std::optional<Distribution>& served =
      metrics.ttft_ms.has_value() ? metrics.ttft_ms : metrics.e2e_ms;
  const double allowed_ms = std::max(1.0, served.has_value() ? 0.05 * served->p50 : 0.0);
  const double p99 = metrics.lateness_ms->p99;
  if (p99 <= allowed_ms) return "";
  return Cat("arrivals were delivered ", Fixed(p99, 3), " ms late at p99, above ",
             Fixed(allowed_ms, 3), " ms");
}

absl::StatusOr<RunResultData> RunReal(const RunSpec& spec, Wait wait, const RunControl& control,
                                      RowRecorder* recorder) {
  absl::StatusOr<SpecSource> opened = SpecSource::Open(spec, control.requests_seen);
  if (!opened.ok()) return opened.status();
  RequestSource* const source = opened->get();
  const absl::StatusOr<WorldSetup> world = WorldSetup::Of(spec);
  if (!world.ok()) return world.status();
  const std::unique_ptr<Policy> policy = spec.policy->create(spec.parameters);
  ExecSetup setup;
  setup.make_runner = CpuStepRunner(spec.model, spec.device, static_cast<std::uint64_t>(spec.seed));
  setup.devices = spec.devices;
  setup.model = spec.profile == nullptr ? nullptr : &spec.profile->model;
  setup.wait = wait;
  setup.world = world->options();
  setup.world.stop = control.stop;
  absl::StatusOr<ExecResult> result =
      Execute(setup, policy.get(), {&source, 1}, recorder, recorder->wants());
  if (!result.ok()) return result.status();
  RunResultData out;
  out.summary = std::move(result->summary);
  out.wall_s = result->wall_s;
  out.thread_s = result->policy_thread_s;
  out.execution = ExecutionFacts{.wait = std::string(WaitName(wait)),
                                 .backend = CpuBackend(),
                                 .policy_thread_s = result->policy_thread_s,
                                 .invalid = ""};
  return out;
}

}  // namespace schedtwin
