// What tests of triton_dynamic share: one-shot devices that take 100 us for any batch, and requests
// at microseconds. One thread.
#ifndef SCHEDTWIN_TESTS_UNIT_POLICY_TRITON_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_POLICY_TRITON_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/policy_testing.h"

namespace schedtwin::triton_testing {

using policy_testing::Settings;
using Requests = std::vector<RequestSpec>;

/// `count` requests of one unit each, at one instant.
inline Requests Burst(std::int64_t at_us, std::uint32_t count) {
  return Requests(count, policy_testing::Units(at_us * 1'000, 1));
}
inline Requests operator+(Requests a, const Requests& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline RequestSpec At(std::int64_t at_us, std::uint32_t units = 1) {
  return policy_testing::Units(at_us * 1'000, units);
}
inline RequestSpec WithPriority(std::int64_t at_us, std::int32_t priority) {
  RequestSpec spec = At(at_us);
  spec.priority = priority;
  return spec;
}
inline RequestSpec WithTimeout(std::int64_t at_us, std::int64_t timeout_us) {
  RequestSpec spec = At(at_us);
  spec.deadline = spec.arrival + Duration::Micros(timeout_us);
  return spec;
}
inline RequestSpec WithShape(std::int64_t at_us, std::uint32_t shape) {
  RequestSpec spec = At(at_us);
  spec.shape = shape;
  return spec;
}

inline policy_testing::Script Triton(Settings settings, Requests requests,
                                     std::uint32_t devices = 1) {
  policy_testing::Script script{.policy = "triton_dynamic",
                                .settings = std::move(settings),
                                .requests = std::move(requests),
                                .model = StepTimeModel::Linear(Duration::Micros(100), Duration())};
  script.device.kind = ModelKind::kOneShot;
  script.devices = devices;
  return script;
}

/// Each launch as "when x units", with the device in front where there are several; in us.
inline std::vector<std::string> Batches(const policy_testing::Script& script) {
  const policy_testing::Played played = policy_testing::Play(script);
  std::vector<StepRecord> steps = played.records;
  std::stable_sort(steps.begin(), steps.end(), [](const StepRecord& a, const StepRecord& b) {
    return a.start != b.start ? a.start < b.start : a.device.value < b.device.value;
  });
  std::vector<std::string> batches;
  for (const StepRecord& step : steps) {
    std::string text;
    if (script.devices > 1) text = "d" + std::to_string(step.device.value) + " ";
    batches.push_back(text + std::to_string(step.start.ns() / 1'000) + " x" +
                      std::to_string(step.units));
  }
  return batches;
}

}  // namespace schedtwin::triton_testing

#endif  // SCHEDTWIN_TESTS_UNIT_POLICY_TRITON_TESTING_H_
