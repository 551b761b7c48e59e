// Devices that come, go and fail, as the contract has it: what a policy is told and when, what a
// device in each state takes, and what is left of the work that was on it. Loads and copies take 25
// ns, steps 10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policies/profile/step_time.h"
#include "sim/simulate.h"
#include "tests/support/timed_run.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Link kLink = {Duration::Nanos(1), 1'000'000'000};

Fault FaultAt(std::uint32_t device, std::int64_t at, std::int64_t until = -1, bool loses = false) {
  return {{device}, Time::Nanos(at), until < 0 ? Time::Infinite() : Time::Nanos(until), loses};
}

/// Two devices of ten blocks of four tokens; requests arrive at 0.
class FleetTest : public testing::Test {
 protected:
  FleetTest() {
    timed.run.devices = 2;
    timed.run.device.total_blocks = 10;
    timed.run.device.host_blocks = 8;
    timed.run.device.queue_depth = 3;
    timed.run.device.host_link = timed.run.device.peer_link = kLink;
    timed.run.device.load_link = kLink;
  }
  void ScaleAt(std::int64_t ns, std::uint32_t devices) {
    timed.At(
        ns, [=](Context& context) { EXPECT_EQ(context.actions().Scale(devices), Refusal::kNone); });
  }
  void ExpectStateAt(std::int64_t ns, std::uint32_t device, DeviceState state) {
    timed.At(ns, [=](Context& context) {
      EXPECT_EQ(context.device({device}).state, state) << "at " << ns;
    });
  }
  void Faults(std::vector<Fault> list) {
    faults = std::move(list);
    timed.run.options.faults = faults;
  }

  std::vector<Fault> faults;
  TimedRun timed;
};

// ---- Scaling ----

TEST_F(FleetTest, AddedDeviceLoadsAndIsReadyThen) {
  timed.run.options.devices_at_start = 1;
  ExpectStateAt(1, 1, DeviceState::kOff);
  ScaleAt(2, 2);
  timed.At(3, [](Context& context) {
    EXPECT_EQ(context.device({1}).state, DeviceState::kStarting);
    EXPECT_EQ(context.device({1}).loaded_models, 0u);
    EXPECT_EQ(context.actions().Launch({.device = {1}}).refusal, Refusal::kDeviceDown);
    EXPECT_EQ(context.actions().Route({0}, {1}), Refusal::kDeviceDown);
    EXPECT_FALSE(context.memory({1}).Reserve({0}, 4));
  });
  timed.policy.on_slot_free = [](Context& context, DeviceId device) {
    if (device.value == 1 && context.live({0})) LaunchOne(context, device, {0});
  };
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "2 device 1 added", "27 device 1 ready",
                                        "37 done 1 finish 1"));
  EXPECT_THAT(timed.policy.seen, testing::Contains("27 slot 1"));
}

TEST_F(FleetTest, DrainingFinishesWhatItHasAndTakesNothingMore) {
  timed.LaunchAt(1, 0, 1);
  ScaleAt(5, 1);
  timed.At(12, [](Context& context) {
    EXPECT_EQ(context.device({1}).state, DeviceState::kDraining);
    EXPECT_EQ(context.actions().Route({1}, {1}), Refusal::kDeviceDown);
    EXPECT_FALSE(context.memory({1}).Reserve({1}, 4));
    const Entry entry{{1}, 4};
    EXPECT_EQ(context.actions().Launch({.device = {1}, .entries = {&entry, 1}}).refusal,
              Refusal::kDeviceDown);
    EXPECT_TRUE(context.memory({1}).Reserve({0}, 12)) << "for a request of its own";
    EXPECT_EQ(context.actions().Join({1}, {0}), Refusal::kNone);
    EXPECT_TRUE(context.actions().Launch({.device = {1}, .standing = true, .max_steps = 9}).ok());
  });
  timed.At(33, [](Context& context) {
    EXPECT_EQ(context.device({1}).state, DeviceState::kOff);
    EXPECT_EQ(context.device({1}).loaded_models, 0u);
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
  });
  timed.EndAllAt(70, 2);
  timed.Run({TokenRequest(0, 8, 3), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "0 arrival 1", "5 device 1 draining", "11 done 1 steps 1",
                          "32 done 1 finish 2", "32 device 1 removed"));
  EXPECT_THAT(timed.run.fakes[1].loaded, IsEmpty());
}

