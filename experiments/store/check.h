// CheckStore: what `db check` asserts of a results file: SQLite's own integrity and foreign keys,
// every view readable, digests well formed, each published run's counts and metrics in agreement
// with the rows it stored, and every open run held by an owner that lives. Reads only; one thread
// per store.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_CHECK_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/store/store.h"

namespace schedtwin {

struct CheckReport {
  std::int64_t published_runs = 0;
  std::int64_t open_runs = 0;         ///< held by a living owner
  std::int64_t abandoned_runs = 0;    ///< of dead owners; removed by the next command that writes
  std::vector<std::string> problems;  ///< one line each; empty: all holds
};

/// An error means that the checks themselves could not be made.
absl::StatusOr<CheckReport> CheckStore(Store& store);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_CHECK_H_
