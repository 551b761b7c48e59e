#include "policies/triton_dynamic/level_queues.h"

#include <algorithm>

namespace schedtwin::triton {
namespace {

std::uint32_t RemoveFrom(Ring<Queued>* ring, RequestId request) {
  for (std::size_t i = 0; i < ring->size(); ++i) {
    if ((*ring)[i].request != request) continue;
    const std::uint32_t units = (*ring)[i].units;
    ring->Erase(i);
    return units;
  }
  return 0;
}

}  // namespace

LevelQueues::LevelQueues(const Settings& settings)
    : levels_(std::max<std::uint32_t>(1, settings.priority_levels)),
      default_level_(std::max<std::uint32_t>(1, settings.default_priority_level) - 1) {
  for (Level& level : levels_) level.policy = settings.default_policy;
  for (const auto& [level, policy] : settings.level_policies) levels_[level - 1].policy = policy;
  for (const Level& level : levels_) {
    may_expire_ |= level.policy.reject && level.policy.timeout_us > 0;
  }
}

bool LevelQueues::Enqueue(std::int64_t level, Queued queued, std::int64_t override_us) {
  const bool known = level >= 1 && level <= static_cast<std::int64_t>(levels_.size());
  Level& queue = levels_[known ? static_cast<std::size_t>(level) - 1 : default_level_];
  const QueuePolicy& policy = queue.policy;
  if (policy.max_queue_size > 0 && queue.size() >= policy.max_queue_size) return false;
  std::int64_t timeout_us = policy.timeout_us;
  // Without a default timeout nothing is below it: the request's own is ignored.
  if (policy.allow_timeout_override && override_us > 0) {
    timeout_us = std::min(timeout_us, override_us);
  }
  if (timeout_us > 0) queued.timeout = queued.enqueued + Duration::Micros(timeout_us);
  queue.unexpired.PushBack(queued);
  ++size_;
  return true;
}

const Queued* LevelQueues::Get(Cursor* cursor, Time now, std::vector<Expired>* expired) {
  for (; cursor->level < levels_.size(); ++cursor->level, cursor->index = 0) {
    Level& level = levels_[cursor->level];
    const std::size_t at = cursor->index;
    while (at < level.unexpired.size() && now > level.unexpired[at].timeout) {
      Queued late = level.unexpired[at];
      level.unexpired.Erase(at);
      if (level.policy.reject) {
        expired->push_back({late.request, late.units});
        --size_;
        continue;
      }
      late.timeout = Time::Infinite();
      level.delayed.PushBack(late);
    }
    if (at < level.unexpired.size()) return &level.unexpired[at];
    if (at < level.size()) return &level.delayed[at - level.unexpired.size()];
  }
  return nullptr;
}

Queued LevelQueues::PopFront() {
  const auto level = std::find_if(levels_.begin(), levels_.end(),
                                  [](const Level& candidate) { return candidate.size() > 0; });
  --size_;
  return level->unexpired.empty() ? level->delayed.PopFront() : level->unexpired.PopFront();
}

void LevelQueues::RejectExpired(Time now, std::vector<Expired>* expired) {
  for (Level& level : levels_) {
    if (!level.policy.reject) continue;
    for (std::size_t i = 0; i < level.unexpired.size();) {
      const Queued& queued = level.unexpired[i];
      if (now > queued.timeout) {
        expired->push_back({queued.request, queued.units});
        level.unexpired.Erase(i);
        --size_;
      } else {
        ++i;
      }
    }
  }
}

std::uint32_t LevelQueues::Remove(RequestId request) {
  for (Level& level : levels_) {
    std::uint32_t units = RemoveFrom(&level.unexpired, request);
    if (units == 0) units = RemoveFrom(&level.delayed, request);
    if (units == 0) continue;
    --size_;
    return units;
  }
  return 0;
}

}  // namespace schedtwin::triton
