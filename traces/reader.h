// Readers of trace files. A format is one file, traces/formats/<name>.cc, with one descriptor: what
// it is called, how to know it from the first bytes, and how to read it. ReadTrace finds the
// format, reads, and states where the rows came from. Called by OpenTrace (open.h) and `trace`
// commands. Any thread; no global state; the result depends on the file's bytes alone. A row is
// kept, or dropped and counted by reason, or an error that names file, line, value and mend;
// nothing is skipped silently.
#ifndef SCHEDTWIN_TRACES_READER_H_
#define SCHEDTWIN_TRACES_READER_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "traces/builder.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace schedtwin {

/// What a reader is told besides the text. Nothing yet: units, block sizes and column maps come
/// with the formats that need them.
struct ReadOptions {};

struct TraceFormat {
  std::string_view name;     ///< what --format takes: lower case, underscores
  std::string_view summary;  ///< one line for users, with the source
  std::string_view begins;   ///< what a file begins with, shown when none fits: a header line

  /// Whether a file that begins with `head` (up to 4 KiB, without byte-order mark) is of this
  /// format. The first format of TraceFormats() that says yes reads it, so a narrower one goes
  /// before a wider one.
  bool (*detect)(std::string_view head);

  /// Reads `text` to its end, from the first line, into `out`. The error is one line, "path:line:
  /// ..."; a failure of `text` itself is reported by the caller.
  absl::Status (*read)(TextReader* text, const ReadOptions& options, TraceBuilder* out);
};

/// All formats, in order of detection.
std::span<const TraceFormat* const> TraceFormats();

/// Reads a file as `format`, or as the format it is detected to be when that is empty.
absl::StatusOr<Trace> ReadTrace(const std::string& path, std::string_view format = {},
                                const ReadOptions& options = {});

/// The same for text in memory; `path` only names it in errors and provenance.
absl::StatusOr<Trace> ParseTrace(std::string_view text, const std::string& path,
                                 std::string_view format = {}, const ReadOptions& options = {});

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_READER_H_
