#include "exec/cpu_device.h"

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "policies/runtime/check.h"

namespace schedtwin {
namespace {

bool IsJob(CommandKind kind) {
  return kind == CommandKind::kStep || kind == CommandKind::kCopy || kind == CommandKind::kLoad ||
         kind == CommandKind::kUnload;
}

}  // namespace

CpuDevice::CpuDevice(Mailbox* mailbox, const WallClock* clock, const StepTimeModel* model)
    : mailbox_(mailbox), clock_(clock), model_(model) {}

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Start(std::vector<MakeStepRunner> models,
                                                            std::uint64_t loaded, Mailbox* mailbox,
                                                            const WallClock* clock,
                                                            const StepTimeModel* model) {
  SCHEDTWIN_CHECK(!models.empty() && models.size() <= 64);
  std::unique_ptr<CpuDevice> device(new CpuDevice(mailbox, clock, model));
  try {
    device->worker_ = std::thread(
        [&device = *device, models = std::move(models), loaded] { device.Work(models, loaded); });
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

CpuDevice::~CpuDevice() { Stop(); }

void CpuDevice::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    stop_.store(true, std::memory_order_relaxed);
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
    if (command.kind == CommandKind::kAbort || command.kind == CommandKind::kCancel) {
      return StopJob(command);
    }
    gathered_.push_back(command);
    if (IsJob(command.kind)) HandOver(command);
  });
}

void CpuDevice::HandOver(const DeviceCommand& job) {
  const bool is_step = job.kind == CommandKind::kStep;
  mailbox_->Expect();
  {
    const std::lock_guard lock(mutex_);
    SCHEDTWIN_CHECK(!is_step || std::none_of(jobs_.begin(), jobs_.end(), [](const Job& waiting) {
      return waiting.is_step;  // one step at a time
    }));
    jobs_.push_back({is_step, false, job.handle(), job.step});
    if (handed_over_.empty()) {
      handed_over_.swap(gathered_);
    } else {
      handed_over_.insert(handed_over_.end(), gathered_.begin(), gathered_.end());
    }
  }
  gathered_.clear();
  changed_.notify_all();
}

void CpuDevice::StopJob(const DeviceCommand& command) {
  const bool is_step = command.kind == CommandKind::kAbort;
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) {
    if (job.is_step != is_step || job.handle != command.handle()) continue;
    if (is_step && job.step != command.step) continue;
    job.stopped = true;
    if (&job == &jobs_.front()) stop_.store(true, std::memory_order_relaxed);
  }
}

// ---- Worker ----

void CpuDevice::Work(const std::vector<MakeStepRunner>& models, std::uint64_t loaded) {
  const absl::Status status = MakeRunners(models, loaded);
  {
    const std::lock_guard lock(mutex_);
    start_status_ = status;
    started_ = true;
  }
  changed_.notify_all();
  while (status.ok() && AwaitCommands()) {
    const std::span<const DeviceCommand> commands = batch_;
    for (std::size_t begin = 0, i = 0; i < commands.size(); ++i) {
      if (!IsJob(commands[i].kind)) continue;
      if (!BeginJob()) return;
      RunJob(commands.subspan(begin, i + 1 - begin));
      begin = i + 1;
    }
  }
}

absl::Status CpuDevice::MakeRunners(const std::vector<MakeStepRunner>& models,
                                    std::uint64_t loaded) {
  try {
    for (const MakeStepRunner& make : models) runners_.push_back(make());
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if ((loaded >> i & 1) != 0) runners_[i]->Load(StopCheck{});
    }
    info_ = runners_[0]->info();
    builder_.emplace(info_.kind);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("there is not enough memory for its weights and KV");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
  return absl::OkStatus();
}

bool CpuDevice::AwaitCommands() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !handed_over_.empty(); });
  if (ending_) return false;
  batch_.clear();
  batch_.swap(handed_over_);
  return true;
}

bool CpuDevice::BeginJob() {
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  stop_.store(jobs_.front().stopped, std::memory_order_relaxed);
  return true;
}

void CpuDevice::EndJob() {
  const std::lock_guard lock(mutex_);
  jobs_.erase(jobs_.begin());
}

