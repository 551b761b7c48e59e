// Built-in traffic: generators that make a Trace from a name, parameters and a seed, for machines
// without the data, for tests against queueing theory, and for first runs. Called by OpenTrace
// (open.h). The text is "synth:NAME" or "synth:NAME:key=value,key=value". Arrivals and lengths draw
// from streams of their own, a fixed number of words per request, so that another rate or count
// shifts nobody's lengths. Deterministic on every machine: Rng's own distributions and + - * /
// only. No state; any thread.
#ifndef SCHEDTWIN_TRACES_SYNTH_H_
#define SCHEDTWIN_TRACES_SYNTH_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "traces/builder.h"
#include "traces/ratio.h"
#include "traces/trace.h"

namespace schedtwin {

enum class SynthType : std::uint8_t {
  kInteger,
  kDecimal,  ///< above zero, exact (ratio.h)
  kChoice,   ///< one of `choices`
};

/// One row of a generator's table: what can be set, and what help prints.
struct SynthParameter {
  std::string_view name;
  SynthType type = SynthType::kInteger;
  std::string_view default_text;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string_view unit;
  std::string_view meaning;
  std::span<const std::string_view> choices = {};
};

/// The values of one generator, in the order of its table.
class SynthValues {
 public:
  SynthValues(std::span<const SynthParameter> table, std::vector<Ratio> values)
      : table_(table), values_(std::move(values)) {}

  /// REQUIRES: `name` is in the table, with that type.
  std::int64_t integer(std::string_view name) const { return Get(name).numerator; }
  const Ratio& decimal(std::string_view name) const { return Get(name); }
  std::string_view choice(std::string_view name) const;
  /// Every name with its value, "count=10,rate=2.5": one text for equal values.
  std::string Text() const;

 private:
  std::size_t Find(std::string_view name) const;
  const Ratio& Get(std::string_view name) const { return values_[Find(name)]; }

  std::span<const SynthParameter> table_;
  std::vector<Ratio> values_;  // integers over 1; choices by index
};

struct SynthGenerator {
  std::string_view name;
  std::string_view summary;  ///< one line for users, with the source
  std::span<const SynthParameter> parameters;

  /// Adds the rows to `out` and the number of 32-bit words drawn to `*draws`.
  absl::Status (*generate)(const SynthValues& values, std::uint64_t seed, TraceBuilder* out,
                           std::uint64_t* draws);
};

/// All generators, for help and errors.
std::span<const SynthGenerator* const> SynthGenerators();

/// Whether the text names a generator and not a file.
bool IsSynth(std::string_view spec);

/// REQUIRES: IsSynth(spec). Unknown names, keys and values are one-line errors that list the valid
/// ones.
absl::StatusOr<Trace> MakeSynthTrace(std::string_view spec, std::uint64_t seed);

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_SYNTH_H_
