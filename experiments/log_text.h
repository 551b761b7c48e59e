// The lines of a run's log in words, for people: "launch plan 3/7 on device 0, up to 4096 steps:
// accepted". A plan is named by its slot and the generation of that slot, as in its handle. Pure
// functions, any thread.
#ifndef SCHEDTWIN_EXPERIMENTS_LOG_TEXT_H_
#define SCHEDTWIN_EXPERIMENTS_LOG_TEXT_H_

#include <string>
#include <string_view>

#include "policies/api/plan.h"
#include "policies/api/recorder.h"

namespace schedtwin {

/// "accepted", "no_memory", ...
std::string_view RefusalName(Refusal refusal);

/// "event" or "decision".
std::string_view LineKindName(const LogRecord& line);

/// What the line says, without its time. Any words are taken; what no run writes is shown as
/// numbers.
std::string LineText(const LogRecord& line);

/// Seconds since the start of the run, to the nanosecond.
std::string LineTimeText(const LogRecord& line);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_LOG_TEXT_H_
