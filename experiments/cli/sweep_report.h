// How a sweep is shown: one row per setting (its runs under different seeds averaged), the frontier
// of latency against throughput, and the two working points on it. Used by `sweep`; pure.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_SWEEP_REPORT_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_SWEEP_REPORT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/experiment.h"
#include "experiments/store/store.h"

namespace schedtwin::cli {

/// One published point.
struct SweepRow {
  std::vector<std::string> values;  ///< one per axis
  std::int64_t run = 0;
  RunInfo info;
  RunOutcome outcome;
};

struct SweepResult {
  std::int64_t sweep = 0;
  std::vector<Axis> axes;
  std::vector<SweepRow> rows;
  std::string latency;  ///< the figure that the frontier trades: "e2e_ms.p99"
  double wall_s = 0, process_s = 0;
  unsigned jobs = 1;
};

/// OK when the text names a latency figure, such as "ttft_ms.p90".
absl::Status CheckLatencyFigure(std::string_view text, std::string_view where);

nlohmann::ordered_json SweepJson(const SweepResult& result);
std::string SweepText(const SweepResult& result);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_SWEEP_REPORT_H_
