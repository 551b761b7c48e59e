// StepRunner: one model on one device, which the device's worker thread drives: it takes the
// messages of the device seam and runs steps for real. It knows of requests only what the messages
// say. Made and used on its worker's thread, destroyed when no worker runs any more; a step blocks
// until its results are in memory.
#ifndef SCHEDTWIN_EXEC_STEP_RUNNER_H_
#define SCHEDTWIN_EXEC_STEP_RUNNER_H_

#include <functional>
#include <memory>

#include "exec/kv_holder.h"
#include "kernels/cpu/stop_check.h"
#include "policies/api/device.h"
#include "policies/runtime/device_port.h"

namespace schedtwin {

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// The same before and after loading.
  virtual DeviceInfo info() const = 0;
  /// Makes the weights, before the first step; of a loaded model nothing. False: `stop`, asked now
  /// and then, said so, and nothing is loaded. Throws std::exception if it cannot.
  virtual bool Load(StopCheck stop) = 0;
  /// Frees the weights; requests and KV stay.
  virtual void Unload() = 0;
  /// Takes a command that tells of a request, loaded or not; a kEntry only if its step is this
  /// model's.
  virtual void Take(const DeviceCommand& command) = 0;
  /// Runs the entries taken since the last step, and the standing set if `step.standing`. False:
  /// `stop`, asked between layers, has cut it, and all is as if the step had not been. Throws
  /// std::exception if it cannot; the runner runs no step any more then. REQUIRES: it is loaded.
  virtual bool RunStep(const DeviceCommand& step, StopCheck stop) = 0;
  /// Null: this model has no KV that could be copied.
  virtual KvHolder* kv() { return nullptr; }
};

/// Called on the worker's thread; the runner is not loaded yet. Throws std::exception.
using MakeStepRunner = std::function<std::unique_ptr<StepRunner>()>;

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_STEP_RUNNER_H_
