// RunQueue: one run of a queue of tests/support/queueing_systems.h, with the policy and the device
// that make it one. It goes through Simulate like any other run; nothing of the runtime is
// bypassed. Deterministic given the seed; runs may go on in several threads at once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_QUEUEING_RUN_H_
#define SCHEDTWIN_TESTS_SUPPORT_QUEUEING_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "policies/runtime/check.h"
#include "sim/simulate.h"
#include "tests/support/batch_means.h"
#include "tests/support/priority_fifo.h"
#include "tests/support/queueing_source.h"
#include "tests/support/queueing_systems.h"

namespace schedtwin::queueing {

/// A shipped policy with settings of ours, which are sound.
inline std::unique_ptr<Policy> Shipped(
    const std::string& name, const std::vector<std::pair<std::string, std::string>>& settings) {
  const PolicyInfo* info = FindPolicy(name);
  Parameters parameters;
  std::string error;
  SCHEDTWIN_CHECK(info != nullptr &&
                  Parameters::Parse(info->parameters, settings, &parameters, &error));
  return info->create(parameters);
}

/// What a run takes beside its traffic.
struct Station {
  StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(1));
  DeviceInfo device;
  std::uint32_t devices = 1;
  std::unique_ptr<Policy> policy;
  Sizing sizing;

  explicit Station(const Queue& queue) {
    switch (queue.discipline) {
      case Discipline::kFifo:
        devices = queue.width;
        policy = Shipped("fifo", {});
        break;
      case Discipline::kBulk:  // a step takes as long whatever its size; a request counts as one
        model = StepTimeModel::Linear(Duration::Nanos(kServiceNs), Duration::Nanos(0));
        policy = Shipped("dynamic_batch", {{"max_batch_size", std::to_string(queue.width)},
                                           {"max_queue_delay", "0ms"}});
        sizing.mean = 1;
        break;
      case Discipline::kProcessorSharing:  // a step takes a quantum for each request; all fit
        model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(kServiceNs / kQuanta));
        device.total_blocks = 100'000;
        device.block_tokens = 1'024;
        policy =
            Shipped("vllm_v1", {{"max_num_seqs", "100000"}, {"max_num_batched_tokens", "100000"}});
        sizing = {ModelKind::kDecoder, kQuanta};
        break;
      case Discipline::kPriority:
        policy = std::make_unique<PriorityFifo>(queue.classes.size());
        break;
    }
    device.kind = sizing.kind;
  }
};

/// What came of a run: an interval for each class, or why there is none.
struct QueueRun {
  std::vector<Interval> classes;
  std::string error;
};

/// One run of the queue at this load.
inline QueueRun RunQueue(const Queue& queue, double load, std::uint64_t seed, std::uint64_t batch) {
  Station station(queue);
  SimSetup setup;
  setup.model = &station.model;
  setup.device = station.device;
  setup.devices = station.devices;
  const std::uint64_t count = BatchMeans::Requests(batch);
  QueueingSource source(seed, count, Rate(queue, load), station.sizing, queue.classes);
  BatchMeans means({.measure = MeasureOf(queue),
                    .classes = queue.classes.size(),
                    .batch = batch,
                    .service_ns = kServiceNs,
                    .service_size = static_cast<double>(station.sizing.mean),
                    .servers = static_cast<double>(queue.width),
                    .rate = Rate(queue, load)});
  RequestSource* const sources[] = {&source};
  const RunSummary summary = Simulate(setup, station.policy.get(), sources, &means, {});
  QueueRun run;
  if (summary.result != RunResult::kFinished || summary.ended[0] != count) {
    run.error = "not all requests were completed: " + summary.detail;
    return run;
  }
  for (std::size_t k = 0; k < queue.classes.size(); ++k) {
    run.classes.push_back(means.Get(k));
  }
  return run;
}

/// The intervals of class `k`. REQUIRES: no run has an error.
inline std::vector<Interval> ClassOf(const std::vector<QueueRun>& runs, std::size_t k) {
  std::vector<Interval> intervals;
  for (const QueueRun& run : runs) intervals.push_back(run.classes.at(k));
  return intervals;
}

}  // namespace schedtwin::queueing

#endif  // SCHEDTWIN_TESTS_SUPPORT_QUEUEING_RUN_H_
