// StepRunner: what a device's worker thread drives: it takes the messages of the device seam and
// runs steps for real. It knows of requests only what the messages say. Made, used and destroyed on
// its worker's thread; a step blocks until its results are in memory.
#ifndef SCHEDTWIN_EXEC_STEP_RUNNER_H_
#define SCHEDTWIN_EXEC_STEP_RUNNER_H_

#include <functional>
#include <memory>

#include "policies/api/device.h"
#include "policies/runtime/device_port.h"

namespace schedtwin {

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual DeviceInfo info() const = 0;
  /// Takes a command that is not a step.
  virtual void Take(const DeviceCommand& command) = 0;
  /// Runs the entries taken since the last step, and the standing set if `step.standing`. Throws
  /// std::exception if it cannot; the runner is not used again then.
  virtual void RunStep(const DeviceCommand& step) = 0;
};

/// Called on the worker's thread. Throws std::exception if there is not enough memory and the like.
using MakeStepRunner = std::function<std::unique_ptr<StepRunner>()>;

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_STEP_RUNNER_H_
