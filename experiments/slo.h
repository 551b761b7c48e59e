// Slo: the latency targets of a run's requests. A target that is not set is always met, and so is
// one on a latency that the request does not have (TPOT of a single token). Comparisons are exact,
// in integer nanoseconds. Plain value, header-only; used by the recorders, the CLI and experiment
// files.
#ifndef SCHEDTWIN_EXPERIMENTS_SLO_H_
#define SCHEDTWIN_EXPERIMENTS_SLO_H_

#include <cstdint>
#include <optional>

#include "policies/api/recorder.h"
#include "policies/api/time.h"

namespace schedtwin {

struct Slo {
  std::optional<Duration> ttft;
  std::optional<Duration> tpot;
  std::optional<Duration> e2e;

  bool any() const { return ttft.has_value() || tpot.has_value() || e2e.has_value(); }

  /// REQUIRES: the request completed.
  bool Met(const RequestRecord& r) const {
    if (e2e.has_value() && r.end - r.arrival > *e2e) return false;
    if (ttft.has_value() && r.output_tokens >= 1 && r.first_token - r.arrival > *ttft) return false;
    return !tpot.has_value() || r.output_tokens < 2 || MeetsTpot(r);
  }

 private:
  // By division, for the target times the gaps may be more than 64 bits hold.
  bool MeetsTpot(const RequestRecord& r) const {
    const std::int64_t span = (r.last_token - r.first_token).ns();
    const std::int64_t gaps = static_cast<std::int64_t>(r.output_tokens) - 1;
    return span / gaps < tpot->ns() || (span / gaps == tpot->ns() && span % gaps == 0);
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_SLO_H_
