// Store: the results file. A run is begun (state open), its rows are written in batches under it,
// and it is published with its metrics in one transaction; readers see published runs only, so a
// run is wholly there or not at all, whatever is killed when. Opening for writing removes open runs
// whose owner is dead. One Store belongs to one thread at a time. Other threads and processes open
// their own on the same file. Commands and the sweep's publisher call it; RowWriter (row_writer.h)
// writes the rows.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_STORE_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/metrics.h"
#include "experiments/slo.h"
#include "experiments/store/owner.h"
#include "experiments/store/sqlite.h"

namespace schedtwin {

/// A policy parameter as the run used it.
struct ParameterValue {
  std::string name, value;
  bool is_default = false;
};

/// The shared library that a run's policy came from.
struct LibraryFacts {
  std::string file;  ///< as it was named
  std::string hash;  ///< of its content
};

/// What a run is: everything needed to repeat it, known before it starts.
struct RunInfo {
  std::string world;
  std::string policy;
  std::optional<LibraryFacts> library;  ///< of a policy that does not ship with the program
  std::vector<ParameterValue> parameters;
  std::string model;
  std::int64_t devices = 1;
  std::string profile, profile_hash;
  std::string trace, trace_format, trace_hash, trace_transforms;
  std::int64_t seed = 1;
  std::string record;
  Slo slo;
  bool oracle = false;  ///< the policy was told true output lengths
  std::string version, host;
  std::string experiment;  ///< the effective experiment, as text
  std::optional<std::pair<std::int64_t, std::int64_t>> sweep;  ///< sweep and index of the point
};

/// What is known of a real run besides.
struct ExecutionFacts {
  std::string wait;            ///< sleep, spin
  std::string backend;         ///< kernel library and instruction set
  double policy_thread_s = 0;  ///< CPU time of the policy thread during the loop
  std::string invalid;         ///< why its figures prove nothing; empty: they are sound
};

/// What a run came to, known when it ends.
struct RunOutcome {
  std::string result;  ///< finished, stalled, livelocked
  std::string result_detail;
  std::string outcome_digest, decision_digest;
  std::int64_t requests = 0;  ///< that arrived
  std::int64_t events = 0, steps = 0, refusals = 0;
  std::vector<std::pair<std::string_view, std::int64_t>> refused;  ///< refusals by reason
  double wall_s = 0, process_s = 0;
  RunMetrics metrics;
  std::optional<ExecutionFacts> execution;  ///< of a real run
};

class Store {
 public:
  /// Opens or makes the file, brings its schema up to date, removes what dead owners left, and so
  /// also proves that the file can be written. `owner` is told apart in tests only.
  static absl::StatusOr<std::unique_ptr<Store>> OpenForWriting(const std::string& path,
                                                               const Owner& owner = CurrentOwner());
  /// Opens an existing file; nothing in it is changed.
  static absl::StatusOr<std::unique_ptr<Store>> OpenForReading(const std::string& path);

  absl::StatusOr<std::int64_t> BeginRun(const RunInfo& info);
  /// REQUIRES: the run is open. Afterwards it is visible, with its metrics.
  absl::Status Publish(std::int64_t run, const RunOutcome& outcome);
  /// Removes an open run and all its rows; a published run stays.
  absl::Status RemoveOpenRun(std::int64_t run);

  absl::StatusOr<std::int64_t> AddSweep(std::int64_t points, std::string_view axes,
                                        std::string_view experiment);

  /// Turns "7", "latest" or "latest-2" into the id of a published run; the error names those there
  /// are.
  absl::StatusOr<std::int64_t> Resolve(std::string_view run);

  /// Every open run with its owner.
  absl::StatusOr<std::vector<std::pair<std::int64_t, Owner>>> OpenRuns();

  Database& database() { return database_; }

 private:
  explicit Store(Database database, Owner owner)
      : database_(std::move(database)), owner_(std::move(owner)) {}
  absl::Status RemoveDeadRuns();
  absl::Status InsertExecution(std::int64_t run, const ExecutionFacts& facts);
  absl::Status InsertMetrics(std::int64_t run, std::span<const MetricRow> rows);

  Database database_;
  Owner owner_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_STORE_H_
