#include "exec/device_probe.h"

#include <string>
#include <utility>

#include "policies/runtime/check.h"

namespace schedtwin {

DeviceProbe::DeviceProbe(Wait wait) : time_source_(&clock_, &mailbox_, wait) {}

absl::StatusOr<std::unique_ptr<DeviceProbe>> DeviceProbe::Start(const MakeStepRunner& make,
                                                                Wait wait) {
  std::unique_ptr<DeviceProbe> probe(new DeviceProbe(wait));
  auto device = CpuDevice::Start({make}, /*loaded=*/1, &probe->mailbox_, &probe->clock_, nullptr);
  if (!device.ok()) return device.status();
  probe->device_ = *std::move(device);
  probe->sender_.emplace(probe->device_.get(), &probe->now_);
  probe->device_->Attach({0}, probe->sender_->ring(), probe.get());
  return probe;
}

void DeviceProbe::Post(const DeviceReply& reply, Time) {
  reply_ = reply;
  answered_ = true;
}

absl::StatusOr<DeviceReply> DeviceProbe::RunStep(std::uint32_t entries,
                                                 std::uint32_t padding_tokens) {
  sender_->Send({.kind = CommandKind::kStep,
                 .tokens = padding_tokens,
                 .plan = {steps_++, 0},
                 .entries = entries});
  answered_ = false;
  sender_->Notify();
  while (!answered_) time_source_.Advance(Time::Infinite());
  if (reply_.status != ReplyStatus::kOk) return absl::AbortedError(device_->failure());
  return reply_;
}

void DeviceProbe::LayOut(std::span<const ProbeEntry> entries) {
  const DeviceInfo& info = device_->info();
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    sender_->Send({.kind = CommandKind::kEnd, .request = i});
    const std::uint32_t tokens = entries[i].context_tokens + entries[i].tokens;
    for (std::uint32_t k = 0; k * info.block_tokens < tokens; ++k) {
      SCHEDTWIN_CHECK(next < info.total_blocks);
      sender_->Send(
          {.kind = CommandKind::kBlock, .request = i, .tokens = next++, .context_tokens = k});
    }
  }
  // It samples, as most steps of a run do: what the LM head's weights leave of the layers' in the
  // cache is part of what a step finds.
  sender_->Send({.kind = CommandKind::kEntry, .samples = true, .request = 0, .tokens = 1});
}

absl::StatusOr<ProbeTimes> DeviceProbe::Run(std::span<const ProbeEntry> entries,
                                            std::uint32_t padding_tokens) {
  if (const std::string failure = device_->failure(); !failure.empty()) {
    return absl::AbortedError(failure);
  }
  if (device_->info().total_blocks > 0) {
    LayOut(entries);
    const absl::StatusOr<DeviceReply> laid_out = RunStep(1, 0);
    if (!laid_out.ok()) return laid_out.status();
  }
  const Time handed_over = clock_.Now();
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    sender_->Send({.kind = CommandKind::kEntry,
                   .decode = entries[i].decode,
                   .samples = entries[i].samples,
                   .request = i,
                   .tokens = entries[i].tokens,
                   .context_tokens = entries[i].context_tokens});
  }
  const absl::StatusOr<DeviceReply> reply =
      RunStep(static_cast<std::uint32_t>(entries.size()), padding_tokens);
  if (!reply.ok()) return reply.status();
  return ProbeTimes{.wall_ns = (reply->end - reply->start).ns(),
                    .cpu_ns = reply->compute_ns,
                    .round_trip_ns = (clock_.Now() - handed_over).ns()};
}

}  // namespace schedtwin
