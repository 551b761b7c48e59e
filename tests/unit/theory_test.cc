// The simulator against queueing theory: the queues of tests/support/queueing_systems.h at the
// loads of every day (the others: tests/soak/theory_soak.cc), and Little's law. A request's size is
// its service time in nanoseconds, so nothing stands between the theory and the run but the
// rounding of draws to 1 ns in a million; where sizes are coarse, the theory is that of the coarse
// sizes.
//
// Every seed gives one interval (tests/support/batch_means.h). The runs are deterministic: an
// interval that holds the theoretical value today holds it on every machine and for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "policies/runtime/world.h"
#include "sim/simulate.h"
#include "tests/support/batch_means.h"
#include "tests/support/queueing_run.h"
#include "tests/support/queueing_source.h"
#include "tests/support/queueing_systems.h"
#include "tests/support/queueing_theory.h"
#include "tests/unit/policy_testing.h"
#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

using queueing::kEveryDayLoads;
using queueing::kHalfWidths;
using queueing::kLoads;
using queueing::Queue;

// The other presets sweep invariants after every event, some unoptimised or under sanitizers, which
// is 10 to 60 times slower. There 4 seeds with batches of a 16th, whose intervals are 4 times as
// wide, still catch what is wrong by a few percent; the release preset holds the stated precision.
// One of 4 may miss as 2 of 20 may: exact 99% intervals do worse in one queue of a thousand.
#ifdef SCHEDTWIN_HARDENED
constexpr std::uint64_t kSeeds = 4;
constexpr std::uint64_t kMustHold = 3;
constexpr std::uint64_t kShorter = 16;
constexpr double kWider = 4;
#else
constexpr std::uint64_t kSeeds = queueing::kSeeds;
constexpr std::uint64_t kMustHold = queueing::kMustHold;
constexpr std::uint64_t kShorter = 1;
constexpr double kWider = 1;
#endif

TEST(TheorySource, IsTheBuiltInGenerator) {
  const auto trace = OpenTrace(
      {.spec = "synth:poisson:count=1000,rate=700,units=1000000,unit_dist=exponential", .seed = 5});
  ASSERT_TRUE(trace.ok()) << trace.status();
  queueing::QueueingSource source(5, 1000, 0.7, {}, {{}});
  RequestSpec spec;
  for (const TraceRow& row : (*trace)->rows) {
    ASSERT_EQ(source.Next(&spec), Pull::kRequest);
    ASSERT_EQ(spec.arrival.ns(), row.arrival_ns);
    ASSERT_EQ(spec.units, row.units);
  }
  EXPECT_EQ(source.Next(&spec), Pull::kDry);
}

// Mean and second moment of what each law draws, within 5 deviations.
TEST(TheorySource, DrawsTheLaws) {
  using enum queueing::Law;
  for (const queueing::Law law :
       {kConstant, kExponential, kUniform, kTwoPoint, kHyperexponential}) {
    constexpr int kDraws = 200'000;
    Rng rng(1, "laws", static_cast<std::uint64_t>(law));
    double sum = 0, squares = 0, fourths = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = queueing::Draw(law, rng);
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
    const double second = queueing::SecondMoment(law);
    EXPECT_NEAR(sum / kDraws, 1, 5 * std::sqrt((second - 1) / kDraws) + 1e-12);
    EXPECT_NEAR(squares / kDraws, second,
                5 * std::sqrt((fourths / kDraws - second * second) / kDraws) + 1e-12);
  }
}

// Of the laws that are rounded to few tokens, the very distribution.
TEST(TheorySource, DrawsTheLawsInQuanta) {
  for (const queueing::Law law : {queueing::Law::kExponential, queueing::Law::kUniform}) {
    constexpr int kDraws = 400'000;
    queueing::QueueingSource source(1, kDraws, 0.7, {ModelKind::kDecoder, queueing::kQuanta},
                                    {{1, 1, law}});
    const std::vector<double> expected = queueing::QuantaLaw(law);
    std::vector<int> seen(expected.size());
    RequestSpec spec;
    while (source.Next(&spec) == Pull::kRequest) ++seen.at(spec.output_tokens);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double mean = kDraws * expected[k];
      EXPECT_NEAR(seen[k], mean, 5 * std::sqrt(mean) + 1) << k << " quanta";
    }
  }
}

