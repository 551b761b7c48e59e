#include "experiments/cli/run_flags.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

struct FieldFlag {
  const char* name;
  const char* path;
  const char* value_name;
  const char* help;
};

constexpr FieldFlag kTraceFields[] = {
    {"format", "trace.format", "NAME",
     "the trace file's format; detected from its first bytes if not given"},
    {"rate-scale", "trace.rate_scale", "X", "requests come X times as fast"},
    {"length-scale", "trace.length_scale", "X", "prompts and outputs are X times as long"},
    {"limit", "trace.limit", "N", "only the first N requests"},
    {"duration", "trace.duration", "D",
     "only arrivals within D of the first, after scaling, such as 10min"},
    {"seed", "seed", "N", "for everything that is drawn at random (default 1)"},
};

constexpr FieldFlag kRunFields[] = {
    {"devices", "devices", "N", "replicas of the model (default 1)"},
    {"policy", "policy.name", "NAME|./LIB.so",
     "the scheduling policy, or a library with one (default vllm_v1)"},
};

constexpr FieldFlag kSimFields[] = {
    {"model", "model", "NAME", "the model; default: the profile's own"},
    {"profile", "profile", "NAME|FILE",
     "the device model (default llama3-8b-a100, or resnet50-t4 for one-shot policies)"},
};

constexpr FieldFlag kRealFields[] = {
    {"model", "model", "NAME",
     "the model (default llama-15m, or encoder-mini for one-shot policies)"},
    {"profile", "profile", "NAME|FILE",
     "a profile of the model, to predict step times with (default: none, no predictions)"},
};

constexpr FieldFlag kWorldFields[] = {
    {"world", "world", "NAME", "where it runs: cpu (the default)"},
    {"wait", "wait", "sleep|spin",
     "how the loop waits for a deadline; spin is more exact and takes a core (default: spin where "
     "a core is left over)"},
};

absl::Status Apply(const Flags& flags, const FieldFlag& field, Experiment* experiment) {
  const std::optional<std::string> text = flags.value(field.name);
  if (!text.has_value()) return absl::OkStatus();
  return experiment->Set(field.path, *text, Cat("--", field.name));
}

// "ttft=200ms,tpot=50ms,e2e=2s"
absl::Status ApplySlo(const Flags& flags, Experiment* experiment) {
  const std::optional<std::string> text = flags.value("slo");
  if (!text.has_value()) return absl::OkStatus();
  constexpr std::array<std::string_view, 3> kTargets = {"ttft", "tpot", "e2e"};
  std::vector<std::string_view> given;
  for (const std::string_view part : Split(*text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return absl::InvalidArgumentError(
          Cat("--slo: '", part, "' is no target; write it as ttft=200ms,tpot=50ms,e2e=2s"));
    }
    const std::string_view target = Trim(part.substr(0, equals));
    if (std::find(kTargets.begin(), kTargets.end(), target) == kTargets.end()) {
      return absl::InvalidArgumentError(
          Cat("--slo: there is no target '", target, "'", DidYouMean(target, kTargets)));
    }
    if (std::find(given.begin(), given.end(), target) != given.end()) {
      return absl::InvalidArgumentError(
          Cat("--slo: target '", target, "' is given twice; once is enough"));
    }
    given.push_back(target);
    const absl::Status status =
        experiment->Set(Cat("slo.", target), Trim(part.substr(equals + 1)), "--slo");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// --set PATH=VALUE, for parameters and for every other field.
absl::Status ApplySets(const Flags& flags, Experiment* experiment) {
  std::ptrdiff_t fields = 0;
  for (const std::string& set : flags.list("set")) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          Cat("--set: '", set, "' sets nothing; write it as --set policy.PARAMETER=VALUE"));
    }
    const absl::Status status =
        experiment->Set(Trim(set.substr(0, equals)), set.substr(equals + 1), "--set");
    if (!status.ok()) return status;
    // Counted, not compared: a field has a short name, too.
    const auto& settings = experiment->settings();
    if (std::count_if(settings.begin(), settings.end(),
                      [](const Setting& s) { return s.where == "--set"; }) != ++fields) {
      return absl::InvalidArgumentError(
          Cat("--set: '", set.substr(0, equals),
              "' is given twice; once is enough (of a sweep's list: values separated by commas)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddTraceFlags(Flags* flags) {
  for (const FieldFlag& field : kTraceFields)
    flags->Value(field.name, field.value_name, field.help);
}

void AddDbFlag(Flags* flags) {
  flags->Value("db", "FILE", Cat("the results file (default ", kDefaultDb, ")"));
}

void AddJsonFlag(Flags* flags) {
  flags->Switch("json", "print one JSON object on standard output and nothing else");
}

void AddWorldFlags(Flags* flags) {
  for (const FieldFlag& field : kWorldFields)
    flags->Value(field.name, field.value_name, field.help);
}

void AddRunFlags(Flags* flags, std::string_view default_record, WorldKind world) {
  const bool real = world != WorldKind::kSim;
  flags->Value("trace", "FILE|synth:NAME",
               "the traffic: a file, or made here, such as synth:azure_conv or "
               "synth:poisson:rate=20,count=1000 (default synth:azure_conv)");
  AddTraceFlags(flags);
  for (const FieldFlag& field : real ? std::span(kRealFields) : std::span(kSimFields)) {
    flags->Value(field.name, field.value_name, field.help);
  }
  for (const FieldFlag& field : kRunFields) flags->Value(field.name, field.value_name, field.help);
  flags->List("set", "policy.PARAM=VALUE",
              "a parameter of the policy, or any field of an experiment file");
  flags->Value("slo", "ttft=D,tpot=D,e2e=D",
               "latency targets, any of the three, such as ttft=200ms,tpot=50ms; goodput counts "
               "who meets them");
  flags->Value(
      "record", "LEVEL",
      Cat("what to keep: summary, requests, steps or full (default ", default_record, ")"));
  AddDbFlag(flags);
  AddJsonFlag(flags);
}

absl::Status ApplyTraceFlags(const Flags& flags, Experiment* experiment) {
  for (const FieldFlag& field : kTraceFields) {
    const absl::Status status = Apply(flags, field, experiment);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Experiment> ReadExperiment(const Flags& flags) {
  Experiment experiment;
  if (!flags.arguments().empty()) {
    absl::StatusOr<Experiment> file = Experiment::FromFile(flags.arguments()[0]);
    if (!file.ok()) return file.status();
    experiment = *std::move(file);
  }
  constexpr FieldFlag kTrace = {"trace", "trace.source", "", ""};
  constexpr FieldFlag kRecord = {"record", "record", "", ""};
  absl::Status status = Apply(flags, kTrace, &experiment);
  if (status.ok()) status = ApplyTraceFlags(flags, &experiment);
  // Both worlds' flags have the same names; of those a command does not declare, none is given.
  for (const std::span<const FieldFlag> fields :
       {std::span<const FieldFlag>(kSimFields), std::span<const FieldFlag>(kRunFields),
        std::span<const FieldFlag>(kWorldFields)}) {
    for (const FieldFlag& field : fields) {
      if (status.ok()) status = Apply(flags, field, &experiment);
    }
  }
  if (status.ok()) status = Apply(flags, kRecord, &experiment);
  if (status.ok()) status = ApplySlo(flags, &experiment);
  if (status.ok()) status = ApplySets(flags, &experiment);
  if (!status.ok()) return status;
  return experiment;
}

}  // namespace schedtwin::cli
