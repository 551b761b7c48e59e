#include "policies/triton_dynamic/rate_limiter.h"

#include <algorithm>

namespace schedtwin::triton {

void RateLimiter::Start(const Settings& settings, std::size_t instances) {
  fixed_ = settings.fixed;
  Resources all;
  for (const InstanceLimits& limits : settings.instances) {
    for (const auto& [name, count] : limits.resources) all[name] = 0;
  }
  instances_.resize(instances);
  for (std::size_t i = 0; i < instances; ++i) {
    if (settings.instances.empty()) break;
    const InstanceLimits& limits = settings.instances[std::min(i, settings.instances.size() - 1)];
    instances_[i].priority = std::max<std::uint32_t>(1, limits.priority);
    for (auto& [name, most] : all) {
      const auto need = limits.resources.find(name);
      const std::uint32_t count = need == limits.resources.end() ? 0 : need->second;
      instances_[i].needs.push_back(count);
      most = std::max(most, count);
    }
  }
  for (const auto& [name, most] : all) {
    const auto given = settings.supply.find(name);
    free_.push_back(given == settings.supply.end() ? most : given->second);
  }
}

void RateLimiter::Enqueue(PayloadId payload, std::vector<Grant>* grants) {
  pending_.PushBack(payload);
  Stage(grants);
}

void RateLimiter::PutBack(PayloadId payload, std::vector<Grant>* grants) {
  pending_.PushFront(payload);
  Stage(grants);
}

void RateLimiter::Release(std::uint32_t instance, std::vector<Grant>* grants) {
  Instance& released = instances_[instance];
  if (released.state != State::kRunning) return;
  ++released.executions;
  released.state = State::kAvailable;
  for (std::size_t r = 0; r < free_.size(); ++r) free_[r] += released.needs[r];
  AllocateAfterRelease(grants);
}

void RateLimiter::Join(std::uint32_t instance, std::vector<Grant>* grants) {
  if (instances_[instance].state != State::kAway) return;
  instances_[instance].state = State::kAvailable;
  Stage(grants);
}

void RateLimiter::Away(std::uint32_t instance, std::vector<Grant>* grants) {
  Instance& lost = instances_[instance];
  const State was = lost.state;
  lost.state = State::kAway;
  if (was == State::kStaged) pending_.PushFront(lost.payload);
  if (was == State::kRunning) {
    for (std::size_t r = 0; r < free_.size(); ++r) free_[r] += lost.needs[r];
  }
  lost.payload = kNoPayload;
  AllocateAfterRelease(grants);
}

void RateLimiter::Remove(PayloadId payload, std::vector<Grant>* grants) {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i] != payload) continue;
    pending_.Erase(i);
    return;
  }
  for (Instance& instance : instances_) {
    if (instance.state != State::kStaged || instance.payload != payload) continue;
    instance.state = State::kAvailable;
    instance.payload = kNoPayload;
    AllocateAfterRelease(grants);
    return;
  }
}

RateLimiter::Instance* RateLimiter::First(State state) {
  Instance* first = nullptr;
  for (Instance& instance : instances_) {
    if (instance.state != state) continue;
    if (first == nullptr ||
        instance.executions * instance.priority < first->executions * first->priority) {
      first = &instance;
    }
  }
  return first;
}

void RateLimiter::Stage(std::vector<Grant>* grants) {
  while (!pending_.empty()) {
    Instance* const instance = First(State::kAvailable);
    if (instance == nullptr) return;
    instance->payload = pending_.PopFront();
    instance->state = State::kStaged;
    Allocate(grants);
  }
}

bool RateLimiter::Allocate(std::vector<Grant>* grants) {
  Instance* const instance = First(State::kStaged);
  if (instance == nullptr) return false;
  for (std::size_t r = 0; r < free_.size(); ++r) {
    if (instance->needs[r] > free_[r]) return false;
  }
  for (std::size_t r = 0; r < free_.size(); ++r) free_[r] -= instance->needs[r];
  instance->state = State::kRunning;
  grants->push_back({static_cast<std::uint32_t>(instance - instances_.data()), instance->payload});
  instance->payload = kNoPayload;
  return true;
}

// Upstream tries once after what was staged: a second one that would fit, too, waits for the next
// occasion.
void RateLimiter::AllocateAfterRelease(std::vector<Grant>* grants) {
  Stage(grants);
  while (Allocate(grants) && fixed_) {
  }
}

}  // namespace schedtwin::triton