class Theory : public testing::TestWithParam<std::tuple<Queue, std::size_t>> {};

TEST_P(Theory, Holds) {
  const auto& [queue, load] = GetParam();
  const std::uint64_t batch = queue.batches[load] / kShorter;
  std::vector<queueing::QueueRun> runs;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    runs.push_back(queueing::RunQueue(queue, kLoads[load], seed, batch));
    ASSERT_EQ(runs.back().error, "");
  }
  for (std::size_t k = 0; k < queue.classes.size(); ++k) {
    const double theory = queueing::Theory(queue, kLoads[load], k);
    const SeedsVerdict verdict(queueing::ClassOf(runs, k), theory);
    const std::string name = queueing::MeasureName(queue, k);
    std::printf(
        "%s at load %.1f: theory %.6f, mean of %d seeds %.6f, widest half-width %.3f%%, "
        "%d hold it\n",
        name.c_str(), kLoads[load], theory, static_cast<int>(kSeeds), verdict.mean,
        100 * verdict.widest, static_cast<int>(verdict.held));
    EXPECT_GE(verdict.held, kMustHold) << name;
    EXPECT_LE(verdict.widest, kWider * kHalfWidths[load]) << name;
  }
}

std::string TheoryName(const testing::TestParamInfo<Theory::ParamType>& info) {
  const auto& [queue, load] = info.param;
  std::string name;
  for (const char c : queue.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return name + "Load" + std::to_string(std::lround(100 * kLoads[load]));
}

INSTANTIATE_TEST_SUITE_P(Queues, Theory,
                         testing::Combine(testing::ValuesIn(queueing::Queues()),
                                          testing::Range(std::size_t{0}, kEveryDayLoads)),
                         TheoryName);

// What holds for the stepped processor holds for the shared one: whatever the law, the quantum
// takes less from its mean than an interval is wide.
TEST(TheorySharing, QuantaAreFine) {
  for (const queueing::Law law : {queueing::Law::kExponential, queueing::Law::kUniform}) {
    for (std::size_t load = 0; load < kLoads.size(); ++load) {
      const double stepped = queueing::SteppedSharingTime(queueing::QuantaLaw(law), kLoads[load]);
      EXPECT_NEAR(stepped / queueing::ProcessorSharingTime(kLoads[load]), 1, 0.012);
    }
  }
}

// Batches must be long against the time in which a queue forgets: 1 / (1 - sqrt(load))^2 services
// in M/M/1, in proportion to 1 + the squared coefficient of variation, and shorter with several
// servers. (Of a shared processor the law matters less: M/M/1's is taken.)
TEST(TheoryBatches, AreLongAgainstTheRelaxationTime) {
  for (const Queue& queue : queueing::Queues()) {
    double second = 2;
    if (queue.discipline != queueing::Discipline::kProcessorSharing) {
      second = 0;
      for (const queueing::ServiceClass& service : queue.classes) {
        second += service.share * service.mean * service.mean * SecondMoment(service.law);
      }
    }
    for (std::size_t load = 0; load < kLoads.size(); ++load) {
      const double root = 1 - std::sqrt(kLoads[load]);
      const double relaxation = second / 2 / (root * root) / queue.width;
      const double batch = static_cast<double>(queue.batches[load]) / Rate(queue, kLoads[load]);
      EXPECT_GE(batch, 20 * relaxation) << queue.name << " at load " << kLoads[load];
    }
  }
}

// ---- Little's law, from empty to empty, in integer nanoseconds ----

/// A policy that counts what is in the system by the events alone: an arrival, a finish. It passes
/// everything on.
class Counted final : public Policy {
 public:
  explicit Counted(Policy* inner) : inner_(inner) {}

  void OnStart(Context& context) override { inner_->OnStart(context); }
  void OnArrival(Context& context, RequestId request) override {
    Advance(context.now());
    ++in_system_;
    most_ = std::max(most_, in_system_);
    inner_->OnArrival(context, request);
  }
  void OnTimer(Context& context, std::uint64_t tag) override { inner_->OnTimer(context, tag); }
  void OnSlotFree(Context& context, DeviceId device) override {
    inner_->OnSlotFree(context, device);
  }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    Advance(context.now());
    in_system_ -= static_cast<std::int64_t>(done.finished.size());
    inner_->OnPlanDone(context, done);
  }

  /// The integral of the number in the system over time.
  std::int64_t area_ns() const { return area_ns_; }
  std::int64_t in_system() const { return in_system_; }
  std::int64_t most() const { return most_; }

 private:
  void Advance(Time now) {
    area_ns_ += in_system_ * (now - last_).ns();
    last_ = now;
  }

  Policy* inner_;
  std::int64_t in_system_ = 0;
  std::int64_t most_ = 0;
  std::int64_t area_ns_ = 0;
  Time last_;
};

