// TraceBuilder: what readers and generators put rows into. It knows what all traces share: arrivals
// become nanoseconds from the first, rows out of order are counted and stably sorted, with all that
// is said of them, rows left out are counted by reason, names become numbers. Readers see no more
// of the result than this, so that a builder which streams to disk can follow without touching
// them. One thread; deterministic.
#ifndef SCHEDTWIN_TRACES_BUILDER_H_
#define SCHEDTWIN_TRACES_BUILDER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/trace.h"

namespace schedtwin {

/// What some formats say of a row besides.
struct TraceDetails {
  std::string_view session = {};        ///< its name; empty: none
  std::string_view tenant = {};         ///< likewise
  std::string_view request_class = {};  ///< likewise
  std::optional<std::uint64_t> key;     ///< its own number in the source
  std::optional<std::uint64_t> parent;  ///< that of the row it continues
  std::uint32_t images = 0;
  std::span<const ContentSegment> text = {};
};

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
  /// Keeps a row and what is said of it besides. False, and nothing is kept: its key is that of a
  /// row before it.
  bool Add(const TraceRow& row, const TraceDetails& details);
  /// Leaves one row out. `reason` is a snake_case word that users see beside its count.
  void Drop(std::string_view reason) { Count(reason, &trace_.provenance.dropped); }
  /// Says something of a row that is kept.
  void Flag(std::string_view reason) { Count(reason, &trace_.provenance.flagged); }

  std::size_t rows() const { return trace_.rows.size(); }

  /// Sorts and re-bases the rows and fills in the counts. What the rows came from is the caller's
  /// to say: source, format, hash, bytes, draws. Leaves the builder empty.
  Trace Finish();

 private:
  /// Numbers for names, from 1 in order of first occurrence.
  using Names = std::unordered_map<std::string, std::uint32_t>;

  static void Count(std::string_view reason, std::vector<ReasonCount>* counts);
  static std::uint32_t NumberOf(std::string_view name, Names* names);
  /// Sets the last row's entry of a column, which is begun with its first entry that is not 0.
  template <class T>
  void Put(T value, std::vector<T>* column);
  void Sort();
  void ResolveParents();

  Trace trace_;
  Names sessions_, tenants_, classes_;
  std::unordered_map<std::uint64_t, std::uint64_t> rows_by_key_;
  std::vector<std::uint64_t> parent_keys_;  ///< by row, one more than the key; 0: none
  std::int64_t latest_ns_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t out_of_order_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_BUILDER_H_
