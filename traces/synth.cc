#include "traces/synth.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "traces/generators.h"
#include "traces/text.h"

namespace schedtwin {
namespace {

constexpr std::string_view kScheme = "synth:";
constexpr const SynthGenerator* kGenerators[] = {&kAzureConvTwin, &kPoissonGenerator,
                                                 &kDeterministicGenerator};

// Cuts the text at the first `separator` and gives what was before it.
std::string_view CutAt(char separator, std::string_view* text) {
  const std::size_t at = text->find(separator);
  const std::string_view first = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + 1);
  return first;
}

template <class Items, class NameOf>
std::string Join(const Items& items, NameOf name_of) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::string(name_of(item));
  }
  return text;
}

absl::StatusOr<Ratio> ParseValue(const SynthParameter& parameter, std::string_view text,
                                 const std::string& where) {
  const std::string what = where + ": " + std::string(parameter.name);
  if (parameter.type == SynthType::kDecimal) return ParseRatio(text, what);
  std::string wanted = "one of: " + Join(parameter.choices, [](auto choice) { return choice; });
  for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
    if (parameter.choices[i] == text) return Ratio{static_cast<std::int64_t>(i), 1};
  }
  if (parameter.type == SynthType::kInteger) {
    std::int64_t value = 0;
    const std::from_chars_result result =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc() && result.ptr == text.data() + text.size() &&
        value >= parameter.min && value <= parameter.max) {
      return Ratio{value, 1};
    }
    wanted =
        "an integer from " + std::to_string(parameter.min) + " to " + std::to_string(parameter.max);
  }
  return absl::InvalidArgumentError(what + " cannot be " + Quoted(text) + "; it takes " + wanted);
}

absl::StatusOr<SynthValues> ParseSettings(const SynthGenerator& generator, std::string_view text,
                                          const std::string& where) {
  const std::span<const SynthParameter> table = generator.parameters;
  std::vector<std::string_view> texts;
  for (const SynthParameter& parameter : table) texts.push_back(parameter.default_text);
  std::vector<bool> given(table.size(), false);
  while (!text.empty()) {
    std::string_view setting = CutAt(',', &text);
    const std::string whole = Quoted(setting);
    const bool has_value = setting.find('=') != std::string_view::npos;
    const std::string_view key = CutAt('=', &setting);
    std::size_t i = 0;
    while (i < table.size() && table[i].name != key) ++i;
    const std::string known =
        "; its parameters are: " + Join(table, [](const auto& p) { return p.name; });
    if (!has_value) {
      return absl::InvalidArgumentError(where + ": found " + whole + "; expected key=value" +
                                        known);
    }
    if (i == table.size()) {
      return absl::InvalidArgumentError(where + " has no parameter " + Quoted(key) + known);
    }
    if (given[i])
      return absl::InvalidArgumentError(where + ": " + std::string(key) +
                                        " is given twice; keep one");
    given[i] = true;
    texts[i] = setting;
  }
  std::vector<Ratio> values;
  for (std::size_t i = 0; i < table.size(); ++i) {
    absl::StatusOr<Ratio> value = ParseValue(table[i], texts[i], where);
    if (!value.ok()) return value.status();
    values.push_back(*value);
  }
  return SynthValues(table, std::move(values));
}

}  // namespace

std::size_t SynthValues::Find(std::string_view name) const {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].name == name) return i;
  }
  std::abort();  // a defect of the generator, not of the user's text
}

std::string_view SynthValues::choice(std::string_view name) const {
  const std::size_t i = Find(name);
  return table_[i].choices[static_cast<std::size_t>(values_[i].numerator)];
}

std::string SynthValues::Text() const {
  std::string text;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (i > 0) text += ',';
    text += std::string(table_[i].name) + '=';
    text += table_[i].type == SynthType::kChoice ? std::string(choice(table_[i].name))
                                                 : ToString(values_[i]);
  }
  return text;
}

std::span<const SynthGenerator* const> SynthGenerators() { return kGenerators; }

bool IsSynth(std::string_view spec) { return spec.starts_with(kScheme); }

absl::StatusOr<Trace> MakeSynthTrace(std::string_view spec, std::uint64_t seed) {
  std::string_view settings = spec.substr(kScheme.size());
  const std::string_view name = CutAt(':', &settings);
  for (const SynthGenerator* generator : SynthGenerators()) {
    if (generator->name != name) continue;
    const std::string where = std::string(kScheme) + std::string(name);
    const absl::StatusOr<SynthValues> values = ParseSettings(*generator, settings, where);
    if (!values.ok()) return values.status();
    TraceBuilder builder;
    std::uint64_t draws = 0;
    if (absl::Status status = generator->generate(*values, seed, &builder, &draws); !status.ok()) {
      return status;
    }
    Trace trace = builder.Finish();
    trace.provenance.source = where + ":" + values->Text();
    trace.provenance.format = "synth";
    trace.provenance.draws = draws;
    std::string identity = trace.provenance.source;
    if (draws > 0) identity += ";seed=" + std::to_string(seed);
    trace.provenance.content_hash = XXH64(identity.data(), identity.size(), 0);
    return trace;
  }
  return absl::InvalidArgumentError(
      "unknown built-in trace " + Quoted(spec) +
      "; the built-in traces are: " + Join(SynthGenerators(), [](const auto* g) {
        return std::string(kScheme) + std::string(g->name);
      }));
}

}  // namespace schedtwin
