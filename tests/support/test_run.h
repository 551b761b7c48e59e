// TestRun: one World with fake devices, set up with defaults that a test overrides, run by one
// call. What came of it stays to be looked at. A device's complaint fails the test. One thread;
// used once.
#ifndef SCHEDTWIN_TESTS_SUPPORT_TEST_RUN_H_
#define SCHEDTWIN_TESTS_SUPPORT_TEST_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "policies/runtime/world.h"
#include "sim/virtual_time.h"
#include "tests/support/fake_device.h"
#include "tests/support/fakes.h"

namespace schedtwin {

/// 100 blocks of 4 tokens.
inline DeviceInfo SmallDecoder() {
  DeviceInfo info;
  info.name = "fake";
  info.kind = ModelKind::kDecoder;
  info.total_blocks = 100;
  info.block_tokens = 4;
  return info;
}

inline DeviceInfo SmallOneShot() {
  DeviceInfo info;
  info.name = "fake";
  info.kind = ModelKind::kOneShot;
  return info;
}

struct TestRun {
  // What to run. Every step takes 10 ns unless told otherwise.
  DeviceInfo device = SmallDecoder();  ///< each of the devices
  std::uint32_t devices = 1;
  WorldOptions options;
  FakeDevice::StepTime step_time = [](const FakeStep&) { return Duration::Nanos(10); };
  const StepTimeModel* model = nullptr;
  RecordWants wants = {.steps = true, .log = true};
  TimeSource* time = nullptr;  ///< null: virtual time

  // What came of it.
  std::deque<FakeDevice> fakes;
  RecordingRecorder recorder;
  World* world = nullptr;  ///< while it runs

  RunSummary Run(Policy* policy, std::vector<RequestSpec> requests) {
    ListSource source(std::move(requests));
    return Run(policy, std::vector<RequestSource*>{&source});
  }

  RunSummary Run(Policy* policy, const std::vector<RequestSource*>& sources) {
    MakeDevices();
    std::vector<DeviceSetup> setups;
    for (FakeDevice& fake : fakes) setups.push_back({&fake, model});
    VirtualTimeSource virtual_time;
    TimeSource* const clock = time == nullptr ? &virtual_time : time;
    World run(options, policy, clock, setups, sources, &recorder, wants);
    world = &run;
    const RunSummary summary = run.Run();
    run.CheckInvariants();
    world = nullptr;
    for (const FakeDevice& fake : fakes) {
      for (const std::string& complaint : fake.complaints) ADD_FAILURE() << complaint;
    }
    return summary;
  }

  /// For tests that need the devices before the run.
  void MakeDevices() {
    while (fakes.size() < devices) fakes.emplace_back(device, step_time);
    for (std::size_t i = 0; i < fakes.size(); ++i) {
      FakeDevice& fake = fakes[i];
      fake.peers.clear();
      for (FakeDevice& peer : fakes) fake.peers.push_back(&peer);
      const bool there = options.devices_at_start == 0 || i < options.devices_at_start;
      fake.loaded.clear();
      if (there) fake.loaded.insert(0);
      std::uint64_t bytes = 0;
      for (std::uint32_t number = 0; number < options.models.size(); ++number) {
        const std::uint64_t more = options.models[number].weights_bytes;
        if (!there || (device.weights_bytes > 0 && bytes + more > device.weights_bytes)) continue;
        bytes += more;
        fake.loaded.insert(number);
      }
    }
  }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_TEST_RUN_H_
