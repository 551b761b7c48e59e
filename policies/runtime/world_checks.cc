// What World says of itself at the end, and what must hold of its books at any time.
#include <algorithm>
#include <utility>

#include "policies/runtime/check.h"
#include "policies/runtime/device_driver.h"
#include "policies/runtime/operations.h"
#include "policies/runtime/run_core.h"
#include "policies/runtime/world.h"

namespace schedtwin {

std::string World::StallDetail() const {
  std::string detail = std::to_string(core_->requests.live_requests()) + " requests live";
  const std::uint32_t oldest = core_->requests.OldestLive();
  if (oldest != RequestId::kNone) {
    const RequestView view = request({oldest});
    detail += ", the oldest is " + std::to_string(oldest) + " (" +
              std::to_string(view.prompt_tokens()) + " prompt tokens, " +
              std::to_string(view.output_tokens()) + " made)";
  }
  const DeviceView& device = views_[0];
  return detail + "; device 0 has " + std::to_string(device.free_blocks) + " of " +
         std::to_string(device.total_blocks) + " blocks free and " + std::to_string(device.queued) +
         " plans queued";
}

RunSummary World::Summary(RunResult result, std::string detail) {
  RunSummary summary;
  summary.result = result;
  summary.detail = std::move(detail);
  summary.requests = core_->requests.added();
  std::copy(std::begin(core_->ended), std::end(core_->ended), std::begin(summary.ended));
  summary.events = core_->journal.events();
  summary.steps = core_->steps;
  summary.preemptions = core_->preemptions;
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    summary.refusals[i] = core_->journal.refused(static_cast<Refusal>(i));
  }
  summary.outcome_digest = core_->outcome.value();
  summary.decision_digest = core_->journal.digest();
  summary.first_arrival = first_arrival_.infinite() ? Time() : first_arrival_;
  summary.last_end = core_->last_end;
  return summary;
}

void World::CheckInvariants() const {
  std::vector<std::uint64_t> owned(drivers_.size(), 0), swapped(drivers_.size(), 0);
  std::vector<std::uint32_t> standing(drivers_.size(), 0);
  core_->requests.ForEachLive([&](std::uint32_t id) {
    const RequestHot& hot = core_->requests.hot(id);
    const RequestView view = request({id});
    SCHEDTWIN_CHECK(view.known_tokens() >= view.scheduled_tokens());
    SCHEDTWIN_CHECK(view.output_tokens() <= core_->requests.fate(id).limit_tokens);
    if (hot.device == DeviceId::kNone) {
      SCHEDTWIN_CHECK(hot.owned_blocks == 0 && hot.state != RequestState::kStanding);
      return;
    }
    DeviceDriver& driver = *drivers_[hot.device];
    const bool member = hot.state == RequestState::kStanding;
    standing[hot.device] += member;
    const std::uint32_t blocks = member ? driver.standing().OwnedBlocks(id) : hot.owned_blocks;
    (hot.tier == Tier::kDevice ? owned : swapped)[hot.device] += blocks;
    const KvPool& pool = driver.memory().pool(hot.tier);
    const bool given = hot.state == RequestState::kMoving && blocks == 0;  // swapped out, blocking
    if (hot.left_behind > 0) SCHEDTWIN_CHECK(blocks == 0 && !HeldByDevice(hot));
    if (pool.identifies() && !given && hot.left_behind == 0) {
      SCHEDTWIN_CHECK(pool.BlockTable(id).size() == blocks);
    }
    if (views_[hot.device].total_blocks > 0 && !given) {
      SCHEDTWIN_CHECK(std::uint64_t{blocks} * views_[hot.device].block_tokens >=
                      view.scheduled_tokens());
    }
    if (hot.state == RequestState::kHeld) SCHEDTWIN_CHECK(!HeldByDevice(hot));
    if (hot.state == RequestState::kMoving || hot.tier == Tier::kHost) {
      SCHEDTWIN_CHECK(hot.in_flight == 0 && !member);
    }
  });
  for (std::uint32_t i = 0; i < drivers_.size(); ++i) {
    const KvPool& pool = drivers_[i]->memory().pool();
    const KvPool& host = drivers_[i]->memory().pool(Tier::kHost);
    owned[i] += operations_->HeldBlocks(i, Tier::kDevice);
    swapped[i] += operations_->HeldBlocks(i, Tier::kHost);
    pool.CheckInvariants();
    host.CheckInvariants();
    SCHEDTWIN_CHECK(pool.cache() != nullptr ||
                    pool.total_blocks() == pool.free_blocks() + pool.fenced_blocks() + owned[i]);
    SCHEDTWIN_CHECK(views_[i].cached_blocks == pool.cached_blocks());
    SCHEDTWIN_CHECK(host.total_blocks() == host.free_blocks() + host.fenced_blocks() + swapped[i]);
    SCHEDTWIN_CHECK(standing[i] == drivers_[i]->standing().size());
    SCHEDTWIN_CHECK(views_[i].free_blocks == pool.free_blocks());
    SCHEDTWIN_CHECK(views_[i].fenced_blocks == pool.fenced_blocks());
    SCHEDTWIN_CHECK(views_[i].host_free_blocks == host.free_blocks());
    if (!views_[i].up()) SCHEDTWIN_CHECK(views_[i].queued == 0 && standing[i] == 0);
  }
}

}  // namespace schedtwin
