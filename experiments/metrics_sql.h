// The SQL metric library: the figures of a run computed from its stored rows, by the same
// definitions as metrics.h. `db check` holds stored metrics to them, tests hold the two
// implementations to each other, and anyone with the sqlite3 shell can use the texts: each is one
// statement whose only parameter, ?1, is the run. They read the published_* views, so they see
// published runs alone. One thread per Database.
#ifndef SCHEDTWIN_EXPERIMENTS_METRICS_SQL_H_
#define SCHEDTWIN_EXPERIMENTS_METRICS_SQL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "experiments/metrics.h"
#include "experiments/store/sqlite.h"

namespace schedtwin {

/// Yields count, mean, p50, p90, p99, max of one column of published_requests ("ttft_ns",
/// "tpot_ns", "e2e_ns") over completed requests, nulls left out, in the unit of the column.
std::string LatencySql(std::string_view column);

/// Yields the same six figures of what decisions took (published_steps.decision_ns).
std::string DecisionSql();

/// Yields the same six figures of completions per second (see ThroughputWindow).
std::string ThroughputSql();

/// Yields kind, how many were done, how many were not, and the bytes of those done.
std::string OperationsSql();

/// Yields the counts of RunMetrics in its order, then first arrival and last end; the run's own
/// first arrival, for the request that came first may never have ended.
std::string CountsSql();

/// REQUIRES: the run is published and was recorded with its requests.
absl::StatusOr<RunMetrics> MetricsFromRows(Database& database, std::int64_t run);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_METRICS_SQL_H_
