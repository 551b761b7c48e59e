#include "experiments/run_spec.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "exec/cpu_models.h"
#include "experiments/read_field.h"
#include "experiments/text.h"
#include "experiments/world_setup.h"
#include "policies/api/parameters.h"
#include "policies/registry.h"
#include "sim/simulate.h"
#include "traces/open.h"
#include "traces/ratio.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 4> kRecordLevels = {"summary", "requests", "steps", "full"};
constexpr std::array<std::string_view, 2> kWorlds = {"sim", "cpu"};
constexpr std::int64_t kMostDevices = 4096;
constexpr std::int64_t kMostRealDevices = 64;  // each has a thread and weights of its own

absl::Status ReadSeed(const Experiment& experiment, std::int64_t* out) {
  return ReadInteger(experiment, "seed", 0, std::numeric_limits<std::int64_t>::max(), out);
}

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const PolicyInfo* policy : Policies()) names.push_back(policy->name);
  return names;
}

// Every parameter by name and text; `given` are those that the experiment sets.
std::vector<ParameterValue> ValuesAsText(
    const PolicyInfo& policy, std::span<const std::pair<std::string, std::string>> given) {
  std::vector<ParameterValue> values;
  for (const ParameterSpec& parameter : policy.parameters) {
    ParameterValue value = {std::string(parameter.name), std::string(parameter.default_text), true};
    for (const auto& [name, text] : given) {
      if (name == parameter.name) value = {name, text, false};
    }
    values.push_back(std::move(value));
  }
  return values;
}

// The experiment with what it left to defaults written out: defaults may change from version to
// version.
std::string CompleteText(const Experiment& experiment, const RunSpec& spec) {
  Experiment complete = experiment;
  std::vector<std::pair<const char*, std::string>> fields = {
      {"trace.source", spec.trace->provenance.source},
      {"model", spec.model},
      {"devices", Cat(spec.devices)},
      {"policy.name", std::string(spec.policy->name)},
      {"seed", Cat(spec.seed)},
      {"record", std::string(RecordLevelName(spec.record))},
  };
  if (spec.world != WorldKind::kSim) fields.emplace_back("world", WorldName(spec.world));
  if (spec.profile != nullptr) fields.emplace_back("profile", spec.profile->profile.name);
  for (const auto& [path, text] : fields) {
    if (complete.Find(path) == nullptr) complete.Set(path, text, "default").IgnoreError();
  }
  for (const ParameterValue& parameter : spec.parameter_values) {
    const Setting* given = complete.Find(Cat("policy.", parameter.name));
    if (given != nullptr && given->text == parameter.value) continue;
    complete.Set(Cat("policy.", parameter.name), parameter.value, "default").IgnoreError();
  }
  return complete.ToText();
}

// That the trace can be seen so; the error tells which setting is in the way.
absl::Status CheckView(const Experiment& experiment, const RunSpec& spec) {
  // With a rate scale, the trace need not fit without it.
  const Ratio& rate = spec.view.rate_scale;
  const std::pair<const char*, TraceSourceOptions> parts[] = {
      {rate.is_one() ? "trace.source" : "trace.rate_scale", {.rate_scale = rate}},
      {"trace.length_scale", {.rate_scale = rate, .length_scale = spec.view.length_scale}}};
  for (const auto& [path, view] : parts) {
    const auto source = TraceSource::Create(spec.trace, view);
    if (!source.ok()) return At(WhereOf(experiment, path, "trace"), source.status());
  }
  return absl::OkStatus();
}

