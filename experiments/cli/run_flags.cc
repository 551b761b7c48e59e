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
  const char* value_name;  ///< null: a switch
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
    {"queue-depth", "queue_depth", "N",
     "plans that a device may have at once, the running one included (default 1)"},
    {"devices-at-start", "devices_at_start", "N",
     "devices that are there from the start; the policy adds the others (default: all)"},
    {"kv-blocks", "kv_blocks", "N", "KV blocks of each device (default: the model's own)"},
    {"host-blocks", "host_blocks", "N",
     "KV blocks of each device's host tier, to swap to (default: the model's own)"},
    {"prefix-cache", "prefix_cache", nullptr,
     "KV blocks are found again by their text, where the trace names it"},
    {"isolate-tenants", "isolate_tenants", nullptr,
     "with --prefix-cache: each tenant finds its own text only"},
    {"deadline", "trace.deadline", "D", "each request is cancelled D after its arrival"},
    {"patience", "trace.patience", "D", "each client leaves D after its request's arrival"},
    {"fault", "fault", "DEVICE@AT[-UNTIL][,loses]",
     "a device fails at AT and is back at UNTIL, with its requests waiting or, with ',loses', "
     "lost; several are separated by ';'"},
    {"report-interval", "report_interval", "D", "devices report so often (default: never)"},
    {"report-delay", "report_delay", "D", "and are heard so much later (default: at once)"},
    {"length-predictor", "length_predictor", "NAME[:SETTING=X,...]",
     "what policies are told of output lengths: noisy:sigma=0.5, ranked:tau=0.6, "
     "bucketed:buckets=10,accuracy=0.8 or oracle (default: nothing)"},
    {"oracle", "oracle", nullptr,
     "allow a length predictor that tells the truth; the run is marked"},
};

constexpr FieldFlag kSimFields[] = {
    {"model", "model", "NAME", "the model; default: the profile's own"},
    {"profile", "profile", "NAME|FILE",
     "the device model (default llama3-8b-a100, or resnet50-t4 for one-shot policies)"},
    {"decision-cost", "decision_cost", "zero|D|measured:RUN",
     "what each decision takes: nothing (the default), D, or as long as those of a real run in "
     "the results file, drawn at random"},
    {"tie-seed", "tie_seed", "N",
     "not 0: shuffles events at equal times, to expose policies that depend on their order"},
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
  if (field.value_name == nullptr) {
    if (!flags.given(field.name)) return absl::OkStatus();
    return experiment->Set(field.path, "true", Cat("--", field.name));
  }
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

void Declare(std::span<const FieldFlag> fields, Flags* flags) {
  for (const FieldFlag& field : fields) {
    if (field.value_name == nullptr) {
      flags->Switch(field.name, field.help);
    } else {
      flags->Value(field.name, field.value_name, field.help);
    }
  }
}

}  // namespace

void AddTraceFlags(Flags* flags) { Declare(kTraceFields, flags); }

void AddDbFlag(Flags* flags) {
  flags->Value("db", "FILE", Cat("the results file (default ", kDefaultDb, ")"));
}

void AddJsonFlag(Flags* flags) {
  flags->Switch("json", "print one JSON object on standard output and nothing else");
}

void AddWorldFlags(Flags* flags) { Declare(kWorldFields, flags); }

void AddRunFlags(Flags* flags, std::string_view default_record, WorldKind world) {
  const bool real = world != WorldKind::kSim;
  flags->Value("trace", "FILE|synth:NAME",
               "the traffic: a file, or made here, such as synth:azure_conv or "
               "synth:poisson:rate=20,count=1000 (default synth:azure_conv)");
  AddTraceFlags(flags);
  Declare(real ? std::span<const FieldFlag>(kRealFields) : std::span<const FieldFlag>(kSimFields),
          flags);
  Declare(kRunFields, flags);
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

absl::StatusOr<Experiment> BaselineOf(const Flags& flags, const Experiment& experiment,
                                      const RunSpec& spec) {
  constexpr std::string_view kFlag = "--baseline";
  const std::string text = flags.value_or("baseline", "");
  const std::string_view all = Trim(text);
  const std::size_t space = std::min(all.find(' '), all.size());
  Experiment out;
  for (const Setting& setting : experiment.settings()) {
    if (setting.path.starts_with("policy.")) continue;
    const absl::Status status = out.Set(setting.path, setting.text, setting.where);
    if (!status.ok()) return status;
  }
  absl::Status status = out.Set("policy.name", all.substr(0, space), kFlag);
  // Which profile is the default hangs on the policy.
  if (status.ok() && out.Find("profile") == nullptr) {
    status = out.Set("profile", spec.profile->profile.name, kFlag);
  }
  if (!status.ok()) return status;
  const std::string_view parameters = Trim(all.substr(space));
  if (parameters.empty()) return out;
  for (const std::string_view part : Split(parameters, ',')) {
    const std::string_view parameter = Trim(part);
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(
          Cat(kFlag, ": '", parameter,
              "' sets nothing; write it as --baseline 'POLICY PARAM=VALUE,...'"));
    }
    const std::string path = Cat("policy.", parameter.substr(0, equals));
    if (out.Find(path) != nullptr) {
      return absl::InvalidArgumentError(
          Cat(kFlag, ": '", parameter.substr(0, equals), "' is given twice; once is enough"));
    }
    status = out.Set(path, parameter.substr(equals + 1), kFlag);
    if (!status.ok()) return status;
  }
  return out;
}

}  // namespace schedtwin::cli
