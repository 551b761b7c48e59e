#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "experiments/runner.h"
#include "experiments/store/check.h"
#include "experiments/sweep.h"
#include "experiments/world_setup.h"
#include "tests/unit/experiments_testing.h"

namespace schedtwin {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

RunSpec MustResolve(const std::vector<std::pair<std::string, std::string>>& fields) {
  Experiment experiment;
  for (const auto& [path, text] : fields) EXPECT_TRUE(experiment.Set(path, text, "test").ok());
  Resolver resolver;
  auto spec = resolver.Resolve(experiment);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

// Never starts anything.
class Idler final : public Policy {};
const PolicyInfo kIdler = {.name = "idler",
                           .summary = "Starts nothing.",
                           .source = "none",
                           .one_shot = true,
                           .decoder = true,
                           .create = [](const Parameters&) -> std::unique_ptr<Policy> {
                             return std::make_unique<Idler>();
                           }};

TEST(Runner, AStallIsAResultAndIsStored) {
  RunSpec spec = MustResolve({{"trace", "synth:azure_conv"}, {"trace.limit", "10"}});
  spec.policy = &kIdler;
  RowRecorder recorder(RecordLevel::kSummary, spec.slo, 10, nullptr);
  const auto result = RunSim(spec, {}, &recorder);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.result, RunResult::kStalled);
  const RunOutcome outcome = OutcomeOf(*result, MetricsOf(*result, &recorder), 0);
  EXPECT_EQ(outcome.result, "stalled");
  EXPECT_NE(outcome.result_detail, "");
  EXPECT_EQ(outcome.requests, 10);

  auto store = Store::OpenForWriting(TempPath("a.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  RunInfo info = InfoOf(spec);
  info.record = "summary";
  const auto run = (*store)->BeginRun(info);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*store)->Publish(*run, outcome).ok());
  EXPECT_EQ(*(*store)->database().Integer("SELECT unfinished FROM published_runs"), 10);
  EXPECT_EQ(*(*store)->database().Integer("SELECT first_arrival_ns FROM published_runs"), 0);
  EXPECT_THAT(CheckStore(**store)->problems, IsEmpty());
}

TEST(Runner, StopsWhenTold) {
  const RunSpec spec = MustResolve({{"trace", "synth:azure_conv"}});
  const std::atomic<bool> stop = true;
  RowRecorder recorder(RecordLevel::kSummary, spec.slo, 0, nullptr);
  const auto result = RunSim(spec, {.stop = &stop}, &recorder);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.result, RunResult::kInterrupted);
}

TEST(Runner, CountsRequestsForWhoWatches) {
  const RunSpec spec = MustResolve({{"trace", "synth:azure_conv"}, {"trace.limit", "50"}});
  std::atomic<std::uint64_t> seen = 0;
  RowRecorder recorder(RecordLevel::kSummary, spec.slo, 50, nullptr);
  ASSERT_TRUE(RunSim(spec, {.requests_seen = &seen}, &recorder).ok());
  EXPECT_EQ(seen.load(), 50u);
}

TEST(Runner, StatesWhatARunIs) {
  const RunSpec spec = MustResolve({{"trace", "synth:azure_conv"},
                                    {"trace.rate_scale", "1.5"},
                                    {"policy.max_num_seqs", "7"},
                                    {"seed", "9"},
                                    {"slo.ttft", "200ms"}});
  const RunInfo info = InfoOf(spec);
  EXPECT_EQ(info.policy, "vllm_v1");
  EXPECT_EQ(info.model, "llama3-8b");
  EXPECT_EQ(info.trace_transforms, "rate_scale=1.5");
  EXPECT_EQ(info.trace_hash.size(), 16u);
  EXPECT_EQ(info.profile_hash.size(), 16u);
  EXPECT_EQ(info.slo.ttft, Duration::Millis(200));
  EXPECT_THAT(info.experiment, HasSubstr("profile: \"llama3-8b-a100\""));
  int set = 0;
  for (const ParameterValue& value : info.parameters) {
    if (value.is_default) continue;
    ++set;
    EXPECT_EQ(value.name + "=" + value.value, "max_num_seqs=7");
  }
  EXPECT_EQ(set, 1);
}