// What a setting says, or for a text parameter the file that it names: the run keeps what was in
// it.
absl::StatusOr<std::string> ParameterText(const PolicyInfo& policy, std::string_view name,
                                          const Setting& setting) {
  constexpr std::size_t kMostBytes = 1 << 20;
  const auto parameter = std::find_if(policy.parameters.begin(), policy.parameters.end(),
                                      [&](const ParameterSpec& spec) { return spec.name == name; });
  if (parameter->type != ParameterType::kText || !setting.text.starts_with("@")) {
    return setting.text;
  }
  const std::string path = setting.text.substr(1);
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) {
    return Invalid(Cat(setting.where, ": parameter '", std::string(name),
                       "': cannot read the file '", path, "'"));
  }
  if (text.size() > kMostBytes) {
    return Invalid(Cat(setting.where, ": parameter '", std::string(name), "': the file '", path,
                       "' is larger than 1 MiB"));
  }
  return text;
}

absl::Status ReadParameters(const Experiment& experiment, RunSpec* spec) {
  std::vector<std::string_view> names;
  for (const ParameterSpec& parameter : spec->policy->parameters) names.push_back(parameter.name);
  std::vector<std::pair<std::string, std::string>> given;
  std::string error;
  for (const Setting* setting : experiment.parameters()) {
    const std::string name = setting->path.substr(std::string_view("policy.").size());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return Invalid(Cat(setting->where, ": policy ", spec->policy->name, " has no parameter '",
                         name, "'", DidYouMean(name, names)));
    }
    const absl::StatusOr<std::string> text = ParameterText(*spec->policy, name, *setting);
    if (!text.ok()) return text.status();
    const std::pair<std::string, std::string> one = {name, *text};
    if (!Parameters::Parse(spec->policy->parameters, std::span(&one, 1), &spec->parameters,
                           &error)) {
      return Invalid(Cat(setting->where, ": ", error, ListHint(setting->text)));
    }
    given.push_back(one);
  }
  if (!Parameters::Parse(spec->policy->parameters, given, &spec->parameters, &error)) {
    return absl::InternalError(Cat("policy ", spec->policy->name, ": ", error));
  }
  if (spec->policy->check != nullptr) {
    error = spec->policy->check(spec->parameters);
    if (!error.empty()) return Invalid(Cat("policy ", spec->policy->name, ": ", error));
  }
  spec->parameter_values = ValuesAsText(*spec->policy, given);
  return absl::OkStatus();
}

