// schedtwin exec: one run for real.
#include <algorithm>
#include <span>
#include <string>

#include "exec/execute.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/one_run.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/real_runner.h"
#include "experiments/run_spec.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

Flags ExecFlags() {
  Flags flags(
      "exec [EXPERIMENT] [FLAG...]",
      "Runs one policy on one trace for real: requests arrive by the wall clock, a model with "
      "random\n"
      "weights and real shapes computes every step on this machine, outputs are as long as the "
      "trace\n"
      "says. Takes as long as the traffic lasts. With --profile the results also hold what the\n"
      "simulator would have predicted for each step. Everything is recorded, so that `compare` can "
      "set\n"
      "the run beside a simulated one, and `replay` can repeat its decisions.",
      {"schedtwin exec --policy vllm_v1 --length-scale 0.1 --duration 30s",
       "schedtwin exec --model llama-110m --policy static_batch --trace "
       "synth:poisson:rate=1,count=20",
       "schedtwin exec --profile llama-15m.textproto --duration 30s --length-scale 0.1",
       "schedtwin exec --policy dynamic_batch --model encoder-mini --trace "
       "synth:poisson:rate=20,count=200"});
  flags.Arguments(0, 1);
  AddWorldFlags(&flags);
  AddRunFlags(&flags, ExperimentDefaults().real_record, WorldKind::kCpu);
  return flags;
}

// The text of a field, which must be one of `known`.
absl::StatusOr<std::string> OneOf(const Experiment& experiment, std::string_view path,
                                  std::string_view fallback,
                                  std::span<const std::string_view> known) {
  const std::string text(experiment.TextOr(path, fallback));
  if (std::find(known.begin(), known.end(), text) != known.end()) return text;
  return absl::InvalidArgumentError(Cat(experiment.Find(path)->where, ": ", path, " cannot be '",
                                        text, "'", DidYouMean(text, known)));
}

absl::Status RunExec(const Flags& flags) {
  absl::StatusOr<Experiment> experiment = ReadExperiment(flags);
  if (!experiment.ok()) return experiment.status();
  constexpr std::string_view kRealWorlds[] = {"cpu"};
  constexpr std::string_view kWaits[] = {"sleep", "spin"};
  const absl::StatusOr<std::string> world = OneOf(*experiment, "world", "cpu", kRealWorlds);
  if (!world.ok()) return world.status();
  Resolver resolver({}, flags.value_or("db", kDefaultDb));
  absl::StatusOr<RunSpec> spec = resolver.Resolve(*experiment, *FindWorld(*world));
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<std::string> wait =
      OneOf(*experiment, "wait", WaitName(DefaultWait(spec->devices)), kWaits);
  if (!wait.ok()) return wait.status();
  const Wait how = *wait == "spin" ? Wait::kSpin : Wait::kSleep;
  return RunOne(flags, *spec,
                [how](const RunSpec& run, const RunControl& control, RowRecorder* recorder) {
                  return RunReal(run, how, control, recorder);
                });
}

}  // namespace

const Command kExec = {"exec", "run a policy on a trace for real, on this machine", ExecFlags,
                       RunExec};

}  // namespace schedtwin::cli
