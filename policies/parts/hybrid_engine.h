// HybridEngine: one device that serves online requests first, and offline ones with what time the
// online ones leave: offline work is added to a step while its predicted time stays within a
// budget. Memory likewise: KV of offline requests gives way to online ones. Decodes are listed, one
// step to a plan, since batches change at every step. The policy passes events on, puts offline
// arrivals into the queue, and owns both; the queue, whose order is the policy's, must outlive the
// engine. One thread.
//
// At a step boundary:
//   1. running online requests in order of admission; then waiting ones, first come first served,
//      each when all of its known tokens have room. Short of blocks: offline KV goes, the last
//      admitted first; then the last online request is recomputed, and nobody is admitted. If all
//      that is missing is on its way, no step of offline work alone is begun meanwhile.
//   2. offline decodes in order of admission, as many as the budget takes
//   3. KV in the host tier is brought back in that order, beside the steps, where it fits
//   4. offline prompts: those begun, then those queued, each when all of its known tokens have
//      room, the chunk as long as the budget takes; none is begun while KV in the host tier waits
//      for room, or in a step for which some was put out
#ifndef SCHEDTWIN_POLICIES_PARTS_HYBRID_ENGINE_H_
#define SCHEDTWIN_POLICIES_PARTS_HYBRID_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policies/api/policy.h"
#include "policies/parts/engine_queue.h"
#include "policies/parts/offline_kv.h"
#include "policies/parts/request_queue.h"
#include "policies/parts/step_predictor.h"
#include "policies/parts/step_sizer.h"

namespace schedtwin {

class HybridEngine {
 public:
  HybridEngine(const Context& context, DeviceId device, const HybridRules& rules,
               OfflineKvMode kv_mode, const StepPredictor& predictor, EngineQueue* offline)
      : device_(device),
        rules_(rules),
        kv_(context, device, kv_mode),
        sizer_(device, rules, predictor),
        queued_(offline) {}

  StepPredictor& predictor() { return sizer_.predictor(); }
  /// In flight; none: the device waits.
  PlanId plan() const { return plan_; }
  bool offline_only() const { return plan_.valid() && online_entries_ == 0; }
  /// That the step in flight has to go; none: not known.
  std::optional<Duration> PredictedRest(Time now) const {
    if (!predicted_.has_value()) return std::nullopt;
    return std::max(Duration(), launched_ + *predicted_ - now);
  }

  void AddOnline(Context& context, RequestId request) {
    waiting_.PushBack(request);
    Wake(context);
  }
  /// Something may be possible now that was not.
  void Wake(Context& context) const {
    if (!plan_.valid()) context.actions().Poke(device_);
  }

  /// False: it is not here.
  bool Remove(Context& context, RequestId request) {
    const auto is_it = [request](const OfflineJob& job) { return job.request == request; };
    if (!waiting_.Remove(request) && std::erase(running_, request) == 0 &&
        std::erase_if(jobs_, is_it) == 0 && !queued_->Remove(context, request)) {
      return false;
    }
    Wake(context);
    return true;
  }

  /// They wait for the device to come back, and are computed again in the order they were in.
  void OnFailed(Context& context) {
    waiting_.PutBack(&running_);
    for (; !jobs_.empty(); jobs_.pop_back()) queued_->PutBack(context, jobs_.back().request);
  }

  void OnPlanDone(Context& context, const PlanDone& done) {
    plan_ = PlanId{};
    if (done.steps == 1) predictor().OnMeasured(done.end - done.start);
    for (const RequestId finished : done.finished) {
      std::erase(running_, finished);
      std::erase_if(jobs_, [finished](const OfflineJob& job) { return job.request == finished; });
    }
    if (!context.device(done.device).up() || waits_for_copy_) return;
    for (OfflineJob& job : jobs_) kv_.Checkpoint(context, &job);
  }

  void OnOperationDone(Context& context, const OperationDone& done) {
    for (OfflineJob& job : jobs_) {
      if (job.request != done.request) continue;
      kv_.OnDone(context, done, &job);
      const bool in_flight = context.request(job.request).in_flight();
      if (!waits_for_copy_ && !in_flight) kv_.Checkpoint(context, &job);
    }
    Wake(context);
  }

