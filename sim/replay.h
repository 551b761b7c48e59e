// Replay: a recorded run is done again from its log. The same policy gets the same requests, and
// every line that its new run writes into the journal must be the recorded one: time, kind, code
// and words. The first that is not is the divergence, and ends the replay.
//
// A run of world `sim` is computed again: virtual time, model devices. Of a measured run (cpu,
// cuda) the log gives what cannot be computed: the instants at which the loop woke, and the start
// and end of every step (kStepTimes). That is enough: whatever acts at an instant leaves a line
// there, a real clock returns no instant twice, and the rest (what is due by then, in which order)
// is the loop's own doing, which is the same here. Needed are sources that depend on nothing but
// their seed and how requests ended, and no shuffled ties (their order hangs on who posted first).
//
// Streams: holds the lines of one instant and a few for the report, however long the run. Policy
// thread; nothing outlives a call.
#ifndef SCHEDTWIN_SIM_REPLAY_H_
#define SCHEDTWIN_SIM_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/api/policy.h"
#include "policies/api/recorder.h"
#include "policies/api/source.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/world.h"

namespace schedtwin {

/// The lines of a recorded run, in order.
class RecordedLog {
 public:
  virtual ~RecordedLog() = default;
  /// The next line; false at the end, and ever after.
  virtual bool Next(LogRecord* out) = 0;
};

struct ReplaySetup {
  // As in the recorded run.
  DeviceInfo device;  ///< each of the devices
  std::uint32_t devices = 1;
  const StepTimeModel* model = nullptr;  ///< for predictions, and the times of world `sim`
  WorldOptions world;                    ///< `stop` interrupts the replay
  bool measured = false;  ///< times come from the log; else they are computed (world `sim`)

  std::atomic<std::uint64_t>* lines_seen = nullptr;  ///< counts up, for someone who watches
};

/// Where the two part ways. `recorded` and `replayed` begin with the line that differs, and go on
/// with what comes after it.
struct Divergence {
  std::vector<LogRecord> before;    ///< the last lines that were equal
  std::optional<LogRecord> event;   ///< the last event of all before: what led to this
  std::vector<LogRecord> recorded;  ///< empty: the log had ended
  std::vector<LogRecord> replayed;  ///< empty: the new run wrote no line where one was recorded
};

struct ReplayReport {
  std::uint64_t lines = 0;      ///< that were equal
  std::uint64_t decisions = 0;  ///< among them; the entries and bounds of a plan are part of one
  std::optional<Divergence> divergence;
  RunSummary summary;  ///< of the new run; kInterrupted where it diverged
};

/// Replays to the end or to the first divergence.
ReplayReport Replay(const ReplaySetup& setup, Policy* policy,
                    std::span<RequestSource* const> sources, RecordedLog* log);

}  // namespace schedtwin

#endif  // SCHEDTWIN_SIM_REPLAY_H_
