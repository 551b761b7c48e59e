// The contract, in each world: the fleet. Models are loaded, unloaded and moved; devices are added
// and removed, fail and come back, change their role.
#include <string>
#include <utility>

#include "tests/conformance/contract_testing.h"

namespace schedtwin {
namespace {

using testing::ElementsAre;

constexpr ModelId kModel = {1};
constexpr RequestId kIt = {0};

class ContractFleet : public testing::TestWithParam<TestWorld> {};

/// Holds its request back while the fleet changes, and keeps what it is told.
class Changing : public Server {
 public:
  void OnArrival(Context& context, RequestId request) override {
    HoldBack(request);
    Server::OnArrival(context, request);
    Begin(context);
  }
  void OnDeviceChange(Context& context, DeviceId device, DeviceChange change) override {
    changes.emplace_back(device.value, change);
    Changed(context, device, change);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    EXPECT_EQ(done.model, kModel);
    EXPECT_LE(done.start, done.end);
    ended.emplace_back(done.kind, done.ok);
    Next(context, done);
  }
  virtual void Begin(Context& context) = 0;
  virtual void Changed(Context&, DeviceId, DeviceChange) {}
  virtual void Next(Context&, const OperationDone&) {}

  std::vector<std::pair<std::uint32_t, DeviceChange>> changes;
  std::vector<std::pair<OperationKind, bool>> ended;
};

const ModelInfo kModels[] = {{"one", 1000}, {"other", 1000}};

struct TwoModels : TwoWorlds {
  TwoModels() {
    devices = 2;
    options.models = kModels;
  }
};

TEST_P(ContractFleet, AModelIsUnloadedAndLoaded) {
  struct Scenario final : Changing {
    void Begin(Context& context) override {
      Actions& actions = context.actions();
      EXPECT_EQ(actions.Load(kFirst, kModel).refusal, Refusal::kBadArgument) << "it is there";
      EXPECT_EQ(actions.Load(kNoDevice, kModel).refusal, Refusal::kUnknownDevice);
      EXPECT_TRUE(context.memory(kFirst).Reserve(kIt, 16));
      EXPECT_EQ(actions.Unload(kFirst, {0}).refusal, Refusal::kModelInUse);
      EXPECT_EQ(actions.Unload(kFirst, kModel).refusal, Refusal::kNone);
      EXPECT_EQ(actions.Unload(kFirst, kModel).refusal, Refusal::kNotLoaded);
    }
    void Next(Context& context, const OperationDone& done) override {
      const bool gone = done.kind == OperationKind::kUnload;
      EXPECT_EQ(context.device(kFirst).loaded(kModel), !gone);
      if (!gone) return ServeAgain(context, kIt);
      EXPECT_EQ(context.actions().Load(kFirst, kModel).refusal, Refusal::kNone);
      EXPECT_EQ(context.actions().Load(kFirst, kModel).refusal, Refusal::kBadArgument);
    }
  };
  TwoModels run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_THAT(played.policy->ended, ElementsAre(std::pair(OperationKind::kUnload, true),
                                                std::pair(OperationKind::kLoad, true)));
  EXPECT_THAT(played.policy->changes, ElementsAre(std::pair(0u, DeviceChange::kCapacity),
                                                  std::pair(0u, DeviceChange::kCapacity)));
}

TEST_P(ContractFleet, WeightsComeFromAnotherDevice) {
  struct Scenario final : Changing {
    void Begin(Context& context) override {
      EXPECT_EQ(context.actions().Unload(kSecond, kModel).refusal, Refusal::kNone);
    }
    void Next(Context& context, const OperationDone& done) override {
      EXPECT_EQ(done.device, kSecond);
      if (done.kind == OperationKind::kLoad) return ServeAgain(context, kIt);
      TransferSpec weights;
      weights.weights = kModel;
      weights.from = kFirst;
      weights.to = kSecond;
      EXPECT_EQ(context.actions().Transfer(weights).refusal, Refusal::kNone);
      std::swap(weights.from, weights.to);
      EXPECT_EQ(context.actions().Transfer(weights).refusal, Refusal::kBadArgument);
    }
  };
  TwoModels run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_THAT(played.policy->ended, ElementsAre(std::pair(OperationKind::kUnload, true),
                                                std::pair(OperationKind::kLoad, true)));
}

// Behind a slow step, so that what is cancelled has not been done; where steps do not stand in the
// way of weights, the load stands in the way of the unload.
TEST_P(ContractFleet, ALoadAndAnUnloadAreCancelled) {
  struct Scenario final : Changing {
    void Begin(Context& context) override {
      EXPECT_EQ(context.actions().Unload(kSecond, kModel).refusal, Refusal::kNone);
    }
    void Next(Context& context, const OperationDone& done) override {
      Actions& actions = context.actions();
      if (first) {
        first = false;
        LaunchOne(context, kSecond, {1});
        return At(context, 1);
      }
      EXPECT_FALSE(done.ok);
      EXPECT_EQ(actions.CancelOperation(done.id), Refusal::kUnknownOperation);
      if (done.kind == OperationKind::kLoad) {
        EXPECT_FALSE(context.device(kSecond).loaded(kModel)) << "all is as it was before";
      } else {
        EXPECT_TRUE(context.device(kSecond).loaded({2}));
      }
      if (ended.size() < 3) return;
      ServeAgain(context, kIt);
      ServeAgain(context, {1});
    }
    void OnOperationDone(Context& context, const OperationDone& done) override {
      ended.emplace_back(done.kind, done.ok);
      Next(context, done);
    }
    void OnArrival(Context& context, RequestId request) override {
      HoldBack(request);
      EXPECT_EQ(context.actions().Route(request, request == kIt ? kFirst : kSecond),
                Refusal::kNone);
      Accept(context, request);
      if (request != kIt) Begin(context);
    }
    void OnTimer(Context& context, std::uint64_t stage) override {
      Actions& actions = context.actions();
      if (stage == 1) {
        load = actions.Load(kSecond, kModel).id;
        unload = actions.Unload(kSecond, {2}).id;
        return At(context, 2);
      }
      EXPECT_EQ(actions.CancelOperation(unload), Refusal::kNone);
      EXPECT_EQ(actions.CancelOperation(load), Refusal::kNone);
    }
    bool first = true;
    OpId load, unload;
  };
  const ModelInfo models[] = {{"one", 1000}, {"other", 1000}, {"third", 1000}};
  TwoModels run;
  run.options.models = models;
  run.layer_pause = Duration::Millis(10);
  const auto played =
      PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 2), TokenRequest(0, 8, 2)});
  EXPECT_THAT(played.policy->ended,
              testing::UnorderedElementsAre(std::pair(OperationKind::kUnload, true),
                                            std::pair(OperationKind::kLoad, false),
                                            std::pair(OperationKind::kUnload, false)));
}

