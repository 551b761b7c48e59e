// The bound of virtual token counters: over any interval in which two clients are backlogged
// throughout, what they are served differs by at most 2 U, where U = max(w_in * longest prompt,
// w_out * tokens that the KV cache holds) (Sheng et al., OSDI'24, Theorem 4.4). Checked at every
// decision of 1,000 random runs with short memory, by service and backlog as the context shows
// them, not by the policy's own counters; and first come first served breaks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "sim/simulate.h"
#include "tests/unit/policy_testing.h"

namespace schedtwin {
namespace {

using policy_testing::ScriptSource;
using policy_testing::Settings;
using policy_testing::Tokens;

#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kWorkloads = 60;
#else
constexpr std::uint64_t kWorkloads = 1000;
#endif

/// Service divided by share, of one client.
using Served = double;

/// Passes everything on to a policy, and looks after each decision what every client was served.
class Auditor final : public Policy {
 public:
  Auditor(std::unique_ptr<Policy> policy, std::vector<double> shares)
      : policy_(std::move(policy)), shares_(std::move(shares)), served_(shares_.size()) {}

  void OnStart(Context& context) override { policy_->OnStart(context); }
  void OnArrival(Context& context, RequestId request) override {
    live_.push_back({request, context.request(request).tenant()});
    policy_->OnArrival(context, request);
  }
  void OnCancel(Context& context, RequestId request, CancelBy by) override {
    policy_->OnCancel(context, request, by);
  }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    Count(context);  // those that end here can still be read
    policy_->OnPlanDone(context, done);
  }
  void OnSlotFree(Context& context, DeviceId device) override {
    policy_->OnSlotFree(context, device);
    Count(context);
    Audit(context);
  }

  /// The largest difference of service over any interval of common backlog.
  double largest() const { return largest_; }
  /// Decisions at which two clients were backlogged.
  std::uint64_t contended() const { return contended_; }

 private:
  struct Known {
    RequestId request;
    std::uint32_t tenant;
    bool admitted = false;
    std::uint32_t output_tokens = 0;
  };
  struct Range {
    double least = 0;
    double most = 0;
  };

  void Count(Context& context) {
    std::erase_if(live_, [&](const Known& known) { return !context.live(known.request); });
    for (Known& known : live_) {
      const RequestView view = context.request(known.request);
      Served& served = served_[known.tenant];
      if (!known.admitted && view.scheduled_tokens() > 0) {
        known.admitted = true;
        served += view.prompt_tokens() / shares_[known.tenant];
      }
      served += 2.0 * (view.output_tokens() - known.output_tokens) / shares_[known.tenant];
      known.output_tokens = view.output_tokens();
    }
  }

  void Audit(Context& context) {
    std::vector<bool> backlogged(shares_.size());
    for (const Known& known : live_) {
      const RequestView view = context.request(known.request);
      if (view.state() == RequestState::kEnded) continue;
      // Nothing of it is computed or on its way: it waits.
      if (view.scheduled_tokens() == 0) backlogged[known.tenant] = true;
    }
    bool contended = false;
    for (std::uint32_t a = 0; a < shares_.size(); ++a) {
      for (std::uint32_t b = a + 1; b < shares_.size(); ++b) {
        if (!backlogged[a] || !backlogged[b]) {
          together_.erase({a, b});
          continue;
        }
        contended = true;
        const double difference = served_[a] - served_[b];
        Range& range = together_.try_emplace({a, b}, Range{difference, difference}).first->second;
        range.least = std::min(range.least, difference);
        range.most = std::max(range.most, difference);
        largest_ = std::max(largest_, range.most - range.least);
      }
    }
    contended_ += contended;
  }

  std::unique_ptr<Policy> policy_;
  std::vector<double> shares_;  ///< by tenant
  std::vector<Served> served_;
  std::vector<Known> live_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Range> together_;
  double largest_ = 0;
  std::uint64_t contended_ = 0;
};

struct Workload {
  std::vector<RequestSpec> requests;
  std::vector<double> shares;  ///< by tenant
  std::string weights;         ///< likewise, as the policy is told
  std::uint32_t blocks = 0;
  std::uint32_t max_num_seqs = 0;
  std::uint32_t longest_prompt = 0;

