// Trace: requests with arrival times, as one flat vector of small rows, and where they came from.
// Readers and generators build it once (builder.h); after that it is const and shared by any number
// of runs and threads, each of which looks at it through its own TraceSource (source.h) without
// copying a row. Rows are ordered by arrival, the first at 0; equal arrivals keep the order of the
// file. Nothing here depends on the machine. What few formats have (sessions, texts, classes) is in
// further columns, parallel to `rows` and empty when unused, so that a row stays 24 bytes.
#ifndef SCHEDTWIN_TRACES_TRACE_H_
#define SCHEDTWIN_TRACES_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/api/source.h"

namespace schedtwin {

/// One request.
struct TraceRow {
  std::int64_t arrival_ns = 0;      ///< from the first arrival of the trace
  std::uint32_t prompt_tokens = 0;  ///< at least 1 in traces of decoder models
  std::uint32_t output_tokens = 0;  ///< at least 1 in traces of decoder models
  std::uint32_t units = 1;          ///< size for a one-shot model, at least 1
};

/// How many rows were dropped or flagged for one reason, such as "zero_output_tokens".
struct ReasonCount {
  std::string reason;
  std::uint64_t rows = 0;
};

/// Where a trace came from and what was done to it: enough to say whether two runs saw the same
/// traffic.
struct TraceProvenance {
  std::string source;  ///< the file's path as given, or "synth:NAME:..." with every parameter
  std::string format;  ///< name of the reader, or "synth"
  /// XXH64 of the file's bytes, or of `source` and the seed if it draws.
  std::uint64_t content_hash = 0;
  std::uint64_t source_bytes = 0;  ///< size of the file; 0 for generators
  std::uint64_t rows_read = 0;     ///< rows_read = rows_kept + the sum of `dropped`
  std::uint64_t rows_kept = 0;
  std::vector<ReasonCount> dropped;  ///< by reason, in order of first occurrence
  std::vector<ReasonCount> flagged;  ///< kept, but worth knowing; by reason
  /// Rows stamped earlier than one before them; mended by a stable sort.
  std::uint64_t rows_out_of_order = 0;
  std::vector<std::string> transforms;  ///< what was done to the rows, in order
  std::uint64_t draws = 0;  ///< 32-bit random words drawn; 0: the same trace under every seed

  bool synthetic() const { return format == "synth"; }
  bool was_sorted() const { return rows_out_of_order == 0; }
};

/// The text of each row's prompt, by name, as far as the source tells: what two prompts share at
/// their beginning. Empty, or one entry for each row.
class TraceTexts {
 public:
  bool empty() const { return ends_.empty(); }
  std::span<const ContentSegment> of(std::size_t row) const {
    if (ends_.empty()) return {};
    const std::size_t begin = row == 0 ? 0 : ends_[row - 1];
    return std::span(segments_).subspan(begin, ends_[row] - begin);
  }
  void Add(std::span<const ContentSegment> text) {
    segments_.insert(segments_.end(), text.begin(), text.end());
    ends_.push_back(segments_.size());
  }
  /// Rows that have no text, until there are `rows`.
  void PadTo(std::size_t rows) { ends_.resize(rows, segments_.size()); }

 private:
  std::vector<ContentSegment> segments_;
  std::vector<std::size_t> ends_;
};

struct Trace {
  std::vector<TraceRow> rows;
  // Columns that some formats have: each is empty, or has one entry for each row.
  std::vector<std::uint32_t> sessions;  ///< from 1; 0: none
  std::vector<std::uint64_t> parents;   ///< the row it continues, or RequestSpec::kNoParent
  std::vector<std::uint32_t>
      classes;  ///< from 1, one more than the index into class_names; 0: none
  std::vector<std::uint32_t> tenants;  ///< from 1; 0: none is named
  std::vector<std::uint32_t> images;   ///< that the prompt holds; their tokens are in it
  std::vector<std::string> class_names;
  TraceTexts texts;
  TraceProvenance provenance;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_TRACE_H_
