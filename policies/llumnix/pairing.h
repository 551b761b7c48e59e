// Pairing: which instances are to hand a request to which, as the artifact of Llumnix decides: the
// least free with the freest, the next with the next. A function of what is known of them. Owned by
// the policy; its lists are kept between calls, so that nothing is allocated once they are warm.
#ifndef SCHEDTWIN_POLICIES_LLUMNIX_PAIRING_H_
#define SCHEDTWIN_POLICIES_LLUMNIX_PAIRING_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "policies/api/ids.h"
#include "policies/llumnix/freeness.h"

namespace schedtwin {

class Pairing {
 public:
  struct Candidate {
    DeviceId device;
    Freeness freeness;
    bool killed = false;  ///< preempted requests wait there
    bool takes = true;    ///< new requests may go there
  };
  using Pair = std::pair<DeviceId, DeviceId>;  ///< from, to

  /// `threshold`: below it an instance gives, above it it takes. `any_gap`: every pair is good;
  /// else the target must stay above it, and the gap between the two must shrink and not turn
  /// round.
  Pairing(double threshold, bool any_gap) : threshold_(threshold), any_gap_(any_gap) {}

  /// Pairs, the least free source first; of equals the lowest device. Valid until the next call.
  std::span<const Pair> Find(std::span<const Candidate> candidates) {
    sources_.clear();
    targets_.clear();
    pairs_.clear();
    for (const Candidate& candidate : candidates) {
      const double freeness = candidate.freeness.value();
      if (candidate.killed || freeness < threshold_) {
        sources_.push_back(candidate);
      } else if (candidate.takes && freeness > threshold_) {
        targets_.push_back(candidate);
      }
    }
    std::sort(sources_.begin(), sources_.end(), [](const Candidate& a, const Candidate& b) {
      if (b.freeness > a.freeness) return true;
      return !(a.freeness > b.freeness) && a.device < b.device;
    });
    std::sort(targets_.begin(), targets_.end(), [](const Candidate& a, const Candidate& b) {
      if (a.freeness > b.freeness) return true;
      return !(b.freeness > a.freeness) && a.device < b.device;
    });
    for (std::size_t i = 0; i < std::min(sources_.size(), targets_.size()); ++i) {
      if (any_gap_ || Narrows(sources_[i].freeness, targets_[i].freeness)) {
        pairs_.emplace_back(sources_[i].device, targets_[i].device);
      }
    }
    return pairs_;
  }

 private:
  /// The blocks of both are taken as they are; only the number of requests moves.
  bool Narrows(const Freeness& source, const Freeness& target) const {
    if (target.infinite()) return true;
    if (source.infinite()) return false;
    const double after = target.With(1).value();
    const double gap_before = target.value() - source.value();
    const double gap_after = after - source.With(-1).value();
    return after >= threshold_ && gap_after > 0 && gap_after < gap_before;
  }

  double threshold_;
  bool any_gap_;
  std::vector<Candidate> sources_;
  std::vector<Candidate> targets_;
  std::vector<Pair> pairs_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_LLUMNIX_PAIRING_H_
