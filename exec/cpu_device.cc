#include "exec/cpu_device.h"

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "policies/runtime/check.h"

namespace schedtwin {

CpuDevice::CpuDevice(Mailbox* mailbox, const WallClock* clock, const StepTimeModel* model)
    : mailbox_(mailbox), clock_(clock), model_(model) {}

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Start(MakeStepRunner make, Mailbox* mailbox,
                                                            const WallClock* clock,
                                                            const StepTimeModel* model) {
  std::unique_ptr<CpuDevice> device(new CpuDevice(mailbox, clock, model));
  try {
    device->worker_ =
        std::thread([&device = *device, make = std::move(make)] { device.Work(make); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("its thread cannot be started: ") +
                                        error.what());
  }
  std::unique_lock lock(device->mutex_);
  device->changed_.wait(lock, [&] { return device->started_; });
  const absl::Status status = device->start_status_;
  lock.unlock();
  if (!status.ok()) return status;
  return device;
}

CpuDevice::~CpuDevice() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

std::string CpuDevice::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// ---- Policy thread ----

void CpuDevice::Attach(DeviceId id, CommandRing* commands, ReplySink* replies) {
  id_ = id;
  commands_ = commands;
  mailbox_->Connect(replies);
}

void CpuDevice::Notify(Time) {
  commands_->Drain([this](const DeviceCommand& command) {
    gathered_.push_back(command);
    if (command.kind != CommandKind::kStep) return;
    mailbox_->Expect();
    {
      const std::lock_guard lock(mutex_);
      SCHEDTWIN_CHECK(handed_over_.empty());  // one step at a time
      handed_over_.swap(gathered_);
    }
    changed_.notify_all();
  });
}

// ---- Worker ----

void CpuDevice::Work(const MakeStepRunner& make) {
  std::unique_ptr<StepRunner> runner;
  absl::Status status;
  try {
    runner = make();
    info_ = runner->info();
    builder_.emplace(info_.kind);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("there is not enough memory for its weights and KV");
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    start_status_ = status;
    started_ = true;
  }
  changed_.notify_all();
  while (status.ok() && AwaitBatch()) {
    try {
      RunBatch(*runner);
    } catch (const std::bad_alloc&) {
      return Fail("out of memory");
    } catch (const std::exception& error) {
      return Fail(error.what());
    }
  }
}

bool CpuDevice::AwaitBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !handed_over_.empty(); });
  if (ending_) return false;
  batch_.clear();
  batch_.swap(handed_over_);
  return true;
}

void CpuDevice::RunBatch(StepRunner& runner) {
  const DeviceCommand step = batch_.back();
  for (const DeviceCommand& command : batch_) {
    if (command.kind != CommandKind::kStep) runner.Take(command);
  }
  DeviceReply reply = {.device = id_, .plan = step.plan, .step = step.step};
  reply.start = clock_->Now();
  const std::int64_t cpu_before = ThreadCpuNs();
  runner.RunStep(step);
  reply.compute_ns = ThreadCpuNs() - cpu_before;
  reply.end = clock_->Now();
  if (model_ != nullptr) reply.predicted_ns = Predict(step).ns();
  mailbox_->Put(reply);
}

Duration CpuDevice::Predict(const DeviceCommand& step) {
  for (const DeviceCommand& command : batch_) builder_->Take(command);
  return builder_->Predict(step, *model_) - model_->host_overhead();
}

void CpuDevice::Fail(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = what.empty() ? "an error without a name" : what;
  }
  const DeviceCommand& step = batch_.back();
  mailbox_->Put({.status = ReplyStatus::kFailed,
                 .device = id_,
                 .plan = step.plan,
                 .step = step.step,
                 .start = clock_->Now(),
                 .end = clock_->Now()});
}

}  // namespace schedtwin
