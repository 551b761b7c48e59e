// Every policy that ships, in a world that does not leave it alone: devices fail and recover,
// clients leave, deadlines pass. Every request ends once, for a reason that there was; what a
// device lost is computed again; nothing is left waiting.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "policies/api/rng.h"
#include "policies/registry.h"
#include "tests/support/two_worlds.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kRequests = 60;

/// Every policy as it is, and some with settings that take them through a path of their own.
struct Case {
  const PolicyInfo* info;
  policy_testing::Settings settings;
  std::string suffix;

  std::string Name() const { return std::string(info->name) + suffix; }
  friend void PrintTo(const Case& disturbed, std::ostream* out) { *out << disturbed.Name(); }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const PolicyInfo* info : Policies()) cases.push_back({info, {}, ""});
  const PolicyInfo* vllm = FindPolicy("vllm_v1");
  cases.push_back({vllm, {{"async_scheduling", "true"}}, "_async"});
  cases.push_back({vllm, {{"scheduling_policy", "priority"}}, "_priority"});
  cases.push_back(
      {vllm,
       {{"async_scheduling", "true"}, {"scheduling_policy", "priority"}, {"max_num_seqs", "7"}},
       "_async_priority"});
  return cases;
}

class Disturbed : public testing::TestWithParam<Case> {
 protected:
  bool decoder() const { return GetParam().info->decoder; }

  std::vector<RequestSpec> Traffic(std::uint64_t seed) const {
    Rng rng(seed, "disturbed"), priorities(seed, "priorities");
    std::vector<RequestSpec> requests;
    Time at;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      at = at + Duration::Micros(rng.Below(600));
      RequestSpec spec = decoder() ? TokenRequest(at.ns(), 4 + rng.Below(60), 1 + rng.Below(30))
                                   : UnitRequest(at.ns(), 1 + rng.Below(4));
      spec.request_class = i % 2;
      if (rng.Below(5) == 0) spec.leaves = at + Duration::Micros(rng.Below(4000));
      if (rng.Below(5) == 0) spec.deadline = at + Duration::Micros(rng.Below(9000));
      spec.priority = static_cast<std::int32_t>(priorities.Below(3));
      requests.push_back(spec);
    }
    return requests;
  }
};

TEST_P(Disturbed, EndsEveryRequestOnceAndForAReason) {
  std::map<EndReason, std::uint32_t> ends;
  std::uint64_t recomputed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "faults");
    std::vector<Fault> faults;
    for (std::uint32_t device = 0; device < 2; ++device) {
      const Time from = Time() + Duration::Micros(1000 + rng.Below(8000));
      const bool loses = rng.Below(2) == 0;
      faults.push_back({{device}, from, from + Duration::Micros(500 + rng.Below(5000)), loses});
    }
    TwoWorlds run;
    run.device = decoder() ? TinyDecoderInfo() : TinyEncoderInfo();
    run.device.total_blocks = decoder() ? 24 : 0;
    run.devices = 2;
    run.options.faults = faults;
    run.options.deadlines_cancel = true;
    const std::vector<RequestSpec> requests = Traffic(seed);
    const std::string policy(GetParam().info->name);
    run.device.queue_depth = policy_testing::MinQueueDepth(policy, GetParam().settings);
    const auto make = [&] { return policy_testing::MakePolicy(policy, GetParam().settings); };
    const RunSummary summary = run.Run(TestWorld::kSim, make, requests);
    ASSERT_EQ(summary.result, RunResult::kFinished) << summary.detail;
    ASSERT_EQ(run.recorder.requests.size(), requests.size());
    for (const RequestRecord& record : run.recorder.requests) {
      const RequestSpec& spec = requests[record.id.value];
      ++ends[record.reason];
      recomputed += record.recomputed_tokens;
      if (record.reason == EndReason::kCompleted) {
        EXPECT_EQ(record.output_tokens, spec.output_tokens);
      } else if (record.reason == EndReason::kCancelled) {
        EXPECT_EQ(record.end, spec.leaves);
      } else if (record.reason == EndReason::kTimedOut) {
        EXPECT_EQ(record.end, spec.deadline);
      } else if (record.reason != EndReason::kFailed) {
        EXPECT_EQ(record.reason, EndReason::kRejected);
        EXPECT_EQ(policy, "composed") << "turned away while no device was up";
      }
    }
  }
  EXPECT_GT(ends[EndReason::kCompleted], 40u * kRequests / 3);
  EXPECT_GT(ends[EndReason::kCancelled], 0u);
  EXPECT_GT(ends[EndReason::kTimedOut], 0u);
  EXPECT_GT(ends[EndReason::kFailed], 0u);
  EXPECT_TRUE(!decoder() || recomputed > 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, Disturbed, testing::ValuesIn(Cases()),
                         [](const auto& disturbed) { return disturbed.param.Name(); });

}  // namespace
}  // namespace schedtwin
