// FakeContext: devices, requests, an instant, what is cached and predicted lengths as a test says,
// for parts that only read. It has no actions and no memory: a part that asks for them crashes. One
// thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_
#define SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policies/api/context.h"

namespace schedtwin {

/// Predicts lengths by request id, and nothing else.
class FakeLengths final : public Services {
 public:
  explicit FakeLengths(std::vector<std::optional<std::uint32_t>> by_request = {})
      : by_request_(std::move(by_request)) {}

  std::optional<Duration> Predict(const Plan&) const override { return std::nullopt; }
  std::optional<Duration> TransferTime(DeviceId, DeviceId, std::uint32_t) const override {
    return std::nullopt;
  }
  std::optional<Duration> LoadTime(DeviceId, ModelId) const override { return std::nullopt; }
  std::optional<std::uint32_t> OutputLength(RequestId request) const override {
    return request.value < by_request_.size() ? by_request_[request.value] : std::nullopt;
  }

 private:
  std::vector<std::optional<std::uint32_t>> by_request_;
};

/// Finds what a test says of each request; of others nothing.
class FakeCache final : public Cache {
 public:
  std::uint32_t HitTokens(RequestId request) const override { return Of(hit_tokens, request); }
  std::uint32_t HitFreeBlocks(RequestId) const override { return 0; }
  std::span<const std::uint64_t> PromptBlocks(RequestId request) const override {
    const auto found = prompt_blocks.find(request.value);
    if (found == prompt_blocks.end()) return {};
    return found->second;
  }
  std::uint32_t Adopt(RequestId, std::uint32_t) override { return 0; }

  std::map<std::uint32_t, std::uint32_t> hit_tokens;
  std::map<std::uint32_t, std::vector<std::uint64_t>> prompt_blocks;

 private:
  static std::uint32_t Of(const std::map<std::uint32_t, std::uint32_t>& values, RequestId request) {
    const auto found = values.find(request.value);
    return found == values.end() ? 0 : found->second;
  }
};

class FakeContext : public Context {
 public:
  explicit FakeContext(std::uint32_t devices, std::uint64_t seed = 1)
      : hot(kSlots), cold(kSlots), views(devices), clocks(devices), caches(devices) {
    for (std::uint32_t i = 0; i < kSlots; ++i) hot[i].id = i;
    for (FakeCache& cache : caches) cache_pointers_.push_back(&cache);
    caches_ = cache_pointers_;
    for (std::uint32_t i = 0; i < devices; ++i) views[i].id = {i};
    window_ = {hot.data(), cold.data(), kSlots - 1};
    devices_ = views;
    standing_clocks_ = clocks.data();
    clock_ = &clock;
    seed_ = seed;
  }
  FakeContext(const FakeContext&) = delete;

  void UseServices(Services* services) { services_ = services; }
  void SetNow(Time now) { clock.Set(now); }

  static constexpr std::uint32_t kSlots = 4096;
  std::vector<RequestHot> hot;  ///< by id: requests 0 to kSlots - 1 live
  std::vector<RequestCold> cold;
  std::vector<DeviceView> views;
  std::vector<StandingClock> clocks;
  std::vector<FakeCache> caches;  ///< by device

 private:
  std::vector<Cache*> cache_pointers_;
  struct NoTimers final : Clock {
    void Set(Time now) { now_ = now; }
    TimerId Arm(Time, std::uint64_t) override { return {}; }
    bool Rearm(TimerId, Time) override { return false; }
    bool Cancel(TimerId) override { return false; }
  } clock;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_
