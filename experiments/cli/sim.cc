// schedtwin sim: one run in the simulated world.
#include "experiments/cli/flags.h"
#include "experiments/cli/one_run.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/run_spec.h"
#include "experiments/runner.h"

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
       "    --set policy.max_queue_delay=5ms", "schedtwin sim burst.textproto --seed 7 --json",
       "schedtwin sim --prefix-cache --baseline 'vllm_v1 max_num_seqs=64'",
       "schedtwin sim --devices 4 --fault '1@60s-90s;2@70s,loses' --report-interval 100ms"});
  flags.Arguments(0, 1);
  AddRunFlags(&flags, ExperimentDefaults().record);
  flags.Value("baseline", "'POLICY [PARAM=VALUE,...]'",
              "run this policy under the same conditions, too, and say whether the first has had "
              "any effect");
  return flags;
}

absl::Status RunSimCommand(const Flags& flags) {
  const absl::StatusOr<Experiment> experiment = ReadExperiment(flags);
  if (!experiment.ok()) return experiment.status();
  Resolver resolver({}, flags.value_or("db", kDefaultDb));
  const absl::StatusOr<RunSpec> spec = resolver.Resolve(*experiment);
  if (!spec.ok()) return spec.status();
  if (!flags.given("baseline")) return RunOne(flags, *spec, RunSim);
  const absl::StatusOr<Experiment> other = BaselineOf(flags, *experiment, *spec);
  if (!other.ok()) return other.status();
  const absl::StatusOr<RunSpec> baseline = resolver.Resolve(*other);
  if (!baseline.ok()) return baseline.status();
  return RunWithBaseline(flags, *spec, *baseline, RunSim);
}

}  // namespace

const Command kSim = {"sim", "run a policy on a trace in the simulator", SimFlags, RunSimCommand};

}  // namespace schedtwin::cli
