// ReplayRun: a stored run replayed from its log (sim/replay.h). Three steps, each with errors of
// its own: read what the run was, make the same conditions again (policy, parameters, trace,
// profile: all from the experiment stored with it), feed the log to a new run. Called by the
// `replay` command; one thread.
#ifndef SCHEDTWIN_EXPERIMENTS_REPLAY_H_
#define SCHEDTWIN_EXPERIMENTS_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/run_spec.h"
#include "experiments/store/store.h"
#include "sim/replay.h"

namespace schedtwin {

/// What is stored of a run that can be replayed.
struct RecordedRun {
  std::int64_t id = 0;
  std::string world;
  std::string experiment;
  std::string profile_hash, trace, trace_hash;
  std::string library_hash;  ///< empty: the policy shipped with the program
  std::string version;
  std::string outcome_digest, decision_digest;
  bool oracle = false;
  std::uint64_t lines = 0;  ///< of its log
};

/// Fails for a run that has no log. REQUIRES: the run is published.
absl::StatusOr<RecordedRun> ReadRecordedRun(Store* store, std::int64_t run);

/// The run's experiment, resolved again. Fails when trace, profile or policy library are gone or
/// are not what they were. `results` is the file that the run is in.
absl::StatusOr<RunSpec> SpecOf(const RecordedRun& run, const std::string& results);

struct ReplayControl {
  const std::atomic<bool>* stop = nullptr;           ///< set it, and the replay ends
  std::atomic<std::uint64_t>* lines_seen = nullptr;  ///< counts up
};

struct ReplayResult {
  ReplayReport report;
  /// False although no line differs: what the log says of steps is not what the run was told.
  bool digests_equal = false;
};

/// Replays to the end, the first divergence, or an interruption (report.summary.result).
absl::StatusOr<ReplayResult> ReplayRun(const RecordedRun& run, const RunSpec& spec, Store* store,
                                       const ReplayControl& control);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_REPLAY_H_