void CpuDevice::RunJob(std::span<const DeviceCommand> commands) {
  const DeviceCommand& job = commands.back();
  const bool is_step = job.kind == CommandKind::kStep;
  DeviceReply reply = {.kind = is_step ? ReplyKind::kStepDone : ReplyKind::kOperationDone,
                       .status = ReplyStatus::kFailed,
                       .device = id_,
                       .plan = job.plan,
                       .step = is_step ? job.step : 0};
  reply.start = clock_->Now();
  try {
    if (!failed_) {
      for (const DeviceCommand& command : commands.first(commands.size() - 1)) Take(command);
      if (is_step) {
        for (const DeviceCommand& entry : entries_) runner(job.request).Take(entry);
        entries_.clear();
      }
      reply.start = clock_->Now();
      const std::int64_t cpu_before = ThreadCpuNs();
      const bool whole = Do(job);
      reply.compute_ns = ThreadCpuNs() - cpu_before;
      reply.status = whole ? ReplyStatus::kOk : ReplyStatus::kAborted;
    }
  } catch (const std::bad_alloc&) {
    SetFailure("out of memory");
  } catch (const std::exception& error) {
    SetFailure(error.what());
  }
  reply.end = clock_->Now();
  EndJob();  // what would stop it from here on comes too late
  if (is_step && !failed_) reply.predicted_ns = PredictNs(job, reply.status == ReplyStatus::kOk);
  mailbox_->Put(reply);
}

void CpuDevice::Take(const DeviceCommand& command) {
  if (model_ != nullptr) builder_->Take(command);
  switch (command.kind) {
    case CommandKind::kEntry:
      return entries_.push_back(command);
    case CommandKind::kFrom:
      return from_blocks_.push_back(command.tokens);
    case CommandKind::kTo:
      return to_blocks_.push_back(command.tokens);
    default:
      for (const std::unique_ptr<StepRunner>& runner : runners_) runner->Take(command);
  }
}

StepRunner& CpuDevice::runner(std::uint32_t model) {
  SCHEDTWIN_CHECK(model < runners_.size());
  return *runners_[model];
}

StopCheck CpuDevice::stop_check() const {
  return {[](const void* stop) {
            return static_cast<const std::atomic<bool>*>(stop)->load(std::memory_order_relaxed);
          },
          &stop_};
}

bool CpuDevice::Do(const DeviceCommand& job) {
  switch (job.kind) {
    case CommandKind::kStep:
      return runner(job.request).RunStep(job, stop_check());
    case CommandKind::kLoad:
      return runner(job.request).Load(stop_check());
    case CommandKind::kUnload:
      if (stop_check()()) return false;
      runner(job.request).Unload();
      return true;
    default:
      return Copy(job);
  }
}

bool CpuDevice::Copy(const DeviceCommand& copy) {
  SCHEDTWIN_CHECK(from_blocks_.size() == copy.tokens && to_blocks_.size() == copy.tokens);
  const bool here = copy.context_tokens == id_.value;
  SCHEDTWIN_CHECK(here || copy.context_tokens < peers_.size());
  CpuDevice& source = here ? *this : *peers_[copy.context_tokens];
  KvCopy what = {.request = copy.request,
                 .from_tier = static_cast<Tier>(copy.entries),
                 .to_tier = static_cast<Tier>(copy.step),
                 .from_blocks = from_blocks_,
                 .to_blocks = to_blocks_};
  bool whole = !stop_check()();
  std::size_t holders = 0, sources = 0;
  // No message says which model the request is of; a block is one request's, whatever the model.
  for (std::size_t i = 0; i < runners_.size() && whole; ++i) {
    KvHolder* const to = runners_[i]->kv();
    if (to == nullptr) continue;
    ++holders;
    what.from = source.runners_[i]->kv();
    if (what.from->arena(what.from_tier) == nullptr) continue;
    ++sources;
    whole = to->Copy(what, stop_check());
  }
  if (whole && holders > 0 && sources == 0) {
    throw std::logic_error("a copy from where no KV has ever been");
  }
  from_blocks_.clear();
  to_blocks_.clear();
  return whole;
}

std::int64_t CpuDevice::PredictNs(const DeviceCommand& step, bool whole) {
  if (model_ == nullptr) return -1;
  if (whole && step.request == 0) {
    return (builder_->Predict(step, *model_) - model_->host_overhead()).ns();
  }
  builder_->Close(step);
  return -1;
}

void CpuDevice::SetFailure(const std::string& what) {
  failed_ = true;
  const std::lock_guard lock(mutex_);
  failure_ = what.empty() ? "an error without a name" : what;
}

}  // namespace schedtwin