TEST_F(FleetTest, EmptyDeviceIsRemovedAtOnce) {
  ScaleAt(5, 1);
  timed.EndAllAt(40, 1);
  timed.Run({TokenRequest(0, 8, 3)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "5 device 1 draining", "5 device 1 removed"));
}

TEST_F(FleetTest, ScaledUpWhileItDrainsItIsReadyAtOnce) {
  timed.LaunchAt(1, 0, 1);
  ScaleAt(5, 1);
  ScaleAt(7, 2);
  ExpectStateAt(8, 1, DeviceState::kUp);
  timed.LaunchAt(12, 1, 1);
  timed.EndAllAt(30, 2);
  timed.Run({TokenRequest(0, 8, 3), TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "0 arrival 1", "5 device 1 draining", "7 device 1 ready",
                          "11 done 1 steps 1", "22 done 1 finish 1"));
  EXPECT_THAT(timed.run.fakes[1].operations, IsEmpty()) << "nothing was unloaded, nothing loaded";
}

TEST_F(FleetTest, ScaledDownWhileItStartsItStartsAndGoes) {
  timed.run.options.devices_at_start = 1;
  ScaleAt(2, 2);
  ScaleAt(10, 1);
  timed.EndAllAt(70, 1);
  timed.Run({TokenRequest(0, 8, 3)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "2 device 1 added", "27 device 1 ready",
                                        "27 device 1 draining", "27 device 1 removed"));
}

TEST_F(FleetTest, RemovedDeviceCanBeAddedAgain) {
  ScaleAt(5, 1);
  ScaleAt(40, 2);
  timed.LaunchAt(66, 0, 1);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "5 device 1 draining", "5 device 1 removed",
                          "40 device 1 added", "65 device 1 ready", "76 done 1 finish 1"));
}

TEST_F(FleetTest, RequestsOnTheHostTierKeepADrainingDevice) {
  timed.LaunchAt(1, 0, 1);
  timed.At(12, [](Context& context) { context.actions().Preempt({0}, PreemptMode::kSwap); });
  ScaleAt(40, 1);
  timed.At(41, [](Context& context) {
    EXPECT_EQ(context.device({1}).state, DeviceState::kDraining);
    TransferSpec in;
    in.request = {0};
    in.from = in.to = {1};
    in.from_tier = Tier::kHost;
    EXPECT_EQ(context.actions().Transfer(in).refusal, Refusal::kNone) << "it has that request";
  });
  ExpectStateAt(67, 1, DeviceState::kDraining);
  timed.LaunchAt(67, 0, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 1 steps 1", "37 swap out 0 at 1",
                                        "40 device 1 draining", "66 swap in 0 at 1",
                                        "77 done 1 finish 1", "77 device 1 removed"));
}

TEST_F(FleetTest, TransferOffADrainingDeviceRemovesIt) {
  timed.LaunchAt(1, 0, 1);
  ScaleAt(12, 1);
  timed.At(13, [](Context& context) {
    TransferSpec spec;
    spec.request = {0};
    spec.from = {1};
    spec.to = {0};
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kNone);
  });
  timed.EndAllAt(70, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "11 done 1 steps 1", "12 device 1 draining",
                                        "38 transfer 0 at 0", "38 device 1 removed"));
}

TEST_F(FleetTest, ScaleRefusesNonsense) {
  timed.At(1, [](Context& context) {
    EXPECT_EQ(context.actions().Scale(0), Refusal::kBadArgument);
    EXPECT_EQ(context.actions().Scale(3), Refusal::kBadArgument);
    const MemoryMark mark = context.memory({0}).Begin();
    EXPECT_EQ(context.actions().Scale(1), Refusal::kBadArgument);
    context.memory({0}).Commit(mark);
    EXPECT_EQ(context.actions().Scale(2), Refusal::kNone) << "as many as there are";
  });
  timed.EndAllAt(2, 1);
  timed.Run({TokenRequest(0, 8, 9)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0"));
}

TEST_F(FleetTest, RolesAreLabels) {
  timed.At(1, [](Context& context) {
    EXPECT_EQ(context.actions().SetRole({9}, DeviceRole::kDecode), Refusal::kUnknownDevice);
    EXPECT_EQ(context.actions().SetRole({1}, DeviceRole::kDecode), Refusal::kNone);
    EXPECT_EQ(context.device({1}).role, DeviceRole::kDecode);
    EXPECT_EQ(context.device({0}).role, DeviceRole::kBoth);
  });
  timed.LaunchAt(2, 0, 1);  // a prefill, on a device for decoding
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "1 device 1 role", "12 done 1 finish 1"));
}