  double bound() const { return 2.0 * std::max(longest_prompt, 2 * blocks * 4); }
};

/// Two to five clients, one of them greedy; short memory or few places.
Workload MakeWorkload(std::uint64_t seed, bool weighted) {
  Rng rng(seed, "vtc workload");
  Workload workload;
  workload.blocks = 10 + rng.Below(30);
  workload.max_num_seqs = 1 + rng.Below(12);
  const std::uint32_t clients = 2 + rng.Below(4);
  for (std::uint32_t i = 0; i < clients; ++i) {
    const std::uint32_t share = weighted ? 1 + rng.Below(4) : 1;
    workload.shares.push_back(share);
    workload.weights += (i == 0 ? "" : ":") + std::to_string(share);
  }
  std::int64_t at = 0;
  while (workload.requests.size() < 120) {
    at += rng.Below(20);
    const std::uint32_t tenant = rng.Below(2) == 0 ? 0 : rng.Below(clients);
    const std::uint32_t prompt = 1 + rng.Below(tenant == 0 ? 20 : 10);
    workload.requests.push_back(Tokens(at, prompt, 1 + rng.Below(tenant == 0 ? 20 : 8)));
    workload.requests.back().tenant = tenant;
    workload.longest_prompt = std::max(workload.longest_prompt, prompt);
  }
  return workload;
}

/// What came of it: the largest difference, and how often it could have grown.
struct Audited {
  double largest;
  std::uint64_t contended;
};

Audited RunAudited(const Workload& workload, const std::string& policy, Settings settings) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(5), Duration::Nanos(1));
  SimSetup setup;
  setup.model = &model;
  setup.device.total_blocks = workload.blocks;
  setup.device.block_tokens = 4;
  setup.device.max_model_len_tokens = 40;
  settings.emplace_back("plan_steps", "1");  // so that every boundary is seen
  settings.emplace_back("max_num_seqs", std::to_string(workload.max_num_seqs));
  Auditor auditor(policy_testing::MakePolicy(policy, settings), workload.shares);
  ScriptSource source(workload.requests);
  RequestSource* const sources[] = {&source};
  policy_testing::KeepAll kept;
  const RunSummary summary = Simulate(setup, &auditor, sources, &kept, {});
  EXPECT_EQ(summary.ended[0], workload.requests.size()) << summary.detail;
  return {auditor.largest(), auditor.contended()};
}

class VtcBound : public testing::TestWithParam<bool> {};

TEST_P(VtcBound, HoldsOnRandomWorkloads) {
  std::uint64_t contended = 0;
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= kWorkloads; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Workload workload = MakeWorkload(seed, GetParam());
    const Audited audited = RunAudited(workload, "vtc", {{"weights", workload.weights}});
    ASSERT_LE(audited.largest, workload.bound());
    closest = std::max(closest, audited.largest / workload.bound());
    contended += audited.contended > 20;
  }
  EXPECT_GT(contended, kWorkloads * 9 / 10) << "two clients were hardly ever backlogged";
  EXPECT_GT(closest, 0.2) << "the bound was never approached";
}

INSTANTIATE_TEST_SUITE_P(Shares, VtcBound, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "Weighted" : "Equal");
});

// One client floods before the other comes: first come first served serves the flood alone while
// both wait.
TEST(VtcBoundOfFcfs, DoesNotHold) {
  Workload workload;
  workload.shares = {1, 1};
  workload.weights = "1:1";
  workload.blocks = 10;
  workload.max_num_seqs = 4;
  workload.longest_prompt = 8;
  for (int i = 0; i < 60; ++i) workload.requests.push_back(Tokens(0, 8, 8));
  for (int i = 0; i < 20; ++i) {
    workload.requests.push_back(Tokens(1, 8, 8));
    workload.requests.back().tenant = 1;
  }
  EXPECT_GT(RunAudited(workload, "composed", {}).largest, 2 * workload.bound());
  EXPECT_LE(RunAudited(workload, "vtc", {}).largest, workload.bound());
}

}  // namespace
}  // namespace schedtwin
