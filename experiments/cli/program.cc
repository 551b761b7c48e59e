#include "experiments/cli/program.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

constexpr std::array<const Command*, 12> kCommands = {
    &kSim,      &kExec,     &kCalibrate, &kSweep,  &kCompare, &kReplay,
    &kPolicies, &kProfiles, &kTraceInfo, &kDbList, &kDbShow,  &kDbCheck};

std::string ProgramHelp() {
  std::string out =
      "usage: schedtwin COMMAND [ARGUMENT...]\n\n"
      "A twin for inference schedulers: a policy is written once and replayed against production\n"
      "traffic in a calibrated simulator; every run lands in one SQLite file.\n\n"
      "Commands (`schedtwin COMMAND --help` explains each):\n";
  for (const Command* command : kCommands) {
    std::string name(command->name);
    name.resize(14, ' ');
    out += Cat("  ", name, command->summary, "\n");
  }
  out +=
      "\n  --version     print the version\n  --help        this text\n\nExamples:\n"
      "  schedtwin sim --trace synth:azure_conv --policy vllm_v1 --profile llama3-8b-a100\n"
      "  schedtwin sweep --set policy.max_num_seqs=32,64,128 --rate-scale 1,2,4\n"
      "  schedtwin compare latest-1 latest\n\n"
      "Exit status: 0 done, 1 the run failed or a check did not hold, 2 the input is wrong.\n";
  return out;
}

// Commands that share their first word with `word`, for "trace" and "db".
std::vector<std::string_view> SecondWords(std::string_view word) {
  std::vector<std::string_view> seconds;
  for (const Command* command : kCommands) {
    if (command->name.starts_with(Cat(word, " "))) {
      seconds.push_back(command->name.substr(word.size() + 1));
    }
  }
  return seconds;
}

// Finds the command that `words` begin with and takes its one or two words away.
absl::StatusOr<const Command*> FindCommand(std::span<const std::string>* words) {
  const std::string& first = words->front();
  std::vector<std::string_view> names;
  for (const Command* command : kCommands) {
    const std::string_view name = command->name.substr(0, command->name.find(' '));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const std::size_t size = command->name.find(' ') == std::string_view::npos ? 1 : 2;
    if (words->size() < size) continue;
    if (command->name == (size == 1 ? first : Cat(first, " ", (*words)[1]))) {
      *words = words->subspan(size);
      return command;
    }
  }
  const std::vector<std::string_view> seconds = SecondWords(first);
  if (seconds.empty()) {
    return absl::InvalidArgumentError(
        Cat(first.starts_with('-') ? "unknown flag '" : "unknown command '", first, "'",
            DidYouMean(first, names)));
  }
  if (words->size() < 2) {
    return absl::InvalidArgumentError(
        Cat("command '", first, "' needs a second word: ", Join(seconds, ", ")));
  }
  return absl::InvalidArgumentError(
      Cat("unknown command '", first, " ", (*words)[1], "'", DidYouMean((*words)[1], seconds)));
}

// `schedtwin db --help`: the help of every command that begins so.
std::string HelpOfGroup(std::string_view word) {
  std::string out;
  for (const Command* command : kCommands) {
    if (!command->name.starts_with(Cat(word, " "))) continue;
    if (!out.empty()) out += "\n";
    out += command->flags().HelpText();
  }
  return out;
}

absl::Status Run(std::span<const std::string> words) {
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (words.empty()) {
    return absl::InvalidArgumentError("no command is given; `schedtwin --help` lists them");
  }
  if (is_help(words[0]) || words[0] == "help") {
    if (words.size() == 1) {
      Print(ProgramHelp());
      return absl::OkStatus();
    }
    std::vector<std::string> turned(words.begin() + 1, words.end());  // `help sim` is `sim --help`
    turned.emplace_back("--help");
    return Run(turned);
  }
  if (words[0] == "--version") {
    Print(Cat("schedtwin ", Version(), "\n"));
    return absl::OkStatus();
  }
  if (words.size() == 2 && is_help(words[1]) && !SecondWords(words[0]).empty()) {
    Print(HelpOfGroup(words[0]));
    return absl::OkStatus();
  }
  const absl::StatusOr<const Command*> command = FindCommand(&words);
  if (!command.ok()) return command.status();
  Flags flags = (*command)->flags();
  const absl::Status parsed = flags.Parse(words);
  if (!parsed.ok()) {
    return absl::Status(parsed.code(), Cat((*command)->name, ": ", std::string(parsed.message())));
  }
  if (flags.help_wanted()) {
    Print(flags.HelpText());
    return absl::OkStatus();
  }
  return (*command)->run(flags);
}

}  // namespace

std::span<const Command* const> Commands() { return kCommands; }

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return 2;
    case absl::StatusCode::kCancelled:
      return InterruptedExitStatus();
    default:
      return 1;
  }
}

int RunProgram(std::span<const std::string> words) {
  absl::Status status;
  try {
    status = Run(words);
  } catch (const std::exception& error) {  // out of memory, and whatever a library throws
    status = absl::InternalError(error.what());
  }
  if (status.ok() && !FlushOutput())
    status = absl::InternalError("cannot write to standard output");
  if (!status.ok()) PrintError(status.message());
  return ExitStatus(status);
}

}  // namespace schedtwin::cli
