// Policies whose PolicyInfo must be refused; the environment says which of them this library shows.
#include <cstdlib>
#include <memory>
#include <string_view>

#include "policies/api/plugin.h"

namespace schedtwin {
namespace {

std::unique_ptr<Policy> Create(const Parameters&) { return std::make_unique<Policy>(); }
std::unique_ptr<Policy> CreateNothing(const Parameters&) { return nullptr; }

// A policy that is sound but for these parameters.
PolicyInfo With(std::span<const ParameterSpec> parameters) {
  return {.name = "bad", .decoder = true, .parameters = parameters, .create = Create};
}

constexpr ParameterSpec kTwice[] = {{.name = "a", .default_text = "1", .meaning = "m"},
                                    {.name = "a", .default_text = "2", .meaning = "m"}};
constexpr ParameterSpec kNameless[] = {{.default_text = "1", .meaning = "m"}};
constexpr ParameterSpec kName[] = {{.name = "name", .default_text = "1", .meaning = "m"}};
constexpr ParameterSpec kMeaningless[] = {{.name = "a", .default_text = "1"}};
constexpr ParameterSpec kOutOfRange[] = {
    {.name = "a", .default_text = "9", .max = 8, .meaning = "m"}};
constexpr ParameterSpec kMinAboveMax[] = {
    {.name = "a", .default_text = "1", .min = 2, .max = 1, .meaning = "m"}};
constexpr ParameterSpec kNoChoices[] = {
    {.name = "a", .type = ParameterType::kChoice, .meaning = "m"}};
constexpr ParameterSpec kNoType[] = {
    {.name = "a", .type = ParameterType{9}, .default_text = "1", .meaning = "m"}};

struct Case {
  std::string_view name;
  PolicyInfo info;
};

const PolicyInfo& Chosen() {
  static const Case kCases[] = {
      {"EmptyName", {.name = "", .decoder = true, .create = Create}},
      {"UppercaseName", {.name = "Bad", .decoder = true, .create = Create}},
      {"NoCreate", {.name = "bad", .decoder = true}},
      {"DrivesNothing", {.name = "bad", .create = Create}},
      {"CreateGivesNull", {.name = "bad", .decoder = true, .create = CreateNothing}},
      {"TwoOfOneName", With(kTwice)},
      {"ParameterWithoutName", With(kNameless)},
      {"ParameterCalledName", With(kName)},
      {"ParameterWithoutMeaning", With(kMeaningless)},
      {"DefaultOutOfRange", With(kOutOfRange)},
      {"MinAboveMax", With(kMinAboveMax)},
      {"NoChoices", With(kNoChoices)},
      {"NoType", With(kNoType)}};
  const std::string_view wanted = std::getenv("SCHEDTWIN_BAD_PLUGIN");
  for (const Case& bad : kCases) {
    if (bad.name == wanted) return bad.info;
  }
  std::abort();
}

}  // namespace
}  // namespace schedtwin

SCHEDTWIN_EXPORT_POLICY(schedtwin::Chosen());
