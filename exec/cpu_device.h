// CpuDevice: a real device: one worker thread behind the message seam. Commands are gathered on the
// policy thread and handed over with the step or operation that they lead to; the worker does one
// after the other, in their order, so that an operation is never beside a step, blocking or not,
// and answers each through the mailbox with its own times. The policy thread never waits for it.
//
// What is to be cut goes past that order: kAbort and kCancel mark what they name, and the worker
// looks before it begins, between the layers of a step, the blocks of a copy and the tensors of a
// model. A kernel is not cut inside a layer, so aborting now is aborting at the end of the layer.
//
// Made before the run; stopped, with all others of the run, after its World has ended; destroyed
// when all are stopped, as their workers copy from one another. A step allocates nothing once the
// buffers have held the largest.
#ifndef SCHEDTWIN_EXEC_CPU_DEVICE_H_
#define SCHEDTWIN_EXEC_CPU_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/mailbox.h"
#include "exec/step_runner.h"
#include "exec/wall_clock.h"
#include "policies/profile/step_time.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/step_builder.h"

namespace schedtwin {

class CpuDevice final : public DevicePort {
 public:
  /// Starts the worker and waits until it has made a runner for each model and loaded those of
  /// `loaded` (bit m: model m). What the first says of itself the device says. `mailbox`, `clock`
  /// and `model` (of model 0; null: no predictions) outlive the device. The error says what the
  /// runner's making threw. REQUIRES: there are 1 to 64 models.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Start(std::vector<MakeStepRunner> models,
                                                          std::uint64_t loaded, Mailbox* mailbox,
                                                          const WallClock* clock,
                                                          const StepTimeModel* model);
  ~CpuDevice() override;

  DeviceInfo info() const override { return info_; }
  void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) override;
  void Notify(Time now) override;

  /// The run's devices by their numbers, for copies between them. Before the run.
  void SetPeers(std::span<const std::unique_ptr<CpuDevice>> peers) { peers_ = peers; }
  /// Cuts what runs, drops what waits, and waits for the worker's end.
  void Stop();

  /// What a step or operation threw, once a reply has said kFailed. All that come after it fail.
  std::string failure() const;

 private:
  /// A step or an operation that is not answered yet.
  struct Job {
    bool is_step;
    bool stopped;
    std::uint64_t handle;  ///< of the plan or of the operation
    std::uint32_t step;
  };

  CpuDevice(Mailbox* mailbox, const WallClock* clock, const StepTimeModel* model);

  void HandOver(const DeviceCommand& job);
  /// Marks the job that kAbort or kCancel names, if it is not answered yet.
  void StopJob(const DeviceCommand& command);

  void Work(const std::vector<MakeStepRunner>& models, std::uint64_t loaded);
  absl::Status MakeRunners(const std::vector<MakeStepRunner>& models, std::uint64_t loaded);
  /// These two are false when the device is to end.
  bool AwaitCommands();
  bool BeginJob();
  void EndJob();
  /// `commands` end with a job: does it, and answers.
  void RunJob(std::span<const DeviceCommand> commands);
  void Take(const DeviceCommand& command);
  /// False: it was stopped.
  bool Do(const DeviceCommand& job);
  bool Copy(const DeviceCommand& copy);
  StepRunner& runner(std::uint32_t model);
  StopCheck stop_check() const;
  /// What the model says of the step alone, as it is measured: without the host's part. -1: not of
  /// this step.
  std::int64_t PredictNs(const DeviceCommand& step, bool whole);
  void SetFailure(const std::string& what);

  Mailbox* mailbox_;
  const WallClock* clock_;
  const StepTimeModel* model_;
  DeviceInfo info_;
  std::span<const std::unique_ptr<CpuDevice>> peers_;

  // Policy thread.
  DeviceId id_;
  CommandRing* commands_ = nullptr;
  std::vector<DeviceCommand> gathered_;  ///< up to the next job

  // Worker; other workers find the runners' KV by them.
  std::vector<std::unique_ptr<StepRunner>> runners_;  ///< by model; all made at the start
  std::vector<DeviceCommand> batch_;
  std::vector<DeviceCommand> entries_;                  ///< of the step that follows
  std::vector<std::uint32_t> from_blocks_, to_blocks_;  ///< of the copy that follows
  std::optional<StepBuilder> builder_;                  ///< once the runners are made
  bool failed_ = false;

  std::atomic<bool> stop_ = false;  ///< the job that runs is to end; written under mutex_

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<DeviceCommand> handed_over_;  ///< with a job at its end; empty: none
  std::vector<Job> jobs_;                   ///< in their order; the first may be running
  bool started_ = false;
  bool ending_ = false;
  absl::Status start_status_;
  std::string failure_;

  std::thread worker_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_CPU_DEVICE_H_