  void OnSlotFree(Context& context) {
    if (plan_.valid()) return;
    const DeviceView& device = context.device(device_);
    entries_.clear();
    ++step_;
    made_room_ = waits_for_copy_ = false;
    tokens_left_ = device.max_step_tokens > 0 ? std::min(rules_.max_tokens, device.max_step_tokens)
                                              : rules_.max_tokens;
    RunOnline(context);
    if (!online_short_) AdmitOnline(context);
    online_entries_ = entries_.size();
    if (entries_.empty() && waits_for_copy_) return;
    sizer_.Begin(/*online_work=*/online_entries_ > 0);
    RunOfflineDecodes(context);
    const bool all_back = BringBack(context);
    RunOfflinePrompts(context, all_back && !made_room_);
    Launch(context);
  }

 private:
  // ---- Memory ----

  std::uint32_t Blocks(const Context& context, std::uint32_t tokens) const {
    const DeviceView& device = context.device(device_);
    return device.total_blocks == 0 ? 0 : BlocksFor(tokens, device.block_tokens);
  }
  std::uint32_t MissingBlocks(const Context& context, const RequestView& request,
                              std::uint32_t tokens) const {
    const std::uint32_t needed = Blocks(context, request.scheduled_tokens() + tokens);
    return needed - std::min(needed, request.owned_blocks());
  }
  /// What a request that owns nothing has to take for its first tokens, `hit` of them cached.
  std::uint32_t BlocksToBegin(Context& context, RequestId request, std::uint32_t hit) const {
    const std::uint32_t needed = Blocks(context, context.request(request).next_tokens());
    if (hit == 0) return needed;
    const std::uint32_t shared = hit / context.device(device_).block_tokens;
    return needed - (shared - context.cache(device_).HitFreeBlocks(request));
  }
  /// Puts offline KV out, of the last admitted first, until so many blocks are free; spares the
  /// first `spared` jobs, and who is in the step already. False: there is not that much that can be
  /// put out now.
  bool MakeRoom(Context& context, std::uint32_t blocks, std::size_t spared = 0) {
    const DeviceView& device = context.device(device_);
    for (std::size_t i = jobs_.size(); i-- > spared && device.free_blocks < blocks;) {
      if (jobs_[i].step == step_ || !OfflineKv::CanPutOut(context, jobs_[i])) continue;
      made_room_ = true;
      if (kv_.PutOut(context, &jobs_[i])) continue;
      queued_->PutBack(context, jobs_[i].request);
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return device.free_blocks >= blocks;
  }
  /// Blocks that are free, or can be made so.
  std::uint32_t ReachableBlocks(const Context& context) const {
    std::uint32_t blocks = context.device(device_).free_blocks;
    for (const OfflineJob& job : jobs_) {
      if (OfflineKv::CanPutOut(context, job)) blocks += context.request(job.request).owned_blocks();
    }
    return blocks;
  }
  /// A copy that is under way keeps offline KV from being put out.
  bool MoreRoomIsComing(const Context& context) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const OfflineJob& job) {
      const RequestView view = context.request(job.request);
      const bool comes_in = view.state() == RequestState::kMoving && view.tier() == Tier::kHost;
      return job.copy.valid() || comes_in;
    });
  }

  void Take(Context& context, RequestId request, std::uint32_t tokens) {
    if (context.device(device_).total_blocks > 0) {
      context.memory(device_).Reserve(request,
                                      context.request(request).scheduled_tokens() + tokens);
    }
    entries_.push_back({request, tokens});
    tokens_left_ -= tokens;
  }
  void TakeOffline(Context& context, OfflineJob* job, std::uint32_t tokens) {
    Take(context, job->request, tokens);
    job->step = step_;
    sizer_.OnAdded(tokens);
  }
  bool StepIsFull() const { return tokens_left_ == 0 || entries_.size() >= rules_.max_requests; }

  // ---- Online ----

  void RunOnline(Context& context) {
    online_short_ = false;
    for (std::size_t i = 0; i < running_.size() && !StepIsFull(); ++i) {
      const RequestId request = running_[i];
      const RequestView view = context.request(request);
      const std::uint32_t tokens = std::min(view.next_tokens(), tokens_left_);
      const std::uint32_t missing = MissingBlocks(context, view, tokens);
      bool room = MakeRoom(context, missing);
      while (!room && !MoreRoomIsComing(context) && running_.size() > i + 1) {
        PreemptLastOnline(context);
        room = context.device(device_).free_blocks >= missing;
      }
      if (room) {
        Take(context, request, tokens);
      } else {
        online_short_ = true;
        waits_for_copy_ |= MoreRoomIsComing(context);
      }
    }
  }
  void PreemptLastOnline(Context& context) {
    const RequestId victim = running_.back();
    running_.pop_back();
    context.actions().Preempt(victim, PreemptMode::kRecompute);
    waiting_.PushFront(victim);
    online_short_ = true;
  }

  void AdmitOnline(Context& context) {
    Cache& cache = context.cache(device_);
    while (!waiting_.empty() && !StepIsFull() && running_.size() < rules_.max_requests) {
      const RequestId request = waiting_.front();
      const std::uint32_t blocks = BlocksToBegin(context, request, cache.HitTokens(request));
      // Blocks that several share count more than once among those that can be reached.
      if (blocks > ReachableBlocks(context) || !MakeRoom(context, blocks)) {
        waits_for_copy_ |= MoreRoomIsComing(context);
        return;
      }
      const std::uint32_t hit = cache.HitTokens(request);  // dropped KV may be found, too
      if (hit > 0) cache.Adopt(request, hit);
      waiting_.PopFront();
      running_.push_back(request);
      Take(context, request, std::min(context.request(request).next_tokens(), tokens_left_));
    }
  }

  // ---- Offline ----

  static bool OnDevice(const RequestView& view) {
    return view.state() == RequestState::kWaiting && view.tier() == Tier::kDevice;
  }
  static bool Decodes(const RequestView& view) {
    return OnDevice(view) && view.phase() == Phase::kDecode;
  }

  void RunOfflineDecodes(Context& context) {
    std::uint32_t left = DecodesWithinBudget(context);
    for (std::size_t i = 0; i < jobs_.size() && left > 0; ++i) {
      const RequestId request = jobs_[i].request;
      const RequestView view = context.request(request);
      if (!Decodes(view)) continue;
      if (!MakeRoom(context, MissingBlocks(context, view, 1), i + 1)) continue;
      TakeOffline(context, &jobs_[i], 1);
      --left;
    }
  }
  std::uint32_t DecodesWithinBudget(Context& context) {
    const std::size_t room =
        rules_.max_requests - std::min<std::size_t>(rules_.max_requests, entries_.size());
    decodes_.clear();
    for (const OfflineJob& job : jobs_) {
      if (decodes_.size() >= std::min<std::size_t>(room, tokens_left_)) break;
      if (Decodes(context.request(job.request))) decodes_.push_back({job.request, 1});
    }
    return sizer_.DecodesThatFit(context, decodes_, &entries_);
  }

  /// False: some KV waits for room.
  bool BringBack(Context& context) {
    // One block for the next token of each who is there.
    std::uint32_t kept = static_cast<std::uint32_t>(running_.size());
    for (const OfflineJob& job : jobs_) kept += OnDevice(context.request(job.request));
    for (const OfflineJob& job : jobs_) {
      const RequestView view = context.request(job.request);
      if (view.state() != RequestState::kWaiting || view.tier() != Tier::kHost) continue;
      const std::uint32_t blocks = view.owned_blocks();
      if (made_room_ || blocks + kept > context.device(device_).free_blocks) return false;
      kv_.BringIn(context, job);
      ++kept;
    }
    return true;
  }

  void RunOfflinePrompts(Context& context, bool may_begin) {
    for (std::size_t i = 0; i < jobs_.size() && !StepIsFull(); ++i) {
      const RequestId request = jobs_[i].request;
      const RequestView view = context.request(request);
      if (!OnDevice(view) || view.phase() == Phase::kDecode) continue;
      if (MissingBlocks(context, view, 1) > 0) MakeRoom(context, 1, i + 1);
      const std::uint32_t most = std::min(RoomFor(context, view), MostPromptTokens(view));
      if (most == 0) continue;
      const std::uint32_t tokens = sizer_.ChunkThatFits(context, {request, most}, &entries_);
      if (tokens > 0) TakeOffline(context, &jobs_[i], tokens);
      if (tokens < most) return;  // the budget is spent
    }
    if (may_begin) BeginOffline(context);
  }
  void BeginOffline(Context& context) {
    while (!queued_->empty() && !StepIsFull()) {
      const RequestId request = queued_->Head(context);
      const std::uint32_t hit = context.cache(device_).HitTokens(request);
      if (BlocksToBegin(context, request, hit) > context.device(device_).free_blocks) return;
      const std::uint32_t tokens = FirstChunk(context, request, hit);
      if (tokens == 0) return;
      queued_->PopHead(context);
      jobs_.push_back({.request = request});
      if (hit > 0) context.cache(device_).Adopt(request, hit);
      const std::uint32_t most = MostPromptTokens(context.request(request));
      TakeOffline(context, &jobs_.back(), tokens);
      if (tokens < most) return;
    }
  }
  /// With `hit` cached tokens taken for computed, and given back again: it may not come to run.
  std::uint32_t FirstChunk(Context& context, RequestId request, std::uint32_t hit) {
    const auto chunk = [&] {
      const Entry whole = {request, MostPromptTokens(context.request(request))};
      return sizer_.ChunkThatFits(context, whole, &entries_);
    };
    if (hit == 0) return chunk();
    Memory& memory = context.memory(device_);
    const MemoryMark mark = memory.Begin();
    context.cache(device_).Adopt(request, hit);
    const std::uint32_t tokens = chunk();
    memory.Rollback(mark);
    return tokens;
  }

  std::uint32_t MostPromptTokens(const RequestView& request) const {
    return std::min(request.next_tokens(), tokens_left_);
  }
  /// Tokens that its own blocks and the free ones hold beyond what is computed.
  std::uint32_t RoomFor(const Context& context, const RequestView& request) const {
    const DeviceView& device = context.device(device_);
    if (device.total_blocks == 0) return request.next_tokens();
    return (request.owned_blocks() + device.free_blocks) * device.block_tokens -
           request.scheduled_tokens();
  }

  void Launch(Context& context) {
    if (entries_.empty()) return;
    predicted_ = predictor().Predict(context, device_, entries_);
    predictor().OnLaunch(context, entries_);
    launched_ = context.now();
    plan_ = context.actions().Launch({.device = device_, .entries = entries_}).id;
  }

  DeviceId device_;
  HybridRules rules_;
  OfflineKv kv_;
  StepSizer sizer_;
  EngineQueue* queued_;             ///< offline, not begun or dropped
  RequestQueue waiting_;            ///< online
  std::vector<RequestId> running_;  ///< online, in order of admission
  std::vector<OfflineJob> jobs_;    ///< offline and begun, in order of admission
  PlanId plan_;
  Time launched_;
  std::optional<Duration> predicted_;  ///< of the step in flight
  // Of the step that is put together or in flight.
  std::uint64_t step_ = 0;  ///< its number
  std::vector<Entry> entries_;
  std::size_t online_entries_ = 0;
  std::uint32_t tokens_left_ = 0;
  /// Online work waits for blocks of offline KV that is being copied: no checkpoint is begun.
  bool waits_for_copy_ = false;
  bool made_room_ = false;      ///< offline KV was put out
  bool online_short_ = false;   ///< of blocks: somebody running was preempted, or has to wait
  std::vector<Entry> decodes_;  ///< scratch
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_HYBRID_ENGINE_H_
