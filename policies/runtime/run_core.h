// RunCore: the state that the parts of one run share: the latched time, requests, plans, what is
// still to happen, journal, counters. Owned by World, which is the only way in from outside.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_RUN_CORE_H_
#define SCHEDTWIN_POLICIES_RUNTIME_RUN_CORE_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "policies/api/recorder.h"
#include "policies/runtime/command_sender.h"
#include "policies/runtime/digest.h"
#include "policies/runtime/event_queue.h"
#include "policies/runtime/journal.h"
#include "policies/runtime/order.h"
#include "policies/runtime/plan_table.h"
#include "policies/runtime/request_table.h"

namespace schedtwin {

/// A source and the one request of it that is pending.
struct SourceState {
  RequestSource* source = nullptr;
  RequestSpec next;
  std::uint64_t yielded = 0;
  bool pending = false;
  bool waiting = false;  ///< it said kLater
  bool dry = false;
};

/// Devices due for their turn at this instant, after everything else: a plan goes on, or a slot is
/// free.
class TurnSet {
 public:
  void Reset(std::uint32_t devices, std::uint64_t tie_seed) {
    due_.assign((devices + 63) / 64, 0);
    slot_free_.assign(devices, 0);
    tie_seed_ = tie_seed;
  }
  void Add(std::uint32_t device, bool slot_free) {
    const std::uint64_t bit = std::uint64_t{1} << (device % 64);
    count_ += (due_[device / 64] & bit) == 0;
    due_[device / 64] |= bit;
    slot_free_[device] |= static_cast<std::uint8_t>(slot_free);
  }
  bool empty() const { return count_ == 0; }
  /// The lowest device that is due (with a tie seed: one that it picks), or false.
  bool Pop(std::uint32_t* device) {
    if (count_ == 0) return false;
    if (tie_seed_ != 0) [[unlikely]]
      return PopShuffled(device);
    for (std::size_t word = 0; word < due_.size(); ++word) {
      if (due_[word] == 0) continue;
      *device = static_cast<std::uint32_t>(64 * word) +
                static_cast<std::uint32_t>(std::countr_zero(due_[word]));
      due_[word] &= due_[word] - 1;
      --count_;
      return true;
    }
    return false;
  }
  /// Whether a slot-free event is owed to the device; it is not any more.
  bool TakeSlotFree(std::uint32_t device) {
    const bool owed = slot_free_[device] != 0;
    slot_free_[device] = 0;
    return owed;
  }

 private:
  bool PopShuffled(std::uint32_t* device);

  std::uint32_t count_ = 0;
  std::uint64_t tie_seed_ = 0;
  std::vector<std::uint64_t> due_;
  std::vector<std::uint8_t> slot_free_;
};

struct RunCore {
  Time now;
  Time thread_free;  ///< when the policy's thread has paid for its decisions
  Time issue;        ///< when what is sent to a device now leaves: the later of the two
  ModelKind kind = ModelKind::kDecoder;
  std::uint32_t models = 1;
  RequestTable requests;
  PlanTable plans;
  EventQueue events;
  Journal journal;
  OutcomeDigest outcome;
  std::vector<CommandSender*> end_listeners;  ///< devices that are told when a request is over
  Recorder* recorder = nullptr;
  RecordWants wants;
  bool prefix_cache = false;  ///< devices with KV keep one
  std::uint64_t tie_seed = 0;
  std::uint64_t sequence = 0;
  std::uint64_t plan_serial = 0;  ///< counts checks of plans
  std::uint32_t timers_armed = 0;
  std::uint32_t cancels_to_come = 0;

  std::vector<SourceState> sources;
  std::uint32_t open_sources = 0;  ///< not dry yet
  std::uint32_t waiting_sources = 0;
  std::vector<std::uint32_t> pull_again;  ///< sources to ask again: one of their requests has ended

  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  Time last_end;
  std::uint64_t progress = 0;    ///< grows whenever a request gets on; stalls are seen by it
  std::uint64_t idle_steps = 0;  ///< and operations, in a row, since a request got on
  std::uint64_t progress_at_step = 0;
  std::uint32_t open_transactions = 0;
  std::uint64_t ended[6] = {};  ///< requests by EndReason

  class Operations* operations = nullptr;
  std::vector<std::uint32_t> to_start;  ///< devices that got a plan in this callback
  TurnSet turns;

  TimerId Push(Time when, EventClass event_class, std::uint32_t entity, const Event& event) {
    return events.Push(when, OrderWord(event_class, entity, sequence++, tie_seed), event);
  }
  void LatchNow(Time time) {
    now = time;
    issue = thread_free > time ? thread_free : time;
  }
  /// The policy's thread takes that long for what it is about to decide.
  void Think(Duration took) {
    thread_free = issue + took;
    issue = thread_free;
  }
  /// A step or an operation has ended.
  void CountIdleStep() {
    idle_steps = progress == progress_at_step ? idle_steps + 1 : 0;
    progress_at_step = progress;
  }
  void PushChange(std::uint32_t device, DeviceChange change) {
    Push(now, EventClass::kDeviceChange, device,
         {EventKind::kDeviceChange, device, static_cast<std::uint64_t>(change)});
  }
  /// Records and digests the end of a request that is on no device any more.
  void EndRequest(std::uint32_t id, EndReason reason, Time end);
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_RUN_CORE_H_
