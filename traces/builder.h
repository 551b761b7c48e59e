// TraceBuilder: what readers and generators put rows into. It knows what all traces share: arrivals
// become nanoseconds from the first, rows out of order are counted and stably sorted, rows left out
// are counted by reason. Readers see no more of the result than this, so that a builder which
// streams to disk can follow without touching them. One thread; deterministic.
#ifndef SCHEDTWIN_TRACES_BUILDER_H_
#define SCHEDTWIN_TRACES_BUILDER_H_

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "traces/trace.h"

namespace schedtwin {

class TraceBuilder {
 public:
  /// Room for about this many rows, to be made before the first.
  void Reserve(std::size_t rows) { trace_.rows.reserve(rows); }

  /// Keeps a row. `row.arrival_ns` counts from any origin, the same for every row.
  void Add(const TraceRow& row) {
    if (row.arrival_ns < latest_ns_) {
      ++out_of_order_;
    } else {
      latest_ns_ = row.arrival_ns;
    }
    trace_.rows.push_back(row);
  }
  /// Leaves one row out. `reason` is a snake_case word that users see beside its count.
  void Drop(std::string_view reason) { Count(reason, &trace_.provenance.dropped); }
  /// Says something of a row that is kept.
  void Flag(std::string_view reason) { Count(reason, &trace_.provenance.flagged); }

  std::size_t rows() const { return trace_.rows.size(); }

  /// Sorts and re-bases the rows and fills in the counts. What the rows came from is the caller's
  /// to say: source, format, hash, bytes, draws. Leaves the builder empty.
  Trace Finish();

 private:
  static void Count(std::string_view reason, std::vector<ReasonCount>* counts);

  Trace trace_;
  std::int64_t latest_ns_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t out_of_order_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_BUILDER_H_
