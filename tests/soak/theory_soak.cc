// The soak lane of the checks against queueing theory: loads at which an interval takes millions of
// requests. `./dev soak` builds it and runs it; seeds run on all cores. Arguments: names of queues,
// to check these alone. Exit status: 0 all hold, 1 one does not, 2 no such queue.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/batch_means.h"
#include "tests/support/queueing_run.h"
#include "tests/support/queueing_systems.h"

namespace schedtwin::queueing {
namespace {

std::vector<QueueRun> RunSeeds(const Queue& queue, std::size_t load) {
  std::vector<QueueRun> runs(kSeeds);
  std::atomic<std::uint64_t> next = 0, done = 0;
  const auto work = [&] {
    for (std::uint64_t i = next++; i < kSeeds; i = next++) {
      runs[i] = RunQueue(queue, kLoads[load], i + 1, queue.batches[load]);
      std::fprintf(stderr, "%s at load %.2f: %d of %d seeds done\n", queue.name.c_str(),
                   kLoads[load], static_cast<int>(++done), static_cast<int>(kSeeds));
    }
  };
  std::vector<std::thread> threads(std::max(1u, std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  return runs;
}

bool Check(const Queue& queue, std::size_t load) {
  const std::vector<QueueRun> runs = RunSeeds(queue, load);
  for (const QueueRun& run : runs) {
    if (run.error.empty()) continue;
    std::printf("%s at load %.2f: %s\n", queue.name.c_str(), kLoads[load], run.error.c_str());
    return false;
  }
  bool all = true;
  for (std::size_t k = 0; k < queue.classes.size(); ++k) {
    const double theory = Theory(queue, kLoads[load], k);
    const SeedsVerdict verdict(ClassOf(runs, k), theory);
    const bool holds = verdict.held >= kMustHold && verdict.widest <= kHalfWidths[load];
    std::printf("%-24s %.2f %12.6f %12.6f %9.3f%% %3d of %d  %s\n", MeasureName(queue, k).c_str(),
                kLoads[load], theory, verdict.mean, 100 * verdict.widest,
                static_cast<int>(verdict.held), static_cast<int>(kSeeds),
                holds ? "holds" : "DOES NOT HOLD");
    all = all && holds;
  }
  std::fflush(stdout);
  return all;
}

int Main(const std::vector<std::string>& names) {
  std::vector<Queue> queues = Queues();
  for (const std::string& name : names) {
    if (std::none_of(queues.begin(), queues.end(),
                     [&](const Queue& queue) { return queue.name == name; })) {
      std::fprintf(stderr, "theory_soak: no queue '%s'; there are:", name.c_str());
      for (const Queue& queue : queues) std::fprintf(stderr, " '%s'", queue.name.c_str());
      std::fprintf(stderr, "\n");
      return 2;
    }
  }
  if (!names.empty()) {
    std::erase_if(queues, [&](const Queue& queue) {
      return std::find(names.begin(), names.end(), queue.name) == names.end();
    });
  }
  std::printf("%-24s %4s %12s %12s %10s %9s\n", "queue", "load", "theory", "mean", "half-width",
              "hold");
  int missed = 0;
  for (const Queue& queue : queues) {
    for (std::size_t load = kEveryDayLoads; load < kLoads.size(); ++load) {
      missed += Check(queue, load) ? 0 : 1;
    }
  }
  std::printf("%s\n", missed == 0 ? "all hold" : "not all hold");
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace schedtwin::queueing

int main(int argc, char** argv) {
  return schedtwin::queueing::Main(std::vector<std::string>(argv + 1, argv + argc));
}