// ---- Faults ----

TEST_F(FleetTest, FaultEndsPlansAndRequestsWaitWithNothingComputed) {
  Faults({FaultAt(0, 25, 60)});
  timed.LaunchAt(1, 0);
  timed.LaunchAt(12, 0, 0, {.max_steps = 9});  // 12 to 22, and on
  timed.LaunchAt(13, 1);                       // queued
  timed.At(26, [](Context& context) {
    EXPECT_EQ(context.device({0}).state, DeviceState::kFailed);
    EXPECT_EQ(context.device({0}).queued, 0u);
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 10, 0, 2, 0}));
    EXPECT_EQ(ProgressOf(context, 1), (Progress{RequestState::kWaiting, 4, 0, 0, 0}));
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    const Entry entry{{1}, 4};
    EXPECT_EQ(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).refusal,
              Refusal::kDeviceDown);
    EXPECT_FALSE(context.memory({0}).Reserve({0}, 4));
    EXPECT_EQ(context.actions().Poke({0}), Refusal::kNone);
  });
  timed.policy.on_plan_done = [](Context&, const PlanDone& done) {
    if (done.why != PlanEnd::kFailed) return;
    const bool ran = done.steps == 1;
    EXPECT_EQ(done.start, Time::Nanos(ran ? 12 : 25));
    EXPECT_EQ(done.end, Time::Nanos(25));
    EXPECT_TRUE(done.finished.empty());
    EXPECT_EQ(done.entries.size(), 1u) << "as launched";
  };
  timed.policy.on_slot_free = [](Context& context, DeviceId device) {
    if (context.now() != Time::Nanos(60)) return;
    LaunchOne(context, device, {0});
    LaunchOne(context, device, {1});
  };
  timed.Run({TokenRequest(0, 8, 3), TokenRequest(0, 4, 1)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1", "25 done 0 failed 1",
                          "25 done 0 failed 0", "25 device 0 failed", "60 device 0 recovered",
                          "70 done 0 finish 1", "80 done 0 finish 1"));
  EXPECT_THAT(timed.policy.seen, testing::Not(testing::Contains("26 slot 0"))) << "it is down";
  const RequestRecord& record = *timed.run.recorder.Find(0);
  EXPECT_EQ(record.reason, EndReason::kCompleted);
  EXPECT_EQ(record.preemptions, 0u) << "nobody preempted it";
  EXPECT_EQ(record.recomputed_tokens, 9u) << "the prompt, and one of its own";
  EXPECT_EQ(record.first_token, Time::Nanos(11)) << "what the client has it keeps";
}

TEST_F(FleetTest, FaultMayLoseTheRequests) {
  Faults({FaultAt(0, 25, 60, true)});
  timed.LaunchAt(1, 0);
  timed.LaunchAt(12, 0, 0, {.max_steps = 9});
  timed.At(13,
           [](Context& context) { EXPECT_EQ(context.actions().Route({2}, {0}), Refusal::kNone); });
  timed.LaunchAt(13, 1);
  timed.At(26, [](Context& context) {
    EXPECT_FALSE(context.live({0}));
    EXPECT_FALSE(context.live({1}));
    EXPECT_TRUE(context.live({2})) << "had nothing there";
  });
  timed.EndAllAt(70, 4);
  const RunSummary summary = timed.Run(
      {TokenRequest(0, 8, 9), TokenRequest(0, 4, 1), TokenRequest(0, 4, 1), TokenRequest(0, 4, 1)});
  EXPECT_THAT(
      timed.Told(),
      ElementsAre("0 arrival 0", "0 arrival 1", "0 arrival 2", "0 arrival 3", "11 done 0 steps 1",
                  "25 done 0 failed 1", "25 done 0 failed 0", "25 device 0 failed",
                  "25 cancel 0 fault", "25 cancel 1 fault", "60 device 0 recovered"));
  EXPECT_EQ(summary.ended[static_cast<int>(EndReason::kFailed)], 2u);
  EXPECT_EQ(timed.run.recorder.Find(0)->output_tokens, 2u);
}

