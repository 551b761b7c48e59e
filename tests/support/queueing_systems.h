// The queues that tests/unit/theory_test.cc and tests/soak/theory_soak.cc hold to theory: their
// laws, their theoretical means, and how long they run for intervals of the stated width. Times are
// in mean service times. Values and pure functions.
#ifndef SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SYSTEMS_H_
#define SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SYSTEMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "policies/runtime/check.h"
#include "tests/support/batch_means.h"
#include "tests/support/queueing_source.h"
#include "tests/support/queueing_theory.h"

namespace schedtwin::queueing {

/// The first ones are for every day, the others for the soak.
inline constexpr std::array<double, 4> kLoads = {0.3, 0.7, 0.9, 0.95};
inline constexpr std::size_t kEveryDayLoads = 2;
/// A 99% interval is at most this share of the mean to either side.
inline constexpr std::array<double, 4> kHalfWidths = {0.02, 0.02, 0.02, 0.03};
/// Of the seeds from 1 to 20 so many intervals hold the mean, at least. With exact 99% intervals 17
/// or fewer would in one queue of a thousand.
inline constexpr std::uint64_t kSeeds = 20;
inline constexpr std::uint64_t kMustHold = 18;

/// A mean service is so many quanta of a shared processor. What that leaves of perfect sharing is
/// in the theory.
inline constexpr std::uint32_t kQuanta = 20;

enum class Discipline : std::uint8_t {
  kFifo,              ///< `fifo`, on `width` devices
  kBulk,              ///< `dynamic_batch` without delay, up to `width` requests at once
  kProcessorSharing,  ///< `vllm_v1`: every request gets a quantum, a token, in every step
  kPriority,          ///< PriorityFifo on one device
};

struct Queue {
  std::string name;
  Discipline discipline = Discipline::kFifo;
  std::uint32_t width = 1;
  std::vector<ServiceClass> classes;
  /// Requests per batch at each of kLoads: what its half-width takes, and long against the
  /// relaxation time.
  std::array<std::uint64_t, 4> batches = {};

  friend void PrintTo(const Queue& queue, std::ostream* out) { *out << queue.name; }
};

inline std::vector<Queue> Queues() {
  using enum Discipline;
  const std::vector<ServiceClass> urgent_and_not = {{0.4, 0.5, Law::kExponential},
                                                    {0.6, 4.0 / 3, Law::kConstant}};
  return {
      {"M/M/1", kFifo, 1, {{1, 1, Law::kExponential}}, {560, 3'100, 47'000, 80'000}},
      {"M/D/1", kFifo, 1, {{1, 1, Law::kConstant}}, {200, 900, 22'500, 39'000}},
      {"M/M/2", kFifo, 2, {{1, 1, Law::kExponential}}, {300, 2'800, 44'000, 78'000}},
      {"M/D/2", kFifo, 2, {{1, 1, Law::kConstant}}, {200, 600, 18'500, 35'000}},
      {"M/M/4", kFifo, 4, {{1, 1, Law::kExponential}}, {200, 1'350, 35'500, 72'000}},
      {"M/D/4", kFifo, 4, {{1, 1, Law::kConstant}}, {200, 300, 11'500, 26'000}},
      {"M/G/1 uniform", kFifo, 1, {{1, 1, Law::kUniform}}, {200, 1'650, 38'000, 61'000}},
      {"M/G/1 two-point", kFifo, 1, {{1, 1, Law::kTwoPoint}}, {430, 3'200, 42'500, 72'000}},
      {"M/G/1 hyperexp",
       kFifo,
       1,
       {{1, 1, Law::kHyperexponential}},
       {1'550, 7'300, 91'000, 118'000}},
      {"M/D[1,4]/1", kBulk, 4, {{1, 1, Law::kConstant}}, {200, 300, 8'000, 21'000}},
      {"M/M/1-PS", kProcessorSharing, 1, {{1, 1, Law::kExponential}}, {560, 3'100, 47'000, 80'000}},
      {"M/G/1-PS uniform",
       kProcessorSharing,
       1,
       {{1, 1, Law::kUniform}},
       {300, 2'450, 42'500, 66'000}},
      {"M/G/1 priority", kPriority, 1, urgent_and_not, {2'900, 5'200, 47'000, 64'000}},
  };
}

/// What is compared, for messages: the mean of a class where there are several.
inline std::string MeasureName(const Queue& queue, std::size_t k) {
  return queue.classes.size() == 1 ? queue.name : queue.name + " " + std::to_string(k);
}

/// Service times in quanta, as QueueingSource draws them.
inline std::vector<double> QuantaLaw(Law law) {
  if (law == Law::kUniform) {
    std::vector<double> probability(2 * kQuanta, 1.0 / (2 * kQuanta - 1));
    probability[0] = 0;
    return probability;
  }
  SCHEDTWIN_CHECK(law == Law::kExponential);
  std::vector<double> probability(kQuanta * 40);
  double left = 1;
  for (std::size_t k = 1; k < probability.size(); ++k) {
    probability[k] = left / kQuanta;
    left -= probability[k];
  }
  return probability;
}

/// Arrivals per mean service time.
inline double Rate(const Queue& queue, double load) { return load * queue.width; }

/// What has a theoretical mean: the wait of each class under priorities, else the time in system.
inline BatchMeans::Measure MeasureOf(const Queue& queue) {
  return queue.discipline == Discipline::kPriority ? BatchMeans::Measure::kWait
                                                   : BatchMeans::Measure::kTimeInSystem;
}

/// The theoretical mean for class `k`.
inline double Theory(const Queue& queue, double load, std::size_t k) {
  const auto width = static_cast<int>(queue.width);
  const Law law = queue.classes[k].law;
  switch (queue.discipline) {
    case Discipline::kFifo:
      if (width == 1) return 1 + PollaczekKhinchineWait(load, SecondMoment(law));
      return 1 + (law == Law::kConstant ? CrommelinWait(width, load) : ErlangWait(width, load));
    case Discipline::kBulk:
      return 1 + BulkServiceWait(width, load);
    case Discipline::kProcessorSharing:
      return SteppedSharingTime(QuantaLaw(law), load);
    case Discipline::kPriority: {
      std::vector<PriorityClass> classes;
      for (const ServiceClass& service : queue.classes) {
        classes.push_back({load * service.share, service.mean,
                           service.mean * service.mean * SecondMoment(service.law)});
      }
      return CobhamWait(classes, k);
    }
  }
  return 0;
}

}  // namespace schedtwin::queueing

#endif  // SCHEDTWIN_TESTS_SUPPORT_QUEUEING_SYSTEMS_H_