TEST(Resolver, WritesOutTheDefaultsOfParameters) {
  const RunSpec spec = MustResolve({{"policy.max_num_seqs", "7"}});
  for (const ParameterValue& value : spec.parameter_values) {
    EXPECT_THAT(spec.experiment,
                HasSubstr("name: \"" + value.name + "\"\n    value: \"" + value.value + "\""));
  }
}

TEST(Resolver, SaysWhichFieldIsWrong) {
  const struct {
    const char* path;
    const char* text;
    const char* says;
  } cases[] = {
      {"slo.tpot", "76000000min", "test: slo.tpot cannot be '76000000min'; it is at most"},
      {"slo.e2e", "525601min", "it is at most 365 days"},
      {"trace.length_scale", "x", "test: trace.length_scale cannot be 'x'"},
      {"trace.rate_scale", "0.00000001", "test: rate scale 0.00000001 stretches"},
      {"trace.length_scale", "10000000", "test: length scale 10000000 makes"},
      {"queue_depth", "0", "test: queue_depth cannot be '0'; it takes an integer from 1 to"},
      {"kv_blocks", "0", "test: kv_blocks cannot be '0'; it takes an integer from 1 to"},
      {"prefix_cache", "yes", "test: prefix_cache cannot be 'yes'; it is true or false"},
      {"isolate_tenants", "true", "test: tenants are isolated in the prefix cache"},
      {"devices_at_start", "2", "it takes an integer from 1 to 1"},
      {"report_delay", "1ms", "test: a delay of reports that nobody writes"},
      {"fault", "1@5s", "test: fault '1@5s': device cannot be '1'; it is a number from 0 to 0"},
      {"fault", "0", "at cannot be ''"},
      {"fault", "0@5s-5s", "until, 5s, is not after 5s"},
      {"fault", "0@5s-", "at cannot be '5s-'"},
      {"fault", "0@5s,lose", "at cannot be '5s,lose'; it is the time since the start"},
      {"decision_cost", "some", "test: decision_cost cannot be 'some'; it is zero, a duration"},
      {"length_predictor", "psychic", "test: there is no length predictor 'psychic'"},
      {"length_predictor", "oracle", "tells policies the true output lengths"},
      {"length_predictor", "noisy:sigma=0", "grant that with --oracle"},
  };
  for (const auto& [path, text, says] : cases) {
    Experiment experiment;
    ASSERT_TRUE(experiment.Set(path, text, "test").ok());
    EXPECT_THAT(Resolver().Resolve(experiment).status().message(), HasSubstr(says));
  }
  EXPECT_EQ(MustResolve({{"slo.e2e", "525600min"}}).slo.e2e, Duration::Seconds(31'536'000));
}