TEST_P(ContractFleet, DevicesAreAddedAndRemoved) {
  struct Scenario final : Changing {
    void Begin(Context& context) override {
      Actions& actions = context.actions();
      EXPECT_EQ(context.device(kSecond).state, DeviceState::kOff);
      EXPECT_EQ(actions.Route(kIt, kSecond), Refusal::kDeviceDown);
      EXPECT_EQ(actions.Scale(0), Refusal::kBadArgument);
      EXPECT_EQ(actions.Scale(3), Refusal::kBadArgument);
      EXPECT_EQ(actions.Scale(2), Refusal::kNone);
      EXPECT_EQ(context.device(kSecond).state, DeviceState::kStarting);
    }
    void Changed(Context& context, DeviceId, DeviceChange change) override {
      if (change == DeviceChange::kReady) {
        EXPECT_TRUE(context.device(kSecond).loaded(kModel));
        EXPECT_EQ(context.actions().Route(kIt, kSecond), Refusal::kNone);
        EXPECT_TRUE(context.memory(kSecond).Reserve(kIt, 8));
        EXPECT_EQ(context.actions().Scale(1), Refusal::kNone);
        EXPECT_EQ(context.device(kSecond).state, DeviceState::kDraining);
      }
      // What it holds it finishes.
      if (change == DeviceChange::kDraining) ServeAgain(context, kIt);
      if (change == DeviceChange::kRemoved) removed_at = context.now();
    }
    void OnPlanDone(Context& context, const PlanDone& done) override {
      if (!done.finished.empty()) finished_at = context.now();
    }
    Time finished_at = Time::Infinite(), removed_at;
  };
  TwoModels run;
  run.options.devices_at_start = 1;
  const auto played = Play<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_EQ(run.recorder.Find(0)->device, kSecond);
  EXPECT_THAT(
      played.policy->changes,
      ElementsAre(std::pair(1u, DeviceChange::kAdded), std::pair(1u, DeviceChange::kReady),
                  std::pair(1u, DeviceChange::kDraining), std::pair(1u, DeviceChange::kRemoved)));
  EXPECT_LE(played.policy->finished_at, played.policy->removed_at);
}

TEST_P(ContractFleet, ARoleIsALabelThatAllSee) {
  struct Scenario final : Changing {
    void Begin(Context& context) override {
      EXPECT_EQ(context.actions().SetRole(kNoDevice, DeviceRole::kDecode), Refusal::kUnknownDevice);
      EXPECT_EQ(context.actions().SetRole(kFirst, DeviceRole::kPrefill), Refusal::kNone);
    }
    void Changed(Context& context, DeviceId device, DeviceChange change) override {
      EXPECT_EQ(device, kFirst);
      EXPECT_EQ(change, DeviceChange::kRole);
      roles.push_back(context.device(kFirst).role);
      if (roles.size() == 3) return ServeAgain(context, kIt);
      const DeviceRole next = roles.size() == 1 ? DeviceRole::kDecode : DeviceRole::kBoth;
      EXPECT_EQ(context.actions().SetRole(kFirst, next), Refusal::kNone);
    }
    std::vector<DeviceRole> roles;
  };
  TwoWorlds run;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_THAT(played.policy->roles,
              ElementsAre(DeviceRole::kPrefill, DeviceRole::kDecode, DeviceRole::kBoth));
}

TEST_P(ContractFleet, AFailedDeviceComesBack) {
  struct Scenario final : Changing {
    void Begin(Context&) override {}
    void Changed(Context& context, DeviceId, DeviceChange change) override {
      const bool failed = change == DeviceChange::kFailed;
      EXPECT_EQ(context.device(kFirst).up(), !failed);
      EXPECT_EQ(context.memory(kFirst).Reserve(kIt, 8), !failed);
      if (!failed) ServeAgain(context, kIt);
    }
  };
  const Fault faults[] = {
      {kFirst, Time() + Duration::Millis(50), Time() + Duration::Millis(80), false}};
  TwoWorlds run;
  run.options.faults = faults;
  const auto played = PlayThrough<Scenario>(run, GetParam(), {TokenRequest(0, 8, 4)});
  EXPECT_THAT(played.policy->changes, ElementsAre(std::pair(0u, DeviceChange::kFailed),
                                                  std::pair(0u, DeviceChange::kRecovered)));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContractFleet, testing::Values(TestWorld::kSim, TestWorld::kCpu),
                         WorldName);

}  // namespace
}  // namespace schedtwin