TEST_F(FleetTest, FaultDissolvesTheStandingSet) {
  Faults({FaultAt(0, 25, 30)});
  timed.LaunchAt(1, 0);
  timed.LaunchAt(1, 1);
  timed.At(22, [](Context& context) {
    context.actions().Join({0}, {0});
    context.actions().Join({0}, {1});
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .standing = true, .max_steps = 9}).ok());
  });
  timed.At(26, [](Context& context) {
    EXPECT_EQ(context.device({0}).standing, 0u);
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 0, 1, 0}));
    EXPECT_EQ(ProgressOf(context, 1), (Progress{RequestState::kWaiting, 5, 0, 1, 0}));
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
  });
  timed.LaunchAt(31, 0);
  timed.LaunchAt(31, 1);
  timed.Run({TokenRequest(0, 8, 2), TokenRequest(0, 4, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1", "21 done 0 steps 1",
                          "25 done 0 failed 0", "25 device 0 failed", "30 device 0 recovered",
                          "41 done 0 finish 1", "51 done 0 finish 1"));
}

TEST_F(FleetTest, FaultLosesTheHostTierToo) {
  Faults({FaultAt(0, 50, 60)});
  timed.LaunchAt(1, 0);
  timed.At(12, [](Context& context) { context.actions().Preempt({0}, PreemptMode::kSwap); });
  timed.At(49, [](Context& context) { EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 6})); });
  timed.At(51, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 0, 1, 0}));
    EXPECT_EQ(context.request({0}).tier(), Tier::kDevice);
    EXPECT_EQ(context.actions().Route({0}, {1}), Refusal::kNone) << "nothing holds it";
  });
  timed.LaunchAt(52, 0, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 8u);
  EXPECT_EQ(timed.run.recorder.Find(0)->device.value, 1u);
}

TEST_F(FleetTest, OverlappingFaultsEndWithTheLast) {
  Faults({FaultAt(0, 10, 50), FaultAt(0, 20, 30), FaultAt(0, 40, 80, true)});
  ExpectStateAt(31, 0, DeviceState::kFailed);
  ExpectStateAt(51, 0, DeviceState::kFailed);
  ExpectStateAt(81, 0, DeviceState::kUp);
  timed.EndAllAt(82, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "10 device 0 failed", "80 device 0 recovered"));
}

// A clock that wakes when all is over must not make a failure of a device that is up.
TEST_F(FleetTest, FailureIsToldBeforeItsEndHoweverLateTheClockWakes) {
  Faults({FaultAt(0, 10, 50)});
  ManualTimeSource late;
  late.advance = [](Time next) { return next == Time::Nanos(10) ? Time::Nanos(60) : next; };
  timed.run.time = &late;
  timed.policy.on_device_change = [](Context& context, DeviceId device, DeviceChange change) {
    EXPECT_EQ(context.now(), Time::Nanos(60));
    const bool failed = change == DeviceChange::kFailed;
    EXPECT_EQ(context.device(device).state, failed ? DeviceState::kFailed : DeviceState::kUp);
  };
  timed.EndAllAt(82, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "60 device 0 failed", "60 device 0 recovered"));
}

TEST_F(FleetTest, FaultOfADeviceThatIsOffIsNone) {
  timed.run.options.devices_at_start = 1;
  Faults({FaultAt(1, 10, 50)});
  ScaleAt(20, 2);
  ExpectStateAt(46, 1, DeviceState::kUp);
  timed.EndAllAt(60, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "20 device 1 added", "45 device 1 ready"));
}

TEST_F(FleetTest, FaultOfADeviceThatStartsMakesItStartAgain) {
  timed.run.options.devices_at_start = 1;
  Faults({FaultAt(1, 10, 50)});
  ScaleAt(2, 2);
  ExpectStateAt(30, 1, DeviceState::kFailed);
  ExpectStateAt(60, 1, DeviceState::kStarting);
  timed.LaunchAt(76, 0, 1);
  timed.Run({TokenRequest(0, 8, 1)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "2 device 1 added", "10 device 1 failed",
                          "50 device 1 recovered", "75 device 1 ready", "86 done 1 finish 1"));
}