struct Sums {
  std::int64_t sojourns_ns = 0;
  std::int64_t busy_ns = 0;     ///< of all devices
  std::int64_t service_ns = 0;  ///< from first start to end, of all requests
};

Sums Add(const policy_testing::KeepAll& kept) {
  Sums sums;
  for (const RequestRecord& record : kept.requests) {
    sums.sojourns_ns += (record.end - record.arrival).ns();
    sums.service_ns += (record.end - record.first_start).ns();
  }
  for (const StepRecord& record : kept.steps) sums.busy_ns += (record.end - record.start).ns();
  return sums;
}

void HoldsLittlesLaw(const SimSetup& setup, const std::string& policy_name,
                     const policy_testing::Settings& settings, const std::string& trace_spec,
                     policy_testing::KeepAll* kept, RunSummary* summary) {
  const auto trace = OpenTrace({.spec = trace_spec, .seed = 3});
  ASSERT_TRUE(trace.ok()) << trace.status();
  TraceSourceOptions options;
  options.as_units = setup.device.kind == ModelKind::kOneShot;
  const auto source = TraceSource::Create(*trace, options);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::unique_ptr<Policy> policy = policy_testing::MakePolicy(policy_name, settings);
  ASSERT_NE(policy, nullptr);
  Counted counted(policy.get());
  RequestSource* const sources[] = {source->get()};
  *summary = Simulate(setup, &counted, sources, kept, {.steps = true});
  ASSERT_EQ(summary->result, RunResult::kFinished) << summary->detail;
  EXPECT_EQ(counted.in_system(), 0);
  EXPECT_GT(counted.most(), 5) << "too little traffic to say anything";
  EXPECT_EQ(counted.area_ns(), Add(*kept).sojourns_ns);
}

TEST(LittlesLaw, ExactUnderFifo) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(1));
  for (const std::uint32_t devices : {1u, 2u}) {
    SimSetup setup;
    setup.model = &model;
    setup.device.kind = ModelKind::kOneShot;
    setup.devices = devices;
    policy_testing::KeepAll kept;
    RunSummary summary;
    HoldsLittlesLaw(setup, "fifo", {},
                    "synth:poisson:count=20000,rate=" + std::to_string(700 * devices) +
                        ",units=1000000,unit_dist=exponential",
                    &kept, &summary);
    // Little's law for the servers alone: what is in service is on a device, and the other way
    // round.
    const Sums sums = Add(kept);
    EXPECT_EQ(sums.busy_ns, sums.service_ns);
    std::int64_t units = 0;
    for (const RequestRecord& record : kept.requests) units += record.units;
    EXPECT_EQ(sums.busy_ns, units);
  }
}

TEST(LittlesLaw, ExactUnderVllmV1WithPreemptions) {
  const StepTimeModel model = StepTimeModel::Linear(Duration::Micros(5000), Duration::Micros(20));
  for (const policy_testing::Form& form : policy_testing::kForms) {
    SimSetup setup;
    setup.model = &model;
    setup.device.total_blocks = 600;
    setup.device.block_tokens = 16;
    policy_testing::KeepAll kept;
    RunSummary summary;
    HoldsLittlesLaw(setup, "vllm_v1", form.settings(),
                    "synth:poisson:count=2000,rate=20,prompt=300,output=150,"
                    "token_dist=exponential",
                    &kept, &summary);
    EXPECT_GT(summary.preemptions, 0u);
    EXPECT_EQ(kept.requests.size(), 2000u);
  }
}

}  // namespace
}  // namespace schedtwin
