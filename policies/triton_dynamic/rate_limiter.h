// RateLimiter: which instance executes the next payload, where executions need resources that
// instances share. A free instance is given the first payload and is staged; of the staged ones the
// first in order runs as soon as its resources are free, and holds up those behind it. The order is
// by executions so far times priority, the fewest first, then by number. Owned by the policy;
// deterministic. An instance is a device.
#ifndef SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RATE_LIMITER_H_
#define SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RATE_LIMITER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/triton_dynamic/payloads.h"
#include "policies/triton_dynamic/ring.h"
#include "policies/triton_dynamic/settings.h"

namespace schedtwin::triton {

class RateLimiter {
 public:
  struct Grant {
    std::uint32_t instance = 0;
    PayloadId payload = kNoPayload;
  };

  /// `instances` of them, all away.
  void Start(const Settings& settings, std::size_t instances);

  /// What is granted by a call is appended to `grants`: the instance runs the payload until
  /// Release.
  void Enqueue(PayloadId payload, std::vector<Grant>* grants);
  /// A payload whose execution failed is the first again.
  void PutBack(PayloadId payload, std::vector<Grant>* grants);
  void Release(std::uint32_t instance, std::vector<Grant>* grants);
  /// The instance can execute. Nothing changes if it could before.
  void Join(std::uint32_t instance, std::vector<Grant>* grants);
  /// It can not any more, at least for now; what it had been given goes to another one.
  void Away(std::uint32_t instance, std::vector<Grant>* grants);
  /// Takes back a payload that waits.
  void Remove(PayloadId payload, std::vector<Grant>* grants);

 private:
  enum class State : std::uint8_t { kAway, kAvailable, kStaged, kRunning };
  struct Instance {
    State state = State::kAway;
    std::uint64_t executions = 0;
    std::uint32_t priority = 1;
    std::vector<std::uint32_t> needs;  ///< of each resource
    PayloadId payload = kNoPayload;
  };

  Instance* First(State state);
  void Stage(std::vector<Grant>* grants);
  bool Allocate(std::vector<Grant>* grants);
  void AllocateAfterRelease(std::vector<Grant>* grants);

  bool fixed_ = false;
  std::vector<Instance> instances_;
  std::vector<std::uint32_t> free_;  // of each resource
  Ring<PayloadId> pending_;          // given to no instance yet
};

}  // namespace schedtwin::triton

#endif  // SCHEDTWIN_POLICIES_TRITON_DYNAMIC_RATE_LIMITER_H_
