// Plans: what a device is asked to run in one launch, and what came of it. Plain values. A plan
// runs one step, or up to `max_steps`: run-to-completion and iteration-level scheduling differ in
// that number only.
#ifndef SCHEDTWIN_POLICIES_API_PLAN_H_
#define SCHEDTWIN_POLICIES_API_PLAN_H_

#include <cstdint>
#include <span>

#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

/// One request's share of a step: a chunk of its prompt, one token of decode, or its units
/// (one-shot).
struct Entry {
  RequestId request;
  std::uint32_t tokens = 0;
};

/// Why the runtime refused a decision. Logged and counted; append only.
enum class Refusal : std::uint8_t {
  kNone = 0,  ///< accepted
  kUnknownDevice = 1,
  kUnknownRequest = 2,  ///< never arrived, or ended and gone
  kUnknownPlan = 3,     ///< ended, or a stale handle
  kQueueFull = 4,       ///< the device's queue is as deep as it may be
  kEmptyPlan = 5,
  kDuplicateEntry = 6,   ///< named twice, or named and standing
  kWrongTokens = 7,      ///< zero, or more than the request has to compute
  kNoCapacity = 8,       ///< its blocks do not cover the tokens
  kNoMemory = 9,         ///< the standing set's growth, or a reservation, does not fit
  kBatchTooLarge = 10,   ///< more than the device can run in one step
  kNotDecoding = 11,     ///< a multi-step plan or a standing set takes decoding requests only
  kWrongDevice = 12,     ///< the request's blocks are on another device
  kAlreadyStarted = 13,  ///< too late to amend or withdraw
  kBadWindow = 14,       ///< latest before earliest, or before now
  kDeviceDown = 15,
  kNotStanding = 16,
  kEnded = 17,  ///< the request ended earlier in this callback
  kBadArgument = 18,
  kUnsupported = 19,  ///< this world has no mechanics for the action
  kMoving = 20,       ///< an operation moves the request's KV
  kOnHost = 21,       ///< its KV is swapped out
  kNotLoaded = 22,    ///< the device has not loaded the model
  kMixedModels = 23,  ///< one step runs one model
  kNoLink = 24,       ///< there is no way for the bytes
  kUnknownOperation = 25,
  kModelInUse = 26,
  kCount = 27,
};

struct Plan {
  DeviceId device;
  std::span<const Entry> entries;    ///< read during Launch only
  bool standing = false;             ///< also one decode token for each member of the standing set
  std::uint32_t max_steps = 1;       ///< more than 1: decodes only
  std::uint32_t padding_tokens = 0;  ///< computed and thrown away in each step (static batching)
  Time earliest = Time();            ///< starts no earlier
  Time latest = Time::Infinite();    ///< and no later, or is dropped as missed
  bool late_binding = false;         ///< raises OnPlanStarting just before it starts
};

struct Launched {
  PlanId id;
  Refusal refusal = Refusal::kNone;
  std::uint32_t entry = 0;  ///< the entry that was refused, where one was

  bool ok() const { return refusal == Refusal::kNone; }
};

/// Where a running plan may be cut.
enum class AbortAt : std::uint8_t { kNow, kLayer, kStep };

/// Why a plan ended.
enum class PlanEnd : std::uint8_t {
  kSteps,   ///< all of its steps are done
  kFinish,  ///< a request finished
  kCut,     ///< the policy cut it at a step boundary
  kMemory,  ///< the next step's blocks do not fit
  kEmpty,   ///< nothing was left to run when its turn came
  kMissed,  ///< its window passed before it could start
  kAborted,
  kFailed,  ///< the device failed
};

struct PlanDone {
  PlanId id;
  DeviceId device;
  PlanEnd why = PlanEnd::kSteps;
  std::uint32_t steps = 0;  ///< done
  Time start;               ///< of its first step; the end, where none was done
  Time end;
  std::span<const Entry> entries;  ///< as launched, less those taken out; views of them stay valid
                                   ///< in this callback
  std::span<const RequestId>
      finished;  ///< in order of id; views of them stay valid in this callback
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_PLAN_H_
