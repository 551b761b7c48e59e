// schedtwin policies: what policies there are, and what each can be told.
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/policy_library.h"
#include "experiments/text.h"
#include "policies/registry.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNoMaximum = std::numeric_limits<std::int64_t>::max();

Flags PoliciesFlags() {
  Flags flags("policies [NAME|./LIB.so] [FLAG...]",
              "Lists the policies, or tells all about one: its source, and its parameters with "
              "their units,\n"
              "ranges, defaults and meanings. Set them with --set policy.PARAMETER=VALUE. What has "
              "a '/' is the\n"
              "file of a policy that you built yourself (docs/tutorial-policy.md).",
              {"schedtwin policies", "schedtwin policies vllm_v1",
               "schedtwin policies ./build/libmine.so", "schedtwin policies --json"});
  flags.Arguments(0, 1);
  AddJsonFlag(&flags);
  return flags;
}

std::string_view TypeName(ParameterType type) {
  switch (type) {
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kFlag:
      return "flag";
    case ParameterType::kDuration:
      return "duration";
    case ParameterType::kNumber:
      return "number";
    case ParameterType::kIntegers:
      return "integers";
    case ParameterType::kText:
      return "text";
    case ParameterType::kChoice:
      break;
  }
  return "choice";
}

std::string DrivesText(const PolicyInfo& policy) {
  if (policy.one_shot && policy.decoder) return "one-shot and decoder";
  return policy.one_shot ? "one-shot" : "decoder";
}

// "10ms" rather than "10000000".
std::string DurationText(std::int64_t ns) {
  const std::pair<std::int64_t, const char*> units[] = {
      {1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}};
  for (const auto& [unit, name] : units) {
    if (ns >= unit && ns % unit == 0) return Cat(ns / unit, name);
  }
  return Cat(ns, "ns");
}

bool HasRange(const ParameterSpec& parameter) {
  return parameter.type != ParameterType::kFlag && parameter.type != ParameterType::kChoice &&
         parameter.type != ParameterType::kText;
}

std::string RangeText(const ParameterSpec& parameter) {
  switch (parameter.type) {
    case ParameterType::kInteger:
    case ParameterType::kNumber:
      return parameter.max == kNoMaximum ? Cat(parameter.min, " or more")
                                         : Cat(parameter.min, " to ", parameter.max);
    case ParameterType::kDuration:
      return parameter.max == kNoMaximum
                 ? Cat(DurationText(parameter.min), " or more")
                 : Cat(DurationText(parameter.min), " to ", DurationText(parameter.max));
    case ParameterType::kIntegers:
      return parameter.max == kNoMaximum
                 ? Cat("N:N:..., each ", parameter.min, " or more")
                 : Cat("N:N:..., each ", parameter.min, " to ", parameter.max);
    case ParameterType::kFlag:
      return "true, false";
    case ParameterType::kText:
      return "text or @FILE";
    case ParameterType::kChoice:
      break;
  }
  return Join(parameter.choices, ", ");
}

Json ParameterJson(const ParameterSpec& parameter) {
  Json out = {{"name", parameter.name},
              {"type", TypeName(parameter.type)},
              {"unit", parameter.type == ParameterType::kDuration ? std::string_view("ns")
                                                                  : parameter.unit},
              {"default", parameter.default_text}};
  if (HasRange(parameter)) {
    out["min"] = parameter.min;
    out["max"] = parameter.max == kNoMaximum ? Json(nullptr) : Json(parameter.max);
  }
  if (parameter.type == ParameterType::kChoice) {
    out["choices"] = std::vector<std::string>(parameter.choices.begin(), parameter.choices.end());
  }
  out["meaning"] = parameter.meaning;
  return out;
}

Json PolicyJson(const PolicyInfo& policy) {
  Json parameters = Json::array();
  for (const ParameterSpec& parameter : policy.parameters)
    parameters.push_back(ParameterJson(parameter));
  return {{"name", policy.name},       {"summary", policy.summary},
          {"source", policy.source},   {"one_shot", policy.one_shot},
          {"decoder", policy.decoder}, {"parameters", std::move(parameters)}};
}

std::string PolicyText(const PolicyInfo& policy) {
  using enum Table::Align;
  std::string out = Cat(policy.name, ": ", policy.summary, "\nsource: ", policy.source,
                        "\ndrives: ", DrivesText(policy), " models\n\n");
  if (policy.parameters.empty()) return out + "no parameters\n";
  Table table({{"parameter", kLeft},
               {"default", kRight},
               {"range", kLeft},
               {"unit", kLeft},
               {"meaning", kLeft}});
  for (const ParameterSpec& parameter : policy.parameters) {
    table.Add({std::string(parameter.name), std::string(parameter.default_text),
               RangeText(parameter), std::string(parameter.unit), std::string(parameter.meaning)});
  }
  return out + table.Text();
}

std::string ListText(std::span<const PolicyInfo* const> policies) {
  using enum Table::Align;
  Table table({{"policy", kLeft}, {"drives", kLeft}, {"what it does", kLeft}});
  for (const PolicyInfo* policy : policies) {
    table.Add({std::string(policy->name), DrivesText(*policy), std::string(policy->summary)});
  }
  return table.Text();
}

absl::StatusOr<const PolicyInfo*> FindOne(const std::string& name) {
  if (NamesLibrary(name)) {
    const absl::StatusOr<PolicyLibrary> library = LoadPolicyLibrary(name);
    if (!library.ok()) {
      return absl::Status(library.status().code(),
                          Cat("policies: ", std::string(library.status().message())));
    }
    return library->info;
  }
  if (const PolicyInfo* policy = FindPolicy(name); policy != nullptr) return policy;
  std::vector<std::string_view> names;
  for (const PolicyInfo* known : Policies()) names.push_back(known->name);
  return absl::NotFoundError(Cat("policies: unknown policy '", name, "'", DidYouMean(name, names)));
}

absl::Status RunPolicies(const Flags& flags) {
  std::vector<const PolicyInfo*> chosen(Policies().begin(), Policies().end());
  if (!flags.arguments().empty()) {
    const absl::StatusOr<const PolicyInfo*> policy = FindOne(flags.arguments()[0]);
    if (!policy.ok()) return policy.status();
    chosen = {*policy};
  }
  if (flags.given("json")) {
    Json list = Json::array();
    for (const PolicyInfo* policy : chosen) list.push_back(PolicyJson(*policy));
    PrintJson({{"policies", std::move(list)}});
  } else {
    Print(flags.arguments().empty() ? ListText(chosen) : PolicyText(*chosen.front()));
  }
  return absl::OkStatus();
}

}  // namespace

const Command kPolicies = {"policies", "the policies and their parameters", PoliciesFlags,
                           RunPolicies};

}  // namespace schedtwin::cli
