// CompareRuns: how far two published runs are apart, figure by figure, from their stored metrics,
// and in which of their conditions they differ, so that unlike things are not compared unawares.
// Reads only.
#ifndef SCHEDTWIN_EXPERIMENTS_COMPARE_H_
#define SCHEDTWIN_EXPERIMENTS_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/store/store.h"

namespace schedtwin {

struct ComparedFigure {
  std::string_view name;       ///< "ttft_ms", "tpot_ms", "e2e_ms", "throughput_rps"
  std::string_view statistic;  ///< "mean", "p50", "p90", "p99"
  std::optional<double> a, b;  ///< nullopt: the run has no such figure
  /// (b - a) / a; nullopt when either is missing, or a is zero and b is not.
  std::optional<double> rel_diff;
};

/// A condition that is not the same in both: "policy", "trace_hash", "seed", ...
struct ComparedCondition {
  std::string name, a, b;
};

struct Comparison {
  std::int64_t run_a = 0, run_b = 0;
  std::vector<ComparedFigure> figures;
  std::vector<ComparedCondition> differing;
  bool no_effect = false;  ///< what happened to requests is the same: outcome digests are equal
};

/// REQUIRES: both are ids of published runs (Store::Resolve).
absl::StatusOr<Comparison> CompareRuns(Store& store, std::int64_t run_a, std::int64_t run_b);

std::optional<double> RelativeDifference(std::optional<double> a, std::optional<double> b);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_COMPARE_H_
