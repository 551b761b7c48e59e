// OpenTrace: the one call by which commands get traffic, from a file in any known format or from a
// built-in generator. The trace is loaded whole and shared; TraceSource::Create (source.h) then
// gives each run its view:
//
//   absl::StatusOr<std::shared_ptr<const Trace>> trace =
//       OpenTrace({.spec = "synth:azure_conv", .seed = 7});
//   absl::StatusOr<std::unique_ptr<TraceSource>> source =
//       TraceSource::Create(*trace, {.limit = 1000});
//
// Any thread; the result depends on the file's bytes or on (spec, seed) alone. A trace of millions
// of rows need not fit in memory: that comes with the own chunked format, read as a stream by a
// second RequestSource; runs see only RequestSource and do not change.
#ifndef SCHEDTWIN_TRACES_OPEN_H_
#define SCHEDTWIN_TRACES_OPEN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "traces/trace.h"

namespace schedtwin {

struct TraceOptions {
  /// What --trace gave: a path, "synth:NAME" or "synth:NAME:key=value,key=value".
  std::string spec;
  /// A name from TraceFormats() (reader.h); empty: detected from the file's first bytes.
  std::string format;
  std::uint64_t seed = 1;  ///< for generators; files draw nothing
};

/// Every error is one line that says what, where and how to mend it.
absl::StatusOr<std::shared_ptr<const Trace>> OpenTrace(const TraceOptions& options);

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_OPEN_H_
