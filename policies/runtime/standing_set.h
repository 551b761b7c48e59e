// StandingSet: the decode set that a device keeps between steps (vLLM calls it the persistent
// batch). A step costs O(changes), not O(members): contexts are a running sum, finishes sit in a
// wheel by the step that makes the last token, and growth of KV blocks is a histogram over the
// step's number modulo the block size. Members that own blocks ahead wait in a second wheel until
// they start to grow.
//
// Steps are counted twice, submitted and done, so that a queue of steps in flight needs no special
// case. One thread. Counters wrap after 2^32 steps of one device.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_STANDING_SET_H_
#define SCHEDTWIN_POLICIES_RUNTIME_STANDING_SET_H_

#include <cstdint>
#include <vector>

#include "policies/api/request.h"
#include "policies/runtime/digest.h"
#include "policies/runtime/request_table.h"

namespace schedtwin {

/// A token that a step in flight made for a request that has left the set meanwhile.
struct DepartedToken {
  std::uint32_t id;
  bool last;  ///< no further step in flight has the request
};

class StandingSet {
 public:
  /// `clock` is the counters that views read; it outlives this.
  StandingSet(RequestTable* requests, StandingClock* clock, std::uint32_t block_tokens);

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  /// Tokens that the next step attends to, own tokens included.
  std::uint64_t context_tokens() const { return context_sum_ + members_.size(); }
  const std::vector<std::uint32_t>& members() const { return members_; }
  const StandingClock& clock() const { return *clock_; }

  /// Takes in a decoding request that waits; its counters are derived from now on. One whose last
  /// token is already in flight joins too, and makes none here.
  void Join(std::uint32_t id);
  /// Lets a member go and writes its counters back. A step in flight still makes its token.
  void Leave(std::uint32_t id);

  /// Blocks that the next step takes.
  std::uint32_t Growth() const {
    if (block_tokens_ == 0) return 0;
    return histogram_[residue_] + (dormant_ == 0 ? 0 : DormantGrowth());
  }
  /// Calls visit(id) for each member that takes a block in the next step.
  template <class Visit>
  void ForEachGrowing(Visit visit) const {
    for (const std::uint32_t id : members_) {
      const std::uint32_t first = requests_->node(id).growth_step;
      if (block_tokens_ > 0 && clock_->submitted >= first &&
          (clock_->submitted - first) % block_tokens_ == 0) {
        visit(id);
      }
    }
  }
  /// The step in flight was cut and made nothing: those who left while it ran get its promises
  /// back. REQUIRES: one step in flight; no members.
  void OnStepAborted();
  /// Those who left while the step in flight ran.
  template <class Visit>
  void ForEachDeparted(Visit visit) const {
    for (const Departed& gone : departed_) visit(gone.id);
  }
  /// Blocks that a member owns now, those the set has grown for it included.
  std::uint32_t OwnedBlocks(std::uint32_t id) const;

  void OnStepSubmitted() {
    context_sum_ += members_.size();
    if (block_tokens_ > 0) {
      if (dormant_ > 0) StartGrowing(clock_->submitted);
      if (++residue_ == block_tokens_) residue_ = 0;
    }
    ++clock_->submitted;
  }
  /// The oldest step in flight ended. Appends the members whose last token it made to `finished`,
  /// and those who left while it ran to `departed`: their tokens are for the caller to count.
  void OnStepDone(Time end, std::vector<std::uint32_t>* finished,
                  std::vector<DepartedToken>* departed) {
    const std::uint32_t step = clock_->done++;
    token_hash_ += TokenWord(end);
    last_end_ = end;
    if (changes_in_flight_) [[unlikely]]
      SettleChanges(step, departed);
    for (std::uint32_t id = finish_heads_[step % kBuckets]; id != kNil;
         id = requests_->node(id).finish_next) {
      if (requests_->node(id).finish_step == step) finished->push_back(id);
    }
  }

 private:
  struct Departed {
    std::uint32_t id;
    std::uint32_t from;   ///< the first step in flight that has it
    std::uint32_t until;  ///< submitted count when it left
    std::uint8_t epoch;   ///< of the request, then
  };
  struct Joined {
    std::uint32_t id;
    std::uint32_t step;
  };
  static constexpr std::uint32_t kBuckets = 1024;
  static constexpr std::uint32_t kNil = 0xffffffffu;

  /// Members that joined or left while the step `step` was in flight.
  void SettleChanges(std::uint32_t step, std::vector<DepartedToken>* departed);
  void LinkFinish(std::uint32_t id);
  void UnlinkFinish(std::uint32_t id);
  void LinkGrowth(std::uint32_t id);
  void UnlinkGrowth(std::uint32_t id);
  /// Of members whose first growth is in the next step.
  std::uint32_t DormantGrowth() const;
  void StartGrowing(std::uint32_t step);

  RequestTable* requests_;
  StandingClock* clock_;
  std::uint32_t block_tokens_;
  std::uint64_t context_sum_ = 0;
  std::uint64_t token_hash_ = 0;  ///< running sum of TokenWord over the steps done
  Time last_end_;
  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> finish_heads_;
  std::vector<std::uint32_t> growth_heads_;
  std::vector<std::uint32_t> histogram_;  ///< members that grow at steps of this residue
  std::uint32_t dormant_ = 0;             ///< members in the growth wheel
  std::uint32_t residue_ = 0;             ///< of the next step
  bool changes_in_flight_ = false;        ///< one of the two below is not empty
  std::vector<Departed> departed_;
  std::vector<Joined> joined_in_flight_;  ///< whose running hash at the join is not known yet
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_STANDING_SET_H_
