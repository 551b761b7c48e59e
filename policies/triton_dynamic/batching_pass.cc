#include "policies/triton_dynamic/batching_pass.h"

#include <algorithm>

namespace schedtwin::triton {
namespace {

constexpr std::int64_t kMicrosecond = 1'000;

struct Scan {
  std::size_t count = 0;
  std::uint32_t units = 0;
  Time oldest_enqueue = Time::Infinite();
  Time closest_timeout = Time::Infinite();
  bool full = false;  ///< the next request does not go with these, whatever comes
  bool marked = false;
  std::size_t marked_count = 0;
  std::uint32_t marked_units = 0;

  void Mark() {
    marked = true;
    marked_count = count;
    marked_units = units;
  }
  /// Upstream takes a mark in front of the first request for none.
  bool has_mark(bool fixed) const { return fixed ? marked : marked_units > 0; }
};

bool Preferred(const Settings& settings, std::uint32_t units) {
  return std::binary_search(settings.preferred.begin(), settings.preferred.end(), units);
}

Scan ScanQueues(const Settings& settings, const Payload& payload, Time now, LevelQueues* queues,
                std::vector<Expired>* expired, PassResult* result) {
  Scan scan;
  LevelQueues::Cursor cursor;
  std::uint32_t shape = payload.shape;
  while (const Queued* next = queues->Get(&cursor, now, expired)) {
    if (payload.entries.empty() && scan.count == 0) {
      shape = next->shape;  // the first of a batch passes no test
    } else {
      const std::uint64_t units = std::uint64_t{payload.units} + scan.units + next->units;
      if (units > settings.preferred.back() && !scan.has_mark(settings.fixed)) {
        scan.Mark();
        result->saturated = true;
      }
      if (units > settings.max_batch_size) {
        scan.full = true;
        break;
      }
      if (settings.enforce_equal_shape && next->shape != shape) {
        result->misfit = true;
        scan.full = true;
        break;
      }
    }
    scan.units += next->units;
    ++scan.count;
    scan.oldest_enqueue = std::min(scan.oldest_enqueue, next->enqueued);
    scan.closest_timeout = std::min(scan.closest_timeout, next->timeout);
    ++cursor.index;
    if (Preferred(settings, payload.units + scan.units)) scan.Mark();
  }
  return scan;
}

/// Upstream waits for whole microseconds and takes a wait of none for "now".
Duration WaitFor(const Settings& settings, const Scan& scan, Time now) {
  Duration wait = settings.max_queue_delay - (now - scan.oldest_enqueue);
  if (!scan.closest_timeout.infinite()) wait = std::min(wait, scan.closest_timeout - now);
  return settings.fixed ? wait : Duration::Nanos(wait.ns() / kMicrosecond * kMicrosecond);
}

}  // namespace

PassResult RunBatchingPass(const Settings& settings, const Payload& payload, Time now,
                           LevelQueues* queues, std::vector<Expired>* expired) {
  PassResult result;
  const Scan scan = ScanQueues(settings, payload, now, queues, expired, &result);
  const bool no_delay = settings.max_queue_delay == Duration();
  const bool late =
      !no_delay && scan.count > 0 && now - scan.oldest_enqueue >= settings.max_queue_delay;
  if (scan.has_mark(settings.fixed) && !late) {
    result.saturated |= no_delay;
    result.take = scan.marked_count;
    return result;
  }
  if (scan.count == 0) return result;
  result.take = scan.count;
  const std::uint32_t units = payload.units + scan.units;
  if (scan.full || units >= settings.preferred.back()) {
    result.saturated = true;
    return result;
  }
  if (late || no_delay) return result;

  const auto next = std::upper_bound(settings.preferred.begin(), settings.preferred.end(), units);
  result.has_next_preferred = true;
  result.next_preferred_units =
      (next == settings.preferred.end() ? settings.preferred.front() : *next) - payload.units;
  const bool grows =
      !result.saturated && !payload.entries.empty() && !Preferred(settings, payload.units);
  if (grows) return result;
  result.wait = WaitFor(settings, scan, now);
  if (result.wait > Duration()) result.take = 0;
  return result;
}

}  // namespace schedtwin::triton
