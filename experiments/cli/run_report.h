// How a run is shown: the keys of --json that scripts rely on, and the text for people. Used by
// `sim` and `sweep`; pure.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_RUN_REPORT_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_RUN_REPORT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/store/store.h"

namespace schedtwin::cli {

/// run_id, world, policy, requests, ..., ttft_ms, tpot_ms, e2e_ms, in this order, and more after
/// them.
nlohmann::ordered_json RunJson(std::int64_t run, const RunInfo& info, const RunOutcome& outcome);

/// {mean, p50, p90, p99, max}, or null.
nlohmann::ordered_json DistributionJson(const std::optional<Distribution>& distribution);
/// The number, or null.
nlohmann::ordered_json NumberJson(const std::optional<double>& value);

/// A dozen lines: conditions, latencies, throughput, counts, digests.
std::string RunText(std::int64_t run, const RunInfo& info, const RunOutcome& outcome);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_RUN_REPORT_H_