// A model device loads one after another: the first is there when it fails, the second is not.
TEST(FleetStart, DeviceThatRecoversLoadsWhatItLacks) {
  const ModelInfo models[] = {{"first", 10}, {"second", 10}};
  const Fault fault[] = {FaultAt(1, 15, 50)};
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(10), Duration());
  SimSetup setup;
  setup.model = &model;
  const StepTimeModel* const more[] = {&model};
  setup.more_models = more;
  setup.device = SmallDecoder();
  setup.device.load_link = {Duration(), 1'000'000'000};
  setup.devices = 2;
  setup.world.devices_at_start = 1;
  setup.world.models = models;
  setup.world.faults = fault;
  ScriptedPolicy policy;
  policy.on_start = [](Context& context) { EXPECT_EQ(context.actions().Scale(2), Refusal::kNone); };
  policy.on_device_change = [](Context& context, DeviceId device, DeviceChange change) {
    EXPECT_EQ(device.value, 1u);
    if (change == DeviceChange::kRecovered) {
      EXPECT_EQ(context.device(device).loaded_models, 0b01u);
    }
    if (change != DeviceChange::kReady) return;
    EXPECT_EQ(context.device(device).loaded_models, 0b11u);
    context.actions().Finish({0}, EndReason::kRejected);
  };
  ListSource source({TokenRequest(0, 8, 1)});
  RequestSource* const sources[] = {&source};
  EXPECT_EQ(Simulate(setup, &policy, sources, nullptr, {}).result, RunResult::kFinished);
  EXPECT_THAT(policy.seen,
              ElementsAre("0 start", "0 device 1 added", "0 arrival 0", "15 device 1 failed",
                          "50 device 1 recovered", "60 device 1 ready", "60 slot 1"));
}

TEST_F(FleetTest, FaultOfADrainingDeviceLeavesItToBeRemoved) {
  Faults({FaultAt(1, 10, 50)});
  timed.LaunchAt(1, 0, 1);
  ScaleAt(5, 1);
  timed.EndAllAt(90, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "5 device 1 draining", "10 done 1 failed 0",
                                        "10 device 1 failed", "50 device 1 recovered",
                                        "50 device 1 draining", "50 device 1 removed"));
}

TEST_F(FleetTest, FailedDeviceIsScaledWhenItRecovers) {
  Faults({FaultAt(1, 10, 50)});
  ScaleAt(20, 1);
  timed.At(21,
           [](Context& context) { EXPECT_EQ(context.device({1}).state, DeviceState::kFailed); });
  timed.EndAllAt(90, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "10 device 1 failed", "50 device 1 recovered",
                          "50 device 1 draining", "50 device 1 removed"));
}

TEST_F(FleetTest, ScaledDownAndUpAgainWhileItIsFailedItIsUp) {
  Faults({FaultAt(1, 10, 50)});
  ScaleAt(20, 1);
  ScaleAt(30, 2);
  ExpectStateAt(51, 1, DeviceState::kUp);
  timed.EndAllAt(52, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "10 device 1 failed", "50 device 1 recovered"));
}

/// A real device may answer long after: the step that it was at when it failed comes to nothing,
/// and until then it cannot be told anything.
void RunLostAnswer(TimedRun* timed, std::vector<std::string>* told) {
  timed->run.step_time = [](const FakeStep&) { return Duration::Nanos(1); };
  timed->run.MakeDevices();
  timed->run.fakes[0].hold = true;
  timed->LaunchAt(2, 0);
  timed->At(30, [timed](Context&) { timed->run.fakes[0].Release(Time::Nanos(30)); });
  timed->EndAllAt(70, 1);
  timed->Run({TokenRequest(0, 8, 2)});
  *told = timed->Told();
}

