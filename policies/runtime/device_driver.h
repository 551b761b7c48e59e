// DeviceDriver: runs plans on one device: checks them, keeps their queue, sends steps through the
// port, books what each step did, and decides at each boundary whether the plan goes on. Every
// world shares it; it sees devices only as messages. Driven by World; one thread.
//
// A plan's life: Launch (checked, promised) -> queued (who ends or is preempted is taken out) ->
// StartIfIdle (window, late binding) -> steps -> ended. At a boundary the step is booked at once,
// but the plan goes on only in the device's turn, after all else that is due at that instant, so
// that a policy's cut at the same instant still counts and a plan of many steps does what as many
// plans of one step would have done.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_DEVICE_DRIVER_H_
#define SCHEDTWIN_POLICIES_RUNTIME_DEVICE_DRIVER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/profile/step_time.h"
#include "policies/runtime/command_sender.h"
#include "policies/runtime/device_memory.h"
#include "policies/runtime/device_port.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/standing_set.h"
#include "policies/runtime/world.h"

namespace schedtwin {

class DeviceDriver {
 public:
  /// All pointers outlive this; `view` and `clock` are what policies read.
  DeviceDriver(RunCore* core, const DeviceSetup& setup, ReplySink* replies, DeviceView* view,
               StandingClock* clock, bool identify_blocks);

  const DeviceInfo& info() const { return info_; }
  DeviceMemory& memory() { return memory_; }
  CommandSender& sender() { return sender_; }
  const StandingSet& standing() const { return standing_; }
  DeviceState state() const { return view_->state; }

  // Decisions; World has logged nothing yet, and logs the answer.
  Launched Launch(const Plan& plan);
  Launched Amend(PlanId id, const Plan& replacement);
  Refusal Withdraw(PlanId id);
  Refusal Abort(PlanId id, AbortAt where);
  Refusal Join(std::uint32_t id);
  Refusal Leave(std::uint32_t id);
  /// Takes a request out of the plans that have not started, and their promises back.
  void Unqueue(std::uint32_t id);
  /// Takes a request off the device: out of the queue and the standing set, blocks given back.
  void Detach(std::uint32_t id);

  /// Starts the plan at the head of the queue if nothing runs.
  void StartIfIdle();
  /// OnPlanStarting was delivered.
  void Bind(PlanId id);
  /// Books a step that ended. True if its plan ended too: done() is to be delivered, then Retire
  /// called.
  bool OnStepDone(const DeviceReply& reply);
  /// The device's turn, if its plan goes on: submits the next step, or ends the plan (true, as
  /// above).
  bool Continue();
  bool continuing() const { return continuing_; }
  /// Books a step that was cut and made nothing: its plan has ended, as above.
  void OnStepAborted(const DeviceReply& reply);
  /// The device has failed: ends every plan, dissolves the standing set. What requests have on the
  /// device is the caller's to drop.
  void Fail();
  /// True once after Fail, of the answer to the step that ran then.
  bool TakeLostReply() { return std::exchange(lost_reply_, false); }
  bool lost_reply() const { return lost_reply_; }
  /// What the decision took by which the last plan was launched, if one was in this callback.
  void NoteDecision(Duration took);
  /// True if a plan or a member of the standing set needs the model.
  bool Uses(ModelId model) const;
  /// What ended last, or what dropped plan `id` is to be reported as.
  const PlanDone& done() const { return done_; }
  const PlanDone& DroppedDone(PlanId id);
  void Retire(PlanId id);

  /// The shape of a plan's first step, for predictions; false if there is no model.
  bool Predict(const Plan& plan, Duration* out) const;

 private:
  struct StepInFlight {
    std::uint32_t decode_tokens = 0;
    std::uint64_t decode_context_tokens = 0;
    std::uint32_t prefill_tokens = 0;
    std::uint32_t prefill_requests = 0;
    std::uint32_t units = 0;
  };

  Launched Check(const Plan& plan);
  Launched CheckEntry(const Plan& plan, const Entry& entry, std::uint32_t index);
  /// Of the entry; `model` is that of the entries before it, and becomes its own.
  Refusal CheckModel(const Entry& entry, ModelId* model) const;
  ModelId ModelOf(const Plan& plan) const;
  /// Takes back what the step in flight has promised.
  void RollBackStep(PlanRecord& plan);
  void Promise(PlanRecord& plan);
  void Unpromise(PlanRecord& plan);
  void UnpromiseEntry(const Entry& entry, const EntryMark& mark);
  /// True if a plan behind this one names a request of `entries`.
  bool SharesEntries(PlanId id, std::span<const Entry> entries);
  /// Takes the entries whose request ended or was preempted out of the running plan.
  void DropStale(PlanRecord& plan);
  /// True if the plan is going to submit a step that it has not submitted yet.
  bool GoesOn(const PlanRecord& plan) const;
  bool ReadyToRun(PlanId id, PlanRecord& plan);
  void DropHead(PlanEnd why);
  void Submit(PlanId id, PlanRecord& plan, std::uint32_t standing_growth);
  void SubmitEntries(const PlanRecord& plan);
  bool Decodes(const RequestHot& hot, const Entry& entry, const EntryMark& mark) const;
  StepInFlight ShapeOf(const PlanRecord& plan) const;
  /// Tokens of a step for requests that have left the standing set while it ran.
  void BookDeparted(Time end);
  void BookEntry(const Entry& entry, const EntryMark& mark, const DeviceReply& reply);
  void BookToken(std::uint32_t id, Time end);
  void FinishRequests(Time end);
  void RecordStep(const DeviceReply& reply);
  void EndPlan(PlanEnd why, Time end);
  /// Whether the plans that have been launched leave room for a member more.
  Refusal CheckQueueForJoin(std::uint32_t id, const RequestHot& hot) const;
  /// The running plan takes a token more of each request: contexts in the plans behind it are
  /// longer by one.
  void MoveBehind(const PlanRecord& plan);
  std::uint32_t ListedGrowth(const PlanRecord& plan) const;

  RunCore* core_;
  DeviceInfo info_;
  DeviceView* view_;
  DeviceSetup setup_;
  ModelId standing_model_ = {0};
  bool lost_reply_ = false;
  CommandSender sender_;
  StandingSet standing_;
  DeviceMemory memory_;

  std::vector<PlanId> queue_;      ///< as deep as the device's queue; the head runs, or is next
  PlanRecord* running_ = nullptr;  ///< the head, once it has started
  bool continuing_ = false;
  Time boundary_;  ///< where the plan that may go on stands
  TimerId retry_;
  StepInFlight step_;  ///< kept only for recorders that want steps
  PlanDone done_;
  std::vector<RequestId> finished_;
  std::vector<std::uint32_t> finished_ids_;
  std::vector<DepartedToken> departed_;
  mutable std::vector<PrefillChunk> chunks_;  ///< scratch of Predict
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_DEVICE_DRIVER_H_
