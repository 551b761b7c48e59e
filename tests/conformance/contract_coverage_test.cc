// Nothing of the contract is left out: when all of its scenarios have run in this process, every
// event has been seen in each world, every action accepted, and refused where it can be, with every
// reason and kind that there is. A part of them alone proves nothing, and is not asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "policies/api/policy.h"
#include "tests/support/two_worlds.h"

namespace schedtwin {
namespace {

// Written where times are measured, which only a real world does.
bool IsMeasurement(EventCode code) {
  return code == EventCode::kStepTimes || code == EventCode::kStepAborted ||
         code == EventCode::kOperationTimes || code == EventCode::kOperationAborted;
}

std::vector<SeenLine> AllEvents(TestWorld world) {
  std::vector<SeenLine> all;
  const auto add = [&](EventCode code, auto last, bool ok = true) {
    for (std::uint64_t detail = 0; detail <= static_cast<std::uint64_t>(last); ++detail) {
      all.push_back(SeenEvent(code, detail, ok));
    }
  };
  for (int number = 1; number <= static_cast<int>(EventCode::kFault); ++number) {
    const auto code = static_cast<EventCode>(number);
    switch (code) {
      case EventCode::kPlanDone:
        add(code, PlanEnd::kFailed);
        break;
      case EventCode::kOperationDone:
        add(code, OperationKind::kUnload, true);
        add(code, OperationKind::kUnload, false);
        break;
      case EventCode::kDeviceChange:
        add(code, DeviceChange::kRemoved);
        break;
      case EventCode::kCancel:
        add(code, CancelBy::kFault);
        break;
      case EventCode::kFinished:
        add(code, EndReason::kCached);
        break;
      default:
        if (world == TestWorld::kCpu || !IsMeasurement(code)) all.push_back(SeenEvent(code));
    }
  }
  return all;
}

std::vector<SeenLine> AllDecisions() {
  std::vector<SeenLine> all;
  const auto add = [&](DecisionCode code, auto last) {
    for (std::uint64_t detail = 0; detail <= static_cast<std::uint64_t>(last); ++detail) {
      all.push_back(SeenDecision(code, true, detail));
    }
  };
  for (int number = 1; number <= static_cast<int>(DecisionCode::kAdopt); ++number) {
    const auto code = static_cast<DecisionCode>(number);
    switch (code) {
      case DecisionCode::kFinish:
        add(code, EndReason::kCached);
        all.erase(std::find(all.begin(), all.end(), SeenDecision(code, true, 0)));  // never
        break;
      case DecisionCode::kPreempt:
        add(code, PreemptMode::kPause);
        break;
      case DecisionCode::kAbort:
        add(code, AbortAt::kStep);
        break;
      case DecisionCode::kSetRole:
        add(code, DeviceRole::kDecode);
        break;
      default:
        all.push_back(SeenDecision(code, true));
    }
  }
  return all;
}

bool SeenRefused(const SeenLines& seen, DecisionCode code) {
  return std::any_of(seen.begin(), seen.end(), [&](const SeenLine& line) {
    return line.kind == LineKind::kDecision && line.code == static_cast<std::uint8_t>(code) &&
           !line.accepted;
  });
}

class ContractCoverage final : public testing::Environment {
 public:
  void TearDown() override {
    if (!AllScenariosRun()) return;
    for (const TestWorld world : {TestWorld::kSim, TestWorld::kCpu}) {
      SCOPED_TRACE("never seen in world " + testing::PrintToString(world));
      const SeenLines& seen = TwoWorlds::Seen(world);
      for (const SeenLine& line : AllEvents(world)) {
        EXPECT_EQ(seen.count(line), 1u) << "event " << int{line.code} << ", " << line.detail
                                        << (line.accepted ? "" : ", not ok");
      }
      for (const SeenLine& line : AllDecisions()) {
        EXPECT_EQ(seen.count(line), 1u) << "decision " << int{line.code} << ", " << line.detail;
      }
      for (int number = 1; number <= static_cast<int>(DecisionCode::kAdopt); ++number) {
        const auto code = static_cast<DecisionCode>(number);
        EXPECT_EQ(SeenRefused(seen, code), HasAnswer(code)) << "decision " << number << ", refused";
      }
    }
  }

 private:
  static bool AllScenariosRun() {
    const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
    for (int i = 0; i < unit.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *unit.GetTestSuite(i);
      if (std::string_view(suite.name()).substr(0, 15) != "Worlds/Contract") continue;
      const int asked_for = suite.total_test_count() - suite.disabled_test_count();
      if (suite.test_to_run_count() < asked_for) return false;
    }
    return true;
  }
};

const testing::Environment* const kCoverage =
    testing::AddGlobalTestEnvironment(new ContractCoverage);

}  // namespace
}  // namespace schedtwin
