// The program `schedtwin`: finds the command, runs it, turns its status into one line on standard
// error and an exit status: 0 done, 1 the run failed or a check did not hold, 2 the user's input is
// wrong, 130 or 143 interrupted. Each command is one file, cli/<name>.cc. Called by main.cc; one
// thread.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_PROGRAM_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_PROGRAM_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace schedtwin::cli {

class Flags;

struct Command {
  std::string_view name;     ///< "sim", or "db list" for one with a second word
  std::string_view summary;  ///< one line for `schedtwin --help`
  Flags (*flags)();          ///< what it takes, with its help
  /// Does the work and prints the result on standard output, as one JSON object if --json was
  /// given. An error is what the program then says; codes of user errors are in ExitStatus.
  absl::Status (*run)(const Flags& flags);
};

extern const Command kSim, kExec, kCalibrate, kSweep, kCompare, kReplay, kPolicies, kProfiles,
    kTraceInfo, kDbList, kDbShow, kDbCheck;

/// All commands, in the order in which help lists them.
std::span<const Command* const> Commands();

/// The exit status that an error means.
int ExitStatus(const absl::Status& status);

/// Runs the program. `words` are the arguments without the program's own name.
int RunProgram(std::span<const std::string> words);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_PROGRAM_H_
