// RunSpec: one run, ready to go: every name looked up, every number parsed, every combination
// checked. Made by Resolver from an Experiment; consumed by runner.h. Trace and profile are shared
// and constant, so the thousands of specs of a sweep cost little and can be run on any threads at
// once.
#ifndef SCHEDTWIN_EXPERIMENTS_RUN_SPEC_H_
#define SCHEDTWIN_EXPERIMENTS_RUN_SPEC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/experiment.h"
#include "experiments/policy_library.h"
#include "experiments/row_recorder.h"
#include "experiments/run_options.h"
#include "experiments/slo.h"
#include "experiments/store/store.h"
#include "policies/api/device.h"
#include "policies/api/policy.h"
#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"
#include "traces/open.h"
#include "traces/source.h"
#include "traces/trace.h"

namespace schedtwin {

/// A profile with the step-time model compiled from it.
struct LoadedProfile {
  Profile profile;
  StepTimeModel model;
};

/// Where a run takes place.
enum class WorldKind : std::uint8_t {
  kSim,  ///< simulated, from a profile
  kCpu,  ///< for real, on this machine's processor
};

struct RunSpec {
  WorldKind world = WorldKind::kSim;
  std::shared_ptr<const Trace> trace;  ///< null: let go of; TraceOf makes it again
  TraceOptions trace_options;
  TraceSourceOptions view;                       ///< what of the trace is replayed, and how fast
  std::shared_ptr<const LoadedProfile> profile;  ///< null: a real run without predictions
  std::string model;
  DeviceInfo device;  ///< each of the devices
  std::uint32_t devices = 1;
  const PolicyInfo* policy = nullptr;
  std::optional<LibraryFacts> library;  ///< where the policy came from one
  Parameters parameters;
  std::vector<ParameterValue> parameter_values;  ///< the same as text, defaults included
  RunOptions options;
  Slo slo;
  std::int64_t seed = 1;
  RecordLevel record = RecordLevel::kSummary;
  std::string experiment;  ///< the settings as an experiment file
};

/// What a field is when the experiment does not say.
struct ExperimentDefaults {
  std::string_view trace = "synth:azure_conv";
  std::string_view policy = "vllm_v1";
  std::string_view decoder_profile = "llama3-8b-a100";
  std::string_view one_shot_profile = "resnet50-t4";  ///< for policies that drive nothing else
  std::string_view record = "requests";
  std::string_view real_record = "full";
  std::string_view real_decoder_model = "llama-15m";
  std::string_view real_one_shot_model = "encoder-mini";
};

/// Looks names up, and keeps the traces, profiles and policy libraries it has loaded. One thread;
/// the specs it gives out may be used on others. Every error is one line that says where the text
/// was written and how to mend it.
class Resolver {
 public:
  /// `results` is the file in which the runs are that an experiment names.
  explicit Resolver(const ExperimentDefaults& defaults = {}, std::string results = "")
      : defaults_(defaults), results_(std::move(results)) {}

  /// Whatever world the experiment names, it is resolved for `world`. REQUIRES: no field holds a
  /// list; that is what TakeAxes is for.
  absl::StatusOr<RunSpec> Resolve(const Experiment& experiment, WorldKind world = WorldKind::kSim);

  /// The trace alone, through its view: for commands that look at traffic without running it.
  absl::StatusOr<std::unique_ptr<TraceSource>> OpenSource(const Experiment& experiment);

 private:
  absl::Status ResolvePolicy(const Experiment& experiment, RunSpec* spec);
  absl::Status ResolveLibrary(const std::string& file, RunSpec* spec);
  absl::Status ResolveProfile(const Experiment& experiment, RunSpec* spec);
  absl::Status ResolveModel(const Experiment& experiment, RunSpec* spec);
  absl::Status ResolveTrace(const Experiment& experiment, RunSpec* spec);
  absl::Status ResolveOptions(Experiment* experiment, RunSpec* spec);
  absl::Status ResolveDecisionCost(Experiment* experiment, RunOptions* options);
  absl::Status CheckTogether(const Experiment& experiment, const RunSpec& spec);

  ExperimentDefaults defaults_;
  std::string results_;
  /// By source and format. Of one that draws only the last seed's is kept.
  std::map<std::string, std::shared_ptr<const Trace>> traces_;
  std::map<std::string, std::int64_t> seeds_;
  std::map<std::string, std::shared_ptr<const LoadedProfile>> profiles_;
  std::map<std::string, PolicyLibrary> libraries_;   ///< by file as it was named
  std::map<std::string, DecisionsOfRun> decisions_;  ///< by run as it was named
};

/// The spec's trace; made again, the same, where the spec has let go of it. Any thread.
absl::StatusOr<std::shared_ptr<const Trace>> TraceOf(const RunSpec& spec);

/// "sim", "cpu".
std::string_view WorldName(WorldKind world);
/// The world of that name; nullopt: there is none.
std::optional<WorldKind> FindWorld(std::string_view name);

/// "summary", "requests", "steps", "full".
std::string_view RecordLevelName(RecordLevel level);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_RUN_SPEC_H_
