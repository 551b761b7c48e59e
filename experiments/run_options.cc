#include "experiments/run_options.h"

#include <limits>
#include <optional>
#include <utility>

#include "experiments/fault_text.h"
#include "experiments/read_field.h"
#include "experiments/store/store.h"
#include "experiments/text.h"
#include "policies/api/parameters.h"

namespace schedtwin {
namespace {

constexpr std::int64_t kMostQueueDepth = 1024;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;

absl::Status NoKvCache(const Setting& setting, const DeviceInfo& device) {
  return Invalid(Cat(setting.where, ": ", setting.path, " is for models with a KV cache, which ",
                     device.name, " has none of"));
}

// `real`: there are as many blocks as the device has memory for, and no more.
absl::Status ReadKvBlocks(const Experiment& experiment, bool real, DeviceInfo* device) {
  const Setting* const setting = experiment.Find("kv_blocks");
  if (setting == nullptr) return absl::OkStatus();
  if (device->total_blocks == 0) return NoKvCache(*setting, *device);
  std::int64_t blocks = 0;
  const absl::Status status =
      ReadInteger(experiment, "kv_blocks", 1, real ? device->total_blocks : kMostBlocks, &blocks);
  if (!status.ok()) return status;
  device->total_blocks = static_cast<std::uint32_t>(blocks);
  return absl::OkStatus();
}

absl::Status ReadDevice(const Experiment& experiment, bool real, DeviceInfo* device) {
  std::int64_t depth = device->queue_depth;
  std::int64_t host_blocks = device->host_blocks;
  absl::Status status = ReadKvBlocks(experiment, real, device);
  if (status.ok()) status = ReadInteger(experiment, "queue_depth", 1, kMostQueueDepth, &depth);
  if (status.ok()) {
    status = ReadInteger(experiment, "host_blocks", 0, kMostBlocks, &host_blocks);
  }
  if (!status.ok()) return status;
  const Setting* const setting = experiment.Find("host_blocks");
  if (setting != nullptr && host_blocks > 0) {
    if (device->total_blocks == 0) return NoKvCache(*setting, *device);
    if (!device->host_link.exists() || device->block_bytes == 0) {
      return Invalid(Cat(setting->where,
                         ": nothing could be swapped to the host tier: the profile has no "
                         "memory.block_bytes or no links.host"));
    }
  }
  device->queue_depth = static_cast<std::uint32_t>(depth);
  device->host_blocks = static_cast<std::uint32_t>(host_blocks);
  return absl::OkStatus();
}

absl::StatusOr<Fault> ParseFault(const FaultText& text, std::uint32_t devices) {
  Fault fault;
  const std::optional<std::int64_t> device = ParseInteger(text.device);
  if (!device.has_value() || *device < 0 || *device >= devices) {
    return Invalid(Cat("device cannot be '", text.device, "'; it is a number from 0 to ",
                       devices - 1, " (--devices)"));
  }
  fault.device = {static_cast<std::uint32_t>(*device)};
  Duration at, until;
  for (const auto& [name, written, to] :
       {std::tuple("at", &text.at, &at), std::tuple("until", &text.until, &until)}) {
    if (to == &until && written->empty()) continue;
    if (!ParseDuration(*written, to)) {
      return Invalid(Cat(name, " cannot be '", *written,
                         "'; it is the time since the start with its unit, such as 10s"));
    }
  }
  fault.at = Time() + at;
  if (!text.until.empty()) {
    if (until <= at) return Invalid(Cat("until, ", text.until, ", is not after ", text.at));
    fault.until = Time() + until;
  }
  fault.loses_requests = text.loses;
  return fault;
}

absl::Status ReadFaults(const Experiment& experiment, std::uint32_t devices,
                        std::vector<Fault>* out) {
  const Setting* const setting = experiment.Find("fault");
  if (setting == nullptr) return absl::OkStatus();
  for (const FaultText& text : SplitFaults(setting->text)) {
    const absl::StatusOr<Fault> fault = ParseFault(text, devices);
    if (!fault.ok()) {
      return Invalid(Cat(setting->where, ": fault '", JoinFault(text),
                         "': ", std::string(fault.status().message()),
                         "; write it as DEVICE@AT[-UNTIL][,loses]"));
    }
    out->push_back(*fault);
  }
  return absl::OkStatus();
}

absl::Status ReadReports(const Experiment& experiment, RunOptions* out) {
  std::optional<Duration> interval, delay;
  absl::Status status = ReadBoundedDuration(experiment, "report_interval", &interval);
  if (status.ok()) status = ReadBoundedDuration(experiment, "report_delay", &delay);
  if (!status.ok()) return status;
  if (delay.has_value() && !interval.has_value()) {
    return Invalid(Cat(experiment.Find("report_delay")->where,
                       ": a delay of reports that nobody writes; set report_interval, too"));
  }
  out->report_interval = interval.value_or(Duration());
  out->report_delay = delay.value_or(Duration());
  return absl::OkStatus();
}

absl::Status ReadCache(const Experiment& experiment, const DeviceInfo& device, RunOptions* out) {
  absl::Status status = ReadSwitch(experiment, "prefix_cache", &out->prefix_cache);
  if (status.ok()) status = ReadSwitch(experiment, "isolate_tenants", &out->isolate_tenants);
  if (!status.ok()) return status;
  if (out->prefix_cache && device.total_blocks == 0) {
    return NoKvCache(*experiment.Find("prefix_cache"), device);
  }
  if (out->isolate_tenants && !out->prefix_cache) {
    return Invalid(Cat(experiment.Find("isolate_tenants")->where,
                       ": tenants are isolated in the prefix cache; set prefix_cache, too"));
  }
  return absl::OkStatus();
}

// What a real run has of its own: how long its decisions take, and the order of what happens.
absl::Status CheckSimulatedOnly(const Experiment& experiment) {
  for (const char* path : {"decision_cost", "tie_seed"}) {
    if (const Setting* const setting = experiment.Find(path); setting != nullptr) {
      return Invalid(Cat(setting->where, ": ", path, " is for simulated runs; a real one has ",
                         "its own; leave it out"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRunOptions(const Experiment& experiment, bool real, std::uint32_t devices,
                            DeviceInfo* device, RunOptions* out) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  absl::Status status = real ? CheckSimulatedOnly(experiment) : absl::OkStatus();
  std::int64_t tie_seed = 0;
  std::int64_t at_start = 0;
  if (status.ok()) status = ReadDevice(experiment, real, device);
  if (status.ok()) status = ReadInteger(experiment, "tie_seed", 0, kMost, &tie_seed);
  if (status.ok()) status = ReadInteger(experiment, "devices_at_start", 1, devices, &at_start);
  if (status.ok()) status = ReadCache(experiment, *device, out);
  if (status.ok()) status = ReadReports(experiment, out);
  if (status.ok()) status = ReadFaults(experiment, devices, &out->faults);
  if (status.ok()) status = ReadSwitch(experiment, "oracle", &out->oracle_granted);
  if (!status.ok()) return status;
  out->tie_seed = static_cast<std::uint64_t>(tie_seed);
  out->devices_at_start = static_cast<std::uint32_t>(at_start);
  out->length_predictor = experiment.TextOr("length_predictor", "");
  return absl::OkStatus();
}

absl::StatusOr<DecisionsOfRun> ReadMeasuredDecisions(const std::string& db, std::string_view run) {
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::OpenForReading(db);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::int64_t> id = (*store)->Resolve(run);
  if (!id.ok()) return id.status();
  absl::StatusOr<Statement> read = (*store)->database().Prepare(
      "SELECT decision_ns FROM published_steps WHERE run_id = ?1 AND decision_ns IS NOT NULL "
      "ORDER BY sequence");
  if (!read.ok()) return read.status();
  read->Bind(1, *id);
  MeasuredDecisions decisions;
  const absl::Status status = ForEachRow(
      *read, [&](const Statement& row) { decisions.push_back(Duration::Nanos(row.integer(0))); });
  if (!status.ok()) return status;
  if (decisions.empty()) {
    return absl::NotFoundError(Cat("run ", *id, " in ", db,
                                   " has no measured decisions; `schedtwin exec` measures them, "
                                   "with --record steps or full"));
  }
  return DecisionsOfRun{*id, std::make_shared<const MeasuredDecisions>(std::move(decisions))};
}

}  // namespace schedtwin