absl::Status CheckQueueDepth(const RunSpec& spec) {
  if (spec.policy->min_queue_depth == nullptr) return absl::OkStatus();
  const std::uint32_t depth = spec.policy->min_queue_depth(spec.parameters);
  if (spec.device.queue_depth >= depth) return absl::OkStatus();
  return Invalid(Cat("policy ", spec.policy->name, ": as it is set it launches plans ahead; use ",
                     "--queue-depth ", depth, " or more (it is ", spec.device.queue_depth, ")"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Trace>> TraceOf(const RunSpec& spec) {
  if (spec.trace != nullptr) return spec.trace;
  return OpenTrace(spec.trace_options);
}

std::string_view WorldName(WorldKind world) { return kWorlds[static_cast<std::size_t>(world)]; }

std::optional<WorldKind> FindWorld(std::string_view name) {
  const auto found = std::find(kWorlds.begin(), kWorlds.end(), name);
  if (found == kWorlds.end()) return std::nullopt;
  return static_cast<WorldKind>(found - kWorlds.begin());
}

std::string_view RecordLevelName(RecordLevel level) {
  return kRecordLevels[static_cast<std::size_t>(level)];
}

absl::Status Resolver::ResolvePolicy(const Experiment& experiment, RunSpec* spec) {
  const std::string name(experiment.TextOr("policy.name", defaults_.policy));
  if (NamesLibrary(name)) {
    const absl::Status status = ResolveLibrary(name, spec);
    if (status.ok()) return ReadParameters(experiment, spec);
    // A path may hold "..", which is no list.
    return absl::Status(
        status.code(),
        Cat(WhereOf(experiment, "policy.name", "policy"), ": ", std::string(status.message()),
            name.find(',') == std::string::npos ? "" : ListHint(name)));
  }
  spec->policy = FindPolicy(name);
  if (spec->policy == nullptr) {
    return Invalid(Cat(WhereOf(experiment, "policy.name", "policy"), ": unknown policy '", name,
                       "'", DidYouMean(name, PolicyNames()), ListHint(name)));
  }
  return ReadParameters(experiment, spec);
}

absl::Status Resolver::ResolveLibrary(const std::string& file, RunSpec* spec) {
  auto found = libraries_.find(file);
  if (found == libraries_.end()) {
    absl::StatusOr<PolicyLibrary> library = LoadPolicyLibrary(file);
    if (!library.ok()) return library.status();
    found = libraries_.emplace(file, *std::move(library)).first;
  }
  spec->policy = found->second.info;
  spec->library = found->second.facts;
  return absl::OkStatus();
}

absl::Status Resolver::ResolveProfile(const Experiment& experiment, RunSpec* spec) {
  if (spec->world != WorldKind::kSim && experiment.Find("profile") == nullptr) {
    return absl::OkStatus();  // nothing to predict with
  }
  const std::string name(experiment.TextOr(
      "profile", spec->policy->decoder ? defaults_.decoder_profile : defaults_.one_shot_profile));
  std::shared_ptr<const LoadedProfile>& cached = profiles_[name];
  if (cached == nullptr) {
    absl::StatusOr<Profile> profile = LoadProfile(name);
    if (!profile.ok()) return At(WhereOf(experiment, "profile", "profile"), profile.status());
    StepTimeModel model(*profile);
    cached =
        std::make_shared<const LoadedProfile>(LoadedProfile{*std::move(profile), std::move(model)});
  }
  spec->profile = cached;
  return absl::OkStatus();
}

absl::Status Resolver::ResolveModel(const Experiment& experiment, RunSpec* spec) {
  const Setting* model = experiment.Find("model");
  if (spec->profile != nullptr) {
    const Profile& profile = spec->profile->profile;
    if (model != nullptr && model->text != profile.model) {
      return Invalid(Cat(model->where, ": profile ", profile.name, " is of model ", profile.model,
                         ", not '", model->text,
                         "'; leave the model out, or choose another --profile"));
    }
    spec->model = profile.model;
    spec->device = DeviceInfoOf(profile);
  } else if (model != nullptr) {
    spec->model = model->text;
  } else {
    spec->model =
        spec->policy->decoder ? defaults_.real_decoder_model : defaults_.real_one_shot_model;
  }
  if (spec->world == WorldKind::kSim) return absl::OkStatus();
  const absl::StatusOr<DeviceInfo> device = CpuDeviceInfo(spec->model);
  if (!device.ok()) {
    return At(WhereOf(experiment, model != nullptr ? "model" : "profile", "model"),
              device.status());
  }
  spec->device = *device;
  return absl::OkStatus();
}

absl::Status Resolver::ResolveTrace(const Experiment& experiment, RunSpec* spec) {
  absl::Status status = ReadRatio(experiment, "trace.rate_scale", &spec->view.rate_scale);
  if (!status.ok()) return status;
  status = ReadRatio(experiment, "trace.length_scale", &spec->view.length_scale);
  if (!status.ok()) return status;
  std::int64_t limit = -1;
  status =
      ReadInteger(experiment, "trace.limit", 1, std::numeric_limits<std::int64_t>::max(), &limit);
  if (!status.ok()) return status;
  if (limit > 0) spec->view.limit = static_cast<std::uint64_t>(limit);
  std::optional<Duration> duration;
  status = ReadDuration(experiment, "trace.duration", &duration);
  if (!status.ok()) return status;
  if (duration.has_value()) spec->view.duration = *duration;
  std::optional<Duration> deadline, patience;
  status = ReadBoundedDuration(experiment, "trace.deadline", &deadline);
  if (status.ok()) status = ReadBoundedDuration(experiment, "trace.patience", &patience);
  if (!status.ok()) return status;
  spec->view.deadline = deadline.value_or(Duration::Infinite());
  spec->view.patience = patience.value_or(Duration::Infinite());

  const std::string source(experiment.TextOr("trace.source", defaults_.trace));
  const std::string format(experiment.TextOr("trace.format", ""));
  spec->trace_options = {
      .spec = source, .format = format, .seed = static_cast<std::uint64_t>(spec->seed)};
  const std::string key = Cat(source, "\n", format);
  std::shared_ptr<const Trace>& trace = traces_[key];
  // A trace that draws nothing is the same under every seed.
  if (trace == nullptr || (trace->provenance.draws > 0 && seeds_[key] != spec->seed)) {
    absl::StatusOr<std::shared_ptr<const Trace>> opened = OpenTrace(spec->trace_options);
    if (!opened.ok()) return At(WhereOf(experiment, "trace.source", "trace"), opened.status());
    trace = *std::move(opened);
    seeds_[key] = spec->seed;
  }
  spec->trace = trace;
  return absl::OkStatus();
}

absl::Status Resolver::ResolveDecisionCost(Experiment* experiment, RunOptions* options) {
  constexpr std::string_view kMeasured = "measured:";
  const Setting* const setting = experiment->Find("decision_cost");
  if (setting == nullptr || setting->text == "zero") return absl::OkStatus();
  if (!setting->text.starts_with(kMeasured)) {
    const bool parsed = ParseDuration(setting->text, &options->decision_cost);
    if (parsed && options->decision_cost <= kLongestDuration) return absl::OkStatus();
    return Invalid(Cat(setting->where, ": decision_cost cannot be '", setting->text,
                       "'; it is zero, a duration such as 50us, at most 365 days, or measured:RUN",
                       ListHint(setting->text)));
  }
  const std::string run = setting->text.substr(kMeasured.size());
  auto found = decisions_.find(run);
  if (found == decisions_.end()) {
    absl::StatusOr<DecisionsOfRun> read = ReadMeasuredDecisions(results_, run);
    if (!read.ok()) return At(setting->where, read.status());
    found = decisions_.emplace(run, *std::move(read)).first;
  }
  options->measured_decisions = found->second.decisions;
  // "latest" is another run tomorrow.
  const std::string where = setting->where;
  return experiment->Set("decision_cost", Cat(kMeasured, found->second.run), where);
}

absl::Status Resolver::ResolveOptions(Experiment* experiment, RunSpec* spec) {
  const bool real = spec->world != WorldKind::kSim;
  absl::Status status =
      ReadRunOptions(*experiment, real, spec->devices, &spec->device, &spec->options);
  if (status.ok()) status = ResolveDecisionCost(experiment, &spec->options);
  const Setting* const lengths = experiment->Find("length_predictor");
  if (!status.ok() || lengths == nullptr) return status;
  if (spec->device.kind == ModelKind::kOneShot) {
    return Invalid(Cat(lengths->where, ": ", spec->model,
                       " answers in one launch, so it has no output lengths to predict"));
  }
  const absl::StatusOr<MadeLengthPredictor> made = LengthPredictorOf(*spec);
  if (!made.ok()) return At(lengths->where, made.status());
  spec->options.oracle = made->tells_truth;
  if (!made->tells_truth || spec->options.oracle_granted) return absl::OkStatus();
  return Invalid(Cat(lengths->where, ": length predictor '", lengths->text,
                     "' tells policies the true output lengths, which none can know; grant that "
                     "with --oracle (the run is marked), or use one that errs, such as "
                     "noisy:sigma=0.5"));
}

absl::Status Resolver::CheckTogether(const Experiment& experiment, const RunSpec& spec) {
  const bool one_shot = spec.device.kind == ModelKind::kOneShot;
  if (one_shot ? !spec.policy->one_shot : !spec.policy->decoder) {
    const bool by_profile = spec.profile != nullptr;
    const std::string_view field = by_profile ? "profile" : "model";
    return Invalid(
        Cat(WhereOf(experiment, field, field), ": ",
            by_profile ? Cat("profile ", spec.profile->profile.name, " is of ") : "this is ", "a ",
            ModelKindName(spec.device.kind), " model (", spec.model, "), which policy ",
            spec.policy->name, " does not drive; choose another --", field,
            " or --policy (`schedtwin policies` tells who drives what)"));
  }
  if (one_shot) {
    for (const char* path : {"slo.ttft", "slo.tpot"}) {
      if (const Setting* slo = experiment.Find(path); slo != nullptr) {
        return Invalid(Cat(slo->where, ": ", spec.model, " answers in one launch, so it has no ",
                           std::string_view(path).substr(4), " to set a target for; use e2e"));
      }
    }
    return absl::OkStatus();
  }
  const auto bare =
      std::find_if(spec.trace->rows.begin(), spec.trace->rows.end(),
                   [](const TraceRow& r) { return r.prompt_tokens == 0 || r.output_tokens == 0; });
  if (bare == spec.trace->rows.end()) return absl::OkStatus();
  return Invalid(Cat(WhereOf(experiment, "trace.source", "trace"), ": request ",
                     bare - spec.trace->rows.begin(), " of ", spec.trace->provenance.source,
                     " has no prompt or output tokens, which ", spec.model,
                     " needs; use a trace with lengths, or the profile of a one-shot model"));
}

absl::StatusOr<RunSpec> Resolver::Resolve(const Experiment& experiment, WorldKind world) {
  if (!experiment.axes().empty()) {
    return Invalid(Cat(experiment.axes().front().where,
                       ": an experiment with axes is many runs; use `schedtwin sweep`"));
  }
  RunSpec spec;
  spec.world = world;
  std::int64_t devices = 1;
  const std::int64_t most = world == WorldKind::kSim ? kMostDevices : kMostRealDevices;
  absl::Status status = ReadSeed(experiment, &spec.seed);
  if (status.ok()) status = ReadInteger(experiment, "devices", 1, most, &devices);
  if (status.ok()) status = ReadBoundedDuration(experiment, "slo.ttft", &spec.slo.ttft);
  if (status.ok()) status = ReadBoundedDuration(experiment, "slo.tpot", &spec.slo.tpot);
  if (status.ok()) status = ReadBoundedDuration(experiment, "slo.e2e", &spec.slo.e2e);
  if (!status.ok()) return status;
  spec.devices = static_cast<std::uint32_t>(devices);

  const std::string_view record = experiment.TextOr(
      "record", world == WorldKind::kSim ? defaults_.record : defaults_.real_record);
  const auto level = std::find(kRecordLevels.begin(), kRecordLevels.end(), record);
  if (level == kRecordLevels.end()) {
    return Invalid(Cat(WhereOf(experiment, "record", "record"), ": record cannot be '", record, "'",
                       DidYouMean(record, kRecordLevels), ListHint(record)));
  }
  spec.record = static_cast<RecordLevel>(level - kRecordLevels.begin());

  status = ResolvePolicy(experiment, &spec);
  if (status.ok()) status = ResolveProfile(experiment, &spec);
  if (status.ok()) status = ResolveModel(experiment, &spec);
  if (status.ok()) status = ResolveTrace(experiment, &spec);
  if (status.ok()) status = CheckTogether(experiment, spec);
  if (!status.ok()) return status;
  spec.view.as_units = spec.device.kind == ModelKind::kOneShot;
  status = CheckView(experiment, spec);
  Experiment settled = experiment;
  if (status.ok()) status = ResolveOptions(&settled, &spec);
  if (status.ok()) status = CheckQueueDepth(spec);
  if (!status.ok()) return status;
  spec.experiment = CompleteText(settled, spec);
  return spec;
}

absl::StatusOr<std::unique_ptr<TraceSource>> Resolver::OpenSource(const Experiment& experiment) {
  RunSpec spec;
  absl::Status status = ReadSeed(experiment, &spec.seed);
  if (status.ok()) status = ResolveTrace(experiment, &spec);
  if (status.ok()) status = CheckView(experiment, spec);
  if (!status.ok()) return status;
  return TraceSource::Create(spec.trace, spec.view);
}

}  // namespace schedtwin
