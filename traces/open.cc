#include "traces/open.h"

#include <utility>

#include "absl/status/status.h"
#include "traces/reader.h"
#include "traces/synth.h"

namespace schedtwin {
namespace {

absl::StatusOr<Trace> Load(const TraceOptions& options) {
  if (options.spec.empty()) {
    return absl::InvalidArgumentError(
        "no trace is named; give a file, or a built-in trace such as synth:azure_conv");
  }
  if (!IsSynth(options.spec)) return ReadTrace(options.spec, options.format);
  if (!options.format.empty()) {
    return absl::InvalidArgumentError("format '" + options.format + "' is for files, and " +
                                      options.spec + " is made here; leave the format out");
  }
  return MakeSynthTrace(options.spec, options.seed);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Trace>> OpenTrace(const TraceOptions& options) {
  absl::StatusOr<Trace> trace = Load(options);
  if (!trace.ok()) return trace.status();
  return std::make_shared<const Trace>(*std::move(trace));
}

}  // namespace schedtwin