TEST(WorldSetup, SaysAllThatTheExperimentSays) {
  const RunSpec spec = MustResolve({{"devices", "3"},
                                    {"queue_depth", "2"},
                                    {"kv_blocks", "100"},
                                    {"host_blocks", "7"},
                                    {"devices_at_start", "2"},
                                    {"fault", "1@1s-2s,loses; 0@3s"},
                                    {"report_interval", "10ms"},
                                    {"report_delay", "1ms"},
                                    {"prefix_cache", "true"},
                                    {"isolate_tenants", "true"},
                                    {"length_predictor", "oracle"},
                                    {"oracle", "true"},
                                    {"decision_cost", "50us"},
                                    {"tie_seed", "9"},
                                    {"trace.deadline", "5s"},
                                    {"seed", "4"}});
  EXPECT_EQ(spec.device.queue_depth, 2u);
  EXPECT_EQ(spec.device.total_blocks, 100u);
  EXPECT_EQ(spec.device.host_blocks, 7u);
  const auto setup = WorldSetup::Of(spec);
  ASSERT_TRUE(setup.ok()) << setup.status();
  const WorldOptions world = setup->options();
  EXPECT_EQ(world.seed, 4u);
  EXPECT_EQ(world.tie_seed, 9u);
  EXPECT_EQ(world.devices_at_start, 2u);
  EXPECT_TRUE(world.prefix_cache);
  EXPECT_TRUE(world.isolate_tenants);
  EXPECT_TRUE(world.deadlines_cancel);
  EXPECT_FALSE(world.identify_blocks);
  EXPECT_EQ(world.decision_cost.fixed, Duration::Micros(50));
  EXPECT_EQ(world.report_interval, Duration::Millis(10));
  EXPECT_EQ(world.report_delay, Duration::Millis(1));
  ASSERT_EQ(world.faults.size(), 2u);
  EXPECT_EQ(world.faults[0].device.value, 1u);
  EXPECT_EQ(world.faults[0].until, Time::Nanos(2'000'000'000));
  EXPECT_TRUE(world.faults[0].loses_requests);
  EXPECT_TRUE(world.faults[1].until.infinite());
  ASSERT_NE(world.lengths, nullptr);
  EXPECT_EQ(world.lengths->Predict({0}, 123), 123u);
  ASSERT_EQ(world.models.size(), 1u);
  EXPECT_EQ(world.models[0].weights_bytes, 16'060'522'496u);
  EXPECT_TRUE(InfoOf(spec).oracle) << "what tells the truth is marked";
  EXPECT_FALSE(InfoOf(MustResolve({{"oracle", "true"}})).oracle) << "granted and not used";
}

// Swaps its request out after the first token, and in again.
class Swapper final : public Policy {
 public:
  void OnArrival(Context& context, RequestId request) override {
    Launch(context, request, context.request(request).prompt_tokens());
  }
  void OnPlanDone(Context& context, const PlanDone& done) override {
    if (!done.finished.empty()) return;
    const RequestId request = done.entries[0].request;
    if (swapped_) return Launch(context, request, 1);
    swapped_ = true;
    EXPECT_EQ(context.actions().Preempt(request, PreemptMode::kSwap), Refusal::kNone);
  }
  void OnOperationDone(Context& context, const OperationDone& done) override {
    EXPECT_TRUE(done.ok);
    if (done.kind == OperationKind::kSwapIn) return Launch(context, done.request, 1);
    const Started back = context.actions().Transfer({.request = done.request,
                                                     .from = {0},
                                                     .to = {0},
                                                     .from_tier = Tier::kHost,
                                                     .to_tier = Tier::kDevice});
    EXPECT_EQ(back.refusal, Refusal::kNone);
  }

 private:
  static void Launch(Context& context, RequestId request, std::uint32_t tokens) {
    EXPECT_TRUE(context.memory({0}).Reserve(request, context.request(request).known_tokens()));
    const Entry entry = {request, tokens};
    EXPECT_TRUE(context.actions().Launch({.device = {0}, .entries = {&entry, 1}}).ok());
  }

  bool swapped_ = false;
};
const PolicyInfo kSwapper = {.name = "swapper",
                             .summary = "Swaps.",
                             .source = "none",
                             .decoder = true,
                             .create = [](const Parameters&) -> std::unique_ptr<Policy> {
                               return std::make_unique<Swapper>();
                             }};

TEST(Runner, AShippedProfileSwapsOverItsLink) {
  RunSpec spec = MustResolve({{"trace", "synth:poisson:rate=1,count=1,prompt=100,output=4"}});
  spec.policy = &kSwapper;
  RowRecorder recorder(RecordLevel::kSteps, spec.slo, 1, nullptr);
  const auto result = RunSim(spec, {}, &recorder);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.result, RunResult::kFinished) << result->summary.detail;
  const RunMetrics metrics = MetricsOf(*result, &recorder);
  EXPECT_EQ(metrics.completed, 1);
  constexpr std::int64_t kBytes = 7 * (2 << 20);  // 100 tokens are 7 blocks of 2 MiB
  for (const std::size_t kind : {0, 1}) {
    EXPECT_EQ(metrics.operations[kind].done, 1) << kOperationNames[kind];
    EXPECT_EQ(metrics.operations[kind].bytes, kBytes) << kOperationNames[kind];
  }
  const RowBuffer rows = recorder.TakeRows();
  ASSERT_EQ(rows.operations.size(), 2u);
  for (const OperationRecord& operation : rows.operations) {
    // 10 us, and 25 bytes a nanosecond.
    EXPECT_EQ((operation.end - operation.start).ns(), 10'000 + (kBytes + 24) / 25);
  }
}

std::vector<SweepPoint> SeedPoints(int count) {
  Experiment base;
  EXPECT_TRUE(base.Set("trace.limit", "30", "test").ok());
  Axis axis = {"seed", {}, "test"};
  for (int i = 1; i <= count; ++i) axis.values.push_back(std::to_string(i));
  Resolver resolver;
  auto points = ExpandPoints(base, {axis}, &resolver);
  EXPECT_TRUE(points.ok()) << points.status();
  return *std::move(points);
}

TEST(Sweep, PublishesEveryPointInOrderOnTheCallersThread) {
  const std::vector<SweepPoint> points = SeedPoints(20);
  std::vector<std::uint64_t> digests[2];
  for (const unsigned jobs : {1u, 3u}) {
    std::size_t next = 0;
    const absl::Status status =
        RunSweep(points, jobs, nullptr, [&](std::size_t index, const PointResult& result) {
          EXPECT_EQ(index, next++);
          digests[jobs / 3].push_back(result.run->summary.outcome_digest);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(next, points.size());
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Sweep, EndsAtTheFirstErrorAndWhenStopped) {
  const std::vector<SweepPoint> points = SeedPoints(50);
  int published = 0;
  const absl::Status status =
      RunSweep(points, 2, nullptr, [&](std::size_t index, const PointResult&) {
        ++published;
        return index == 3 ? absl::DataLossError("full") : absl::OkStatus();
      });
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(published, 4);
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(absl::IsCancelled(RunSweep(points, 2, &stop, [&](std::size_t, const PointResult&) {
    ADD_FAILURE() << "published after the stop";
    return absl::OkStatus();
  })));
}

TEST(Sweep, HoldsNoTracesOfManySeeds) {
  for (const SweepPoint& point : SeedPoints(3)) EXPECT_NE(point.spec.trace, nullptr);
  for (const SweepPoint& point : SeedPoints(20)) {
    EXPECT_EQ(point.spec.trace, nullptr);
    EXPECT_EQ((*TraceOf(point.spec))->provenance.source.find("synth:azure_conv"), 0u);
  }
  // A trace that draws nothing is one for all seeds.
  Experiment base;
  ASSERT_TRUE(base.Set("trace", "synth:deterministic:count=5", "test").ok());
  Axis axis = {"seed", {}, "test"};
  for (int i = 0; i < 20; ++i) axis.values.push_back(std::to_string(i));
  Resolver resolver;
  const auto points = ExpandPoints(base, {axis}, &resolver);
  ASSERT_TRUE(points.ok()) << points.status();
  EXPECT_EQ(points->front().spec.trace, points->back().spec.trace);
  EXPECT_NE(points->front().spec.trace, nullptr);
}

TEST(Sweep, ExpandsTheLastAxisFastest) {
  Resolver resolver;
  const std::vector<Axis> axes = {{"policy.max_num_seqs", {"2", "4"}, "test"},
                                  {"seed", {"1", "2", "3"}, "test"}};
  const auto points = ExpandPoints(Experiment(), axes, &resolver);
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 6u);
  EXPECT_EQ((*points)[4].values, (std::vector<std::string>{"4", "2"}));
  EXPECT_EQ((*points)[4].spec.seed, 2);
  EXPECT_EQ((*points)[0].spec.seed, (*points)[3].spec.seed) << "the same traffic";
  const std::vector<Axis> bad = {{"policy.max_num_seqs", {"2", "x"}, "grid:3"}};
  EXPECT_THAT(ExpandPoints(Experiment(), bad, &resolver).status().message(), HasSubstr("grid:3: "));
}

}  // namespace
}  // namespace schedtwin
