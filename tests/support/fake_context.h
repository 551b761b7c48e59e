// FakeContext: devices, requests, an instant and predicted lengths as a test says, for parts that
// only read. It has no actions and no memory: a part that asks for them crashes. One thread.
#ifndef SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_
#define SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_

#include <cstdint>
#include <optional>
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

class FakeContext : public Context {
 public:
  explicit FakeContext(std::uint32_t devices, std::uint64_t seed = 1)
      : hot(kSlots), cold(kSlots), views(devices), clocks(devices) {
    for (std::uint32_t i = 0; i < kSlots; ++i) hot[i].id = i;
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

 private:
  struct NoTimers final : Clock {
    void Set(Time now) { now_ = now; }
    TimerId Arm(Time, std::uint64_t) override { return {}; }
    bool Rearm(TimerId, Time) override { return false; }
    bool Cancel(TimerId) override { return false; }
  } clock;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_FAKE_CONTEXT_H_
