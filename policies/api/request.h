// RequestView: what a policy may read of a request. Reads are inline loads from the table that the
// runtime owns; the true output length is not among them. A view is valid for the callback that got
// it.
//
// Counters include what plans in flight have promised, so that a queue deeper than one needs no
// special case: `known` counts prompt and output tokens, `scheduled` counts tokens whose KV is
// computed or promised. What the next step has to compute is known - scheduled. A queued plan on
// the standing set promises its members nothing until its step is submitted: who joins and leaves
// until then is still open.
#ifndef SCHEDTWIN_POLICIES_API_REQUEST_H_
#define SCHEDTWIN_POLICIES_API_REQUEST_H_

#include <cstdint>

#include "policies/api/ids.h"
#include "policies/api/source.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class ModelKind : std::uint8_t {
  kOneShot,  ///< one launch finishes a request: encoders, CNNs
  kDecoder,  ///< prefill, then one token per step
};

enum class RequestState : std::uint8_t {
  kWaiting,   ///< arrived, or preempted: owns no place in a standing set
  kStanding,  ///< member of its device's standing decode set
  kEnded,
  kMoving,  ///< an operation moves its KV
  kHeld,    ///< finished; its response is held
};

/// Where KV blocks may lie.
enum class Tier : std::uint8_t { kDevice, kHost };

enum class Phase : std::uint8_t { kPrefill, kDecode };

/// The part of a request that decisions read, 40 bytes. Owned and written by the runtime alone. For
/// a member of a standing set the counters are as of the join; views add the set's steps since
/// then.
struct RequestHot {
  std::uint32_t id = Id<struct RequestTag>::kNone;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t known_tokens = 0;
  std::uint32_t scheduled_tokens = 0;
  std::uint32_t output_tokens = 0;  ///< made and seen
  std::uint32_t owned_blocks = 0;
  std::uint32_t joined_step = 0;  ///< the set's submitted steps at the join
  std::uint32_t device = DeviceId::kNone;
  RequestState state = RequestState::kWaiting;
  std::uint8_t epoch = 0;        ///< preemptions so far, modulo 256
  std::uint16_t in_flight = 0;   ///< entries of launched plans that name it
  Tier tier = Tier::kDevice;     ///< where its KV lies
  bool hold = false;             ///< its response is to be held
  std::uint8_t left_behind = 0;  ///< operations that still hold blocks it had when a device failed
};
static_assert(sizeof(RequestHot) == 40);

/// The part that is read once or twice in a request's life.
struct RequestCold {
  RequestSpec spec;  ///< `output_tokens` in it is hidden by the runtime from views
  std::uint32_t max_new_tokens = 0;
  std::uint32_t preemptions = 0;
  RequestId parent;
  DeviceId decode_device;
  ModelId model;  ///< that serves it: the one it asks for, or the variant it was routed to
  std::uint32_t cached_tokens = 0;  ///< of its prompt, adopted from the prefix cache
  std::uint64_t content = 0;        ///< ContentOf(spec), while its segments could be read
};

/// How many steps of a device's standing set were submitted and done; members' counters follow from
/// it.
struct StandingClock {
  std::uint32_t submitted = 0;
  std::uint32_t done = 0;
};

class RequestView {
 public:
  RequestView(const RequestHot& hot, const RequestCold& cold, const StandingClock& clock)
      : hot_(&hot), cold_(&cold), clock_(&clock) {}

  RequestId id() const { return {hot_->id}; }
  RequestState state() const { return hot_->state; }
  DeviceId device() const { return {hot_->device}; }

  std::uint32_t prompt_tokens() const { return hot_->prompt_tokens; }
  std::uint32_t known_tokens() const { return hot_->known_tokens + promised_steps(); }
  std::uint32_t scheduled_tokens() const { return hot_->scheduled_tokens + promised_steps(); }
  std::uint32_t output_tokens() const { return hot_->output_tokens + done_steps(); }
  /// What the next step has to compute to bring the request up to date.
  std::uint32_t next_tokens() const { return hot_->known_tokens - hot_->scheduled_tokens; }
  /// A one-token tail of a prompt is still prefill: only a request past its prompt decodes.
  Phase phase() const {
    return next_tokens() == 1 && hot_->scheduled_tokens >= hot_->prompt_tokens ? Phase::kDecode
                                                                               : Phase::kPrefill;
  }
  bool in_flight() const { return hot_->in_flight > 0; }
  /// KV blocks it owns; of a standing member, those it brought when it joined.
  std::uint32_t owned_blocks() const { return hot_->owned_blocks; }
  Tier tier() const { return hot_->tier; }
  std::uint32_t units() const { return cold_->spec.units; }
  /// Equal for inputs of equal shapes, which one batch can hold without padding.
  std::uint32_t shape() const { return cold_->spec.shape; }

  Time arrival() const { return cold_->spec.arrival; }
  Time deadline() const { return cold_->spec.deadline; }
  /// The most it may make: what the client asked for, or what the model's length leaves.
  std::uint32_t max_new_tokens() const { return cold_->max_new_tokens; }
  std::uint32_t preemptions() const { return cold_->preemptions; }
  std::uint32_t tenant() const { return cold_->spec.tenant; }
  std::uint32_t request_class() const { return cold_->spec.request_class; }
  std::int32_t priority() const { return cold_->spec.priority; }
  ModelId model() const { return cold_->model; }
  std::uint32_t adapter() const { return cold_->spec.adapter; }
  std::uint64_t session() const { return cold_->spec.session; }
  /// The request that it continues; it may have ended. None: it continues none.
  RequestId parent() const { return cold_->parent; }
  /// Where it was routed to for its decoding, if not to device().
  DeviceId decode_device() const { return cold_->decode_device; }
  std::uint32_t cached_tokens() const { return cold_->cached_tokens; }
  /// Names its whole prompt: equal for equal texts. 0: it has text that no other request has.
  std::uint64_t content() const { return cold_->content; }

 private:
  bool standing() const { return hot_->state == RequestState::kStanding; }
  std::uint32_t promised_steps() const {
    return standing() ? clock_->submitted - hot_->joined_step : 0;
  }
  std::uint32_t done_steps() const {
    // A member that joined while a step was in flight has no part in that step.
    return standing() && clock_->done > hot_->joined_step ? clock_->done - hot_->joined_step : 0;
  }

  const RequestHot* hot_;
  const RequestCold* cold_;
  const StandingClock* clock_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_REQUEST_H_
