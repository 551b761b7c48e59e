#include "traces/builder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace schedtwin {

Trace TraceBuilder::Finish() {
  std::vector<TraceRow>& rows = trace_.rows;
  if (out_of_order_ > 0) {
    std::stable_sort(rows.begin(), rows.end(), [](const TraceRow& a, const TraceRow& b) {
      return a.arrival_ns < b.arrival_ns;
    });
  }
  if (!rows.empty() && rows.front().arrival_ns != 0) {
    const std::int64_t origin_ns = rows.front().arrival_ns;
    for (TraceRow& row : rows) row.arrival_ns -= origin_ns;
  }
  TraceProvenance& provenance = trace_.provenance;
  provenance.rows_kept = rows.size();
  provenance.rows_read = rows.size();
  for (const ReasonCount& dropped : provenance.dropped) provenance.rows_read += dropped.rows;
  provenance.rows_out_of_order = out_of_order_;
  if (out_of_order_ > 0) provenance.transforms.emplace_back("sorted");

  latest_ns_ = std::numeric_limits<std::int64_t>::min();
  out_of_order_ = 0;
  return std::exchange(trace_, Trace());
}

void TraceBuilder::Count(std::string_view reason, std::vector<ReasonCount>* counts) {
  for (ReasonCount& count : *counts) {
    if (count.reason == reason) {
      ++count.rows;
      return;
    }
  }
  counts->push_back({std::string(reason), 1});
}

}  // namespace schedtwin
