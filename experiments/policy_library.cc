#include "experiments/policy_library.h"

#include <dlfcn.h>

#include <cctype>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "experiments/library_file.h"
#include "experiments/text.h"
#include "policies/api/plugin.h"
#include "policies/runtime/digest.h"

namespace schedtwin {
namespace {

constexpr char kSymbol[] = "schedtwin_policy_v1";
constexpr std::size_t kStampAt = offsetof(PolicyDescriptor, stamp);
constexpr std::size_t kStampBytes = sizeof(PolicyDescriptor::stamp);

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

// The stamp in the file's descriptor; nullopt: it is none.
std::optional<std::string_view> StampOf(std::string_view descriptor) {
  const std::string_view magic(SCHEDTWIN_POLICY_MAGIC, sizeof(SCHEDTWIN_POLICY_MAGIC));
  if (descriptor.size() < sizeof(PolicyDescriptor) || !descriptor.starts_with(magic)) {
    return std::nullopt;
  }
  const std::string_view stamp = descriptor.substr(kStampAt, kStampBytes);
  const std::size_t end = stamp.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return stamp.substr(0, end);
}

// What the stamp says of one part ("compiler"); empty where it says nothing.
std::string_view PartOf(std::string_view stamp, std::string_view part) {
  for (const std::string_view line : Split(stamp, '\n')) {
    const std::size_t equals = line.find('=');
    if (line.substr(0, equals) == part) return Trim(line.substr(equals + 1));
  }
  return "";
}

std::string_view Shown(std::string_view value) { return value.empty() ? "none" : value; }

// How to mend a library whose stamp differs first in this part.
std::string MendOf(std::string_view part) {
  if (part == "api headers") {
    return "; build it again with find_package(schedtwin) of this very program";
  }
  if (part == "compiler" || part == "target") {
    return Cat("; build it with ", std::string_view(SCHEDTWIN_STAMP_COMPILER),
               " by schedtwin_add_policy()");
  }
  return "; build it by schedtwin_add_policy(), without flags that change this";
}

// Every part that differs, by both sides' words.
absl::Status CompareStamps(std::string_view theirs) {
  constexpr std::string_view kOurs = SCHEDTWIN_STAMP;
  if (theirs == kOurs) return absl::OkStatus();
  std::string differing, mend;
  for (const std::string_view line : Split(kOurs, '\n')) {
    const std::string_view part = line.substr(0, line.find('='));
    const std::string_view theirs_is = PartOf(theirs, part);
    const std::string_view ours_is = PartOf(kOurs, part);
    if (line.empty() || theirs_is == ours_is) continue;
    if (mend.empty()) mend = MendOf(part);
    differing += Cat(differing.empty() ? "" : ", ", part, " (its: ", Shown(theirs_is),
                     ", this program's: ", Shown(ours_is), ")");
  }
  if (differing.empty()) {
    differing = "parts of its stamp that this program does not know";
    mend = MendOf("api headers");
  }
  return Invalid(Cat("was not built as this program was; different: ", differing, mend));
}

// Names are typed on command lines and written in experiment files.
bool GoodName(std::string_view name) {
  if (name.empty() || std::islower(static_cast<unsigned char>(name[0])) == 0) return false;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::islower(letter) == 0 && std::isdigit(letter) == 0 && c != '_') return false;
  }
  return true;
}

absl::Status CheckParameter(const ParameterSpec& parameter) {
  const auto bad = [&](const std::string& why) {
    return Invalid(Cat("declares parameter '", parameter.name, "' wrongly: ", why));
  };
  if (!GoodName(parameter.name) || parameter.name == "name") {
    return bad("its name must be lower case with underscores, and not 'name'");
  }
  if (parameter.meaning.empty()) return bad("it has no meaning");
  switch (parameter.type) {
    case ParameterType::kInteger:
    case ParameterType::kNumber:
    case ParameterType::kIntegers:
    case ParameterType::kDuration:
      if (parameter.min > parameter.max) return bad("its min is above its max");
      break;
    case ParameterType::kChoice:
      if (parameter.choices.empty()) return bad("it has no choices");
      break;
    case ParameterType::kFlag:
    case ParameterType::kText:
      break;
    default:
      return bad("it has no type that this program knows");
  }
  Parameters parsed;
  std::string error;
  if (!Parameters::Parse({&parameter, 1}, {}, &parsed, &error)) return bad("default: " + error);
  return absl::OkStatus();
}

absl::Status CheckInfo(const PolicyInfo* info) {
  if (info == nullptr) return Invalid("has no PolicyInfo");
  if (!GoodName(info->name)) {
    return Invalid(Cat("names its policy '", info->name,
                       "'; a name is lower case with underscores, and not empty"));
  }
  if (info->create == nullptr) return Invalid(Cat("has no create() for policy ", info->name));
  if (!info->one_shot && !info->decoder) {
    return Invalid(Cat("says of policy ", info->name,
                       " that it drives no model; set one_shot, decoder, or both"));
  }
  for (std::size_t i = 0; i < info->parameters.size(); ++i) {
    const absl::Status status = CheckParameter(info->parameters[i]);
    if (!status.ok()) return status;
    for (std::size_t k = 0; k < i; ++k) {
      if (info->parameters[k].name == info->parameters[i].name) {
        return Invalid(Cat("declares parameter '", info->parameters[i].name, "' twice"));
      }
    }
  }
  Parameters defaults;
  std::string error;
  if (!Parameters::Parse(info->parameters, {}, &defaults, &error)) return Invalid(error);
  if (info->create(defaults) == nullptr) {
    return Invalid(Cat("makes no policy: create() of ", info->name, " gives null"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PolicyLibrary> Load(const std::string& file) {
  const absl::StatusOr<std::string> bytes = ReadLibraryFile(file);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<std::string_view> exported = ExportedObject(*bytes, kSymbol);
  if (absl::IsNotFound(exported.status())) {
    return Invalid(Cat("is no policy: it exports no ", std::string_view(kSymbol),
                       "; write SCHEDTWIN_EXPORT_POLICY(kInfo); in it"));
  }
  if (!exported.ok()) return exported.status();
  const std::optional<std::string_view> stamp = StampOf(*exported);
  if (!stamp.has_value()) {
    return Invalid(Cat("is no policy: its ", std::string_view(kSymbol),
                       " is garbled; make it with SCHEDTWIN_EXPORT_POLICY"));
  }
  absl::Status status = CompareStamps(*stamp);
  if (!status.ok()) return status;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) return Invalid(Cat("cannot be loaded: ", std::string_view(dlerror())));
  const auto* descriptor = static_cast<const PolicyDescriptor*>(dlsym(library, kSymbol));
  if (descriptor == nullptr || descriptor->info == nullptr) return Invalid("has no PolicyInfo");
  const PolicyInfo* const info = descriptor->info();
  status = CheckInfo(info);
  if (!status.ok()) return status;
  return PolicyLibrary{info, {file, DigestText(XXH64(bytes->data(), bytes->size(), 0))}};
}

}  // namespace

absl::StatusOr<PolicyLibrary> LoadPolicyLibrary(const std::string& file) {
  absl::StatusOr<PolicyLibrary> library = Load(file);
  if (library.ok()) return library;
  return absl::Status(library.status().code(),
                      Cat("policy library '", file, "' ", std::string(library.status().message())));
}

}  // namespace schedtwin
