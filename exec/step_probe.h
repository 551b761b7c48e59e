// StepProbe: a device as calibration sees it: something that runs one step of any shape, alone, and
// says how long it took. Real devices implement it in a few lines; tests answer from a known model.
// One thread.
#ifndef SCHEDTWIN_EXEC_STEP_PROBE_H_
#define SCHEDTWIN_EXEC_STEP_PROBE_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "policies/api/device.h"

namespace schedtwin {

/// One entry of a step to be measured. Each is a request of its own; what its cache holds does not
/// matter, only that `context_tokens` of it are attended to.
struct ProbeEntry {
  std::uint32_t tokens = 0;          ///< one-shot models: units
  std::uint32_t context_tokens = 0;  ///< in the cache before the step
  bool decode = false;               ///< one token past the prompt
  bool samples = false;              ///< its last row goes through the LM head; decodes do
};

struct ProbeTimes {
  std::int64_t wall_ns = 0;        ///< the step alone
  std::int64_t cpu_ns = -1;        ///< of the thread that computed it; -1: not measured
  std::int64_t round_trip_ns = 0;  ///< from handing the step over to having read the answer
};

class StepProbe {
 public:
  virtual ~StepProbe() = default;
  /// What may be asked of it: steps keep within its tokens, its blocks and its length.
  virtual DeviceInfo info() const = 0;
  /// Runs one step and waits for it. `padding_tokens` are computed besides and thrown away;
  /// decoders alone have any. REQUIRES: `entries` is not empty.
  virtual absl::StatusOr<ProbeTimes> Run(std::span<const ProbeEntry> entries,
                                         std::uint32_t padding_tokens) = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_STEP_PROBE_H_
