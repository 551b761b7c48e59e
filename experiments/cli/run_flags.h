// The flags that say what to run, shared by `sim` and `sweep`, and how they and an experiment file
// become one Experiment: the file first, then the flags over it. One thread.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_RUN_FLAGS_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_RUN_FLAGS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "experiments/cli/flags.h"
#include "experiments/experiment.h"
#include "experiments/run_spec.h"

namespace schedtwin::cli {

inline constexpr std::string_view kDefaultDb = "schedtwin.db";

/// Declares --trace ... --record, --db and --json, as a command of `world` explains them;
/// `default_record` is for the help.
void AddRunFlags(Flags* flags, std::string_view default_record, WorldKind world = WorldKind::kSim);
/// Declares --world and --wait.
void AddWorldFlags(Flags* flags);
/// Declares the flags that choose and transform a trace: --trace is not among them.
void AddTraceFlags(Flags* flags);
void AddDbFlag(Flags* flags);
void AddJsonFlag(Flags* flags);

/// The experiment file, if one is given as the first argument, overridden by the flags.
absl::StatusOr<Experiment> ReadExperiment(const Flags& flags);
/// --baseline: the experiment that became `spec`, with another policy. REQUIRES: it is given.
absl::StatusOr<Experiment> BaselineOf(const Flags& flags, const Experiment& experiment,
                                      const RunSpec& spec);
/// Only the trace's flags.
absl::Status ApplyTraceFlags(const Flags& flags, Experiment* experiment);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_RUN_FLAGS_H_