TEST_F(FleetTest, RecoversNotBeforeTheLostAnswerHasCome) {
  Faults({FaultAt(0, 10, 20)});
  ExpectStateAt(29, 0, DeviceState::kFailed);
  ExpectStateAt(31, 0, DeviceState::kUp);
  std::vector<std::string> told;
  RunLostAnswer(&timed, &told);
  EXPECT_THAT(told, ElementsAre("0 arrival 0", "10 done 0 failed 0", "10 device 0 failed",
                                "30 device 0 recovered"));
  EXPECT_EQ(timed.run.recorder.Find(0)->output_tokens, 0u) << "the answer was lost";
}

TEST_F(FleetTest, RecoversInItsTimeIfTheLostAnswerHasCome) {
  Faults({FaultAt(0, 10, 50)});
  ExpectStateAt(49, 0, DeviceState::kFailed);
  std::vector<std::string> told;
  RunLostAnswer(&timed, &told);
  EXPECT_THAT(told, ElementsAre("0 arrival 0", "10 done 0 failed 0", "10 device 0 failed",
                                "50 device 0 recovered"));
}

TEST_F(FleetTest, FaultsAfterTheFirstMayBeginWhileTheAnswerIsLost) {
  Faults({FaultAt(0, 10, 20), FaultAt(0, 25, 60)});
  ExpectStateAt(31, 0, DeviceState::kFailed);
  std::vector<std::string> told;
  RunLostAnswer(&timed, &told);
  EXPECT_THAT(told, ElementsAre("0 arrival 0", "10 done 0 failed 0", "10 device 0 failed",
                                "60 device 0 recovered"));
}

// ---- Operations of failed devices ----

/// A transfer of request 0 from device 0 to device 1, from 12 to 37.
void MoveAt12(TimedRun* timed) {
  timed->LaunchAt(1, 0);
  timed->At(12, [](Context& context) {
    TransferSpec spec;
    spec.request = {0};
    spec.from = {0};
    spec.to = {1};
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kNone);
  });
}

TEST_F(FleetTest, WhatIsCopiedFromAFailedDeviceIsLost) {
  Faults({FaultAt(0, 20, 60)});
  MoveAt12(&timed);
  timed.At(21, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 0, 1, 0}));
  });
  timed.LaunchAt(22, 0, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "11 done 0 steps 1", "20 transfer 0 at 1 not done",
                          "20 device 0 failed", "32 done 1 finish 1"));
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 8u);
}

TEST_F(FleetTest, WhatIsCopiedToAFailedDeviceStaysWhereItWas) {
  Faults({FaultAt(1, 20, 60)});
  MoveAt12(&timed);
  timed.At(21, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 0), (Books{8, 0, 8}));
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 8, 1, 2}));
  });
  timed.LaunchAt(22, 0, 0);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(),
              ElementsAre("0 arrival 0", "11 done 0 steps 1", "20 transfer 0 at 1 not done",
                          "20 device 1 failed", "32 done 0 finish 1"));
  EXPECT_EQ(timed.run.recorder.Find(0)->recomputed_tokens, 0u);
}

TEST_F(FleetTest, RequestLostWhileItIsMovedEndsAsFailed) {
  Faults({FaultAt(0, 20, 60, true)});
  MoveAt12(&timed);
  timed.EndAllAt(40, 2);
  timed.Run({TokenRequest(0, 8, 2), TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), ElementsAre("0 arrival 0", "0 arrival 1", "11 done 0 steps 1",
                                        "20 transfer 0 at 1 not done", "20 device 0 failed",
                                        "20 cancel 0 fault"));
  EXPECT_EQ(timed.run.recorder.Find(0)->reason, EndReason::kFailed);
}

TEST_F(FleetTest, OperationsOnAFailedDeviceAreRefused) {
  Faults({FaultAt(1, 5, 60)});
  timed.LaunchAt(1, 0);
  timed.At(12, [](Context& context) {
    TransferSpec spec;
    spec.request = {0};
    spec.from = {0};
    spec.to = {1};
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kDeviceDown);
    EXPECT_EQ(context.actions().Load({1}, {0}).refusal, Refusal::kDeviceDown);
    EXPECT_EQ(context.actions().Unload({1}, {0}).refusal, Refusal::kDeviceDown);
  });
  timed.EndAllAt(13, 1);
  timed.Run({TokenRequest(0, 8, 2)});
}

