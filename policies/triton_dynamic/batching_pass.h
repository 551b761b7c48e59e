// BatchingPass: one look of the batcher over its queue: how many of the first requests are to go
// into the open payload now, or how long to wait. Takes nothing from the queue but those whose
// timeout has passed. A function of its arguments.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_BATCHING_PASS_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_BATCHING_PASS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/triton_dynamic/level_queues.h"
#include "policies/triton_dynamic/payloads.h"
#include "policies/triton_dynamic/settings.h"

namespace schedtwin::triton {

struct PassResult {
  std::size_t take = 0;    ///< so many requests from the head of the queue go into the payload
  Duration wait;           ///< above 0: take none, and look again after so long
  bool saturated = false;  ///< nothing more is to go into this payload afterwards
  bool misfit = false;     ///< because the next request has another shape
  /// What the queue should hold before an arrival is worth another look; kept, if none was found.
  bool has_next_preferred = false;
  std::uint32_t next_preferred_units = 0;
};

/// REQUIRES: the queue is not empty. `expired` is added to.
PassResult RunBatchingPass(const Settings& settings, const Payload& payload, Time now,
                           LevelQueues* queues, std::vector<Expired>* expired);

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_BATCHING_PASS_H_