TEST_F(FleetTest, StageAtAFailedDeviceIsGivenUp) {
  Faults({FaultAt(1, 40, 60)});
  timed.LaunchAt(1, 0);
  timed.At(12, [](Context& context) {
    TransferSpec spec;
    spec.request = {0};
    spec.from = {0};
    spec.to = {1};
    spec.live = true;
    EXPECT_EQ(context.actions().Transfer(spec).refusal, Refusal::kNone);
  });
  timed.At(39, [](Context& context) { EXPECT_EQ(BooksOf(context, 1), (Books{8, 0, 8})); });
  timed.At(41, [](Context& context) {
    EXPECT_EQ(BooksOf(context, 1), (Books{10, 0, 8}));
    EXPECT_EQ(ProgressOf(context, 0), (Progress{RequestState::kWaiting, 9, 8, 1, 2}));
  });
  timed.EndAllAt(42, 1);
  timed.Run({TokenRequest(0, 8, 2)});
}

TEST_F(FleetTest, LoadOnADeviceThatFailsIsNotDone) {
  const ModelInfo models[] = {{"a", 10}, {"b", 10}};
  timed.run.options.models = models;
  Faults({FaultAt(0, 40, 60)});
  timed.At(1, [](Context& context) { context.actions().Unload({0}, {1}); });
  timed.At(27, [](Context& context) {
    EXPECT_EQ(context.actions().Load({0}, {1}).refusal, Refusal::kNone);
  });
  timed.At(61, [](Context& context) {
    EXPECT_EQ(context.device({0}).state, DeviceState::kUp);
    EXPECT_EQ(context.device({0}).loaded_models, 0b01u);
  });
  timed.EndAllAt(62, 1);
  timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_THAT(timed.Told(), testing::Contains("40 load 1 at 0 not done"));
}

TEST_F(FleetTest, FaultForgetsThePrefixCache) {
  timed.run.options.prefix_cache = true;
  Faults({FaultAt(0, 30, 40)});
  timed.LaunchAt(1, 0);
  timed.At(20, [](Context& context) {
    EXPECT_EQ(context.cache({0}).HitTokens({1}), 8u);
    EXPECT_EQ(context.device({0}).cached_blocks, 2u);
  });
  timed.At(41, [](Context& context) {
    EXPECT_EQ(context.cache({0}).HitTokens({1}), 0u);
    EXPECT_EQ(context.device({0}).cached_blocks, 0u);
    EXPECT_EQ(BooksOf(context, 0), (Books{10, 0, 8}));
  });
  timed.EndAllAt(42, 2);
  const ContentSegment text[] = {{7, 12}};
  std::vector<RequestSpec> requests = {TokenRequest(0, 12, 1), TokenRequest(0, 12, 1)};
  for (RequestSpec& request : requests) request.content = text;
  requests[0].prompt_tokens = 8;
  timed.Run(requests);
  EXPECT_THAT(timed.Told(), testing::IsSupersetOf({"11 cache 0 +2 -0", "30 cache 0 +0 -2"}));
}

TEST_F(FleetTest, DeviceThatNeverRecoversIsAStall) {
  Faults({FaultAt(0, 10)});
  const RunSummary summary = timed.Run({TokenRequest(0, 8, 2)});
  EXPECT_EQ(summary.result, RunResult::kStalled);
  EXPECT_THAT(summary.detail, testing::StartsWith("nothing is planned; 1 requests live"));
}

TEST_F(FleetTest, RecoveryToComeIsNoStall) {
  Faults({FaultAt(0, 10, 5000)});
  timed.run.options.max_idle_timers = 10;
  timed.policy.on_slot_free = [](Context& context, DeviceId device) {
    if (context.now() >= Time::Nanos(5000) && context.live({0})) LaunchOne(context, device, {0});
  };
  timed.policy.on_start = [](Context& context) { context.clock().Arm(Time::Nanos(1), 0); };
  timed.policy.on_timer = [](Context& context, std::uint64_t) {
    if (context.live({0})) context.clock().Arm(context.now() + Duration::Nanos(1), 0);
  };
  const RunSummary summary = timed.run.Run(&timed.policy, {TokenRequest(0, 8, 1)});
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
}

}  // namespace
}  // namespace schedtwin
