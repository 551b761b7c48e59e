// How fast whole runs simulate. All rates are per second of this thread's CPU time; the loop alone,
// with the summary recorder and both digests on, as `sim --record summary` has them.
//   BM_AzureConvVllm  Azure conv on one replica: at 130% of the trace's rate, which is 93% of the
//                     7.76 requests/s that 128 sequences sustain, and at the trace's own rate (71%)
//   BM_MM1            what an event costs where the model costs nothing
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/summary_recorder.h"
#include "policies/profile/profile.h"
#include "policies/registry.h"
#include "sim/simulate.h"
#include "tests/support/data.h"
#include "traces/open.h"
#include "traces/source.h"

namespace schedtwin {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<Policy> MakePolicy(const char* name, const Settings& settings) {
  const PolicyInfo* info = FindPolicy(name);
  Parameters parameters;
  std::string error;
  if (info == nullptr || !Parameters::Parse(info->parameters, settings, &parameters, &error)) {
    return nullptr;
  }
  return info->create(parameters);
}

/// Runs what is set up until the benchmark has had enough; the policy is made anew each time.
void RunOften(benchmark::State& state, const SimSetup& setup, const char* policy_name,
              const Settings& settings, const std::shared_ptr<const Trace>& trace,
              const TraceSourceOptions& view) {
  RunSummary summary;
  for (auto _ : state) {
    const std::unique_ptr<Policy> policy = MakePolicy(policy_name, settings);
    const auto source = TraceSource::Create(trace, view);
    if (policy == nullptr || !source.ok()) return state.SkipWithError("cannot be set up");
    SummaryRecorder recorder(Slo{}, trace->rows.size());
    RequestSource* const sources[] = {source->get()};
    summary = Simulate(setup, policy.get(), sources, &recorder, {});
    benchmark::DoNotOptimize(summary.outcome_digest);
    if (summary.result != RunResult::kFinished) return state.SkipWithError("did not finish");
  }
  using benchmark::Counter;
  const auto runs = static_cast<double>(state.iterations());
  const auto rate = [&](std::uint64_t count, Counter::Flags flags) {
    return Counter(static_cast<double>(count) * runs, flags);
  };
  const Counter::Flags each = Counter::kIsRate | Counter::kInvert;
  state.counters["requests/s"] = rate(summary.requests, Counter::kIsRate);
  state.counters["s/step"] = rate(summary.steps, each);
  state.counters["s/event"] = rate(summary.events, each);
}

void BM_AzureConvVllm(benchmark::State& state) {
  const auto trace = OpenTrace({.spec = AzureConv()});
  const auto profile = LoadProfile("llama3-8b-a100");
  if (!trace.ok() || !profile.ok()) return state.SkipWithError("no trace or profile");
  const StepTimeModel model(*profile);
  SimSetup setup;
  setup.model = &model;
  setup.device = DeviceInfoOf(*profile);
  const Settings settings = {{"standing_set", state.range(0) != 0 ? "true" : "false"},
                             {"plan_steps", std::to_string(state.range(1))}};
  TraceSourceOptions view;
  view.rate_scale = {state.range(2), 100};
  RunOften(state, setup, "vllm_v1", settings, *trace, view);
  state.SetLabel((*trace)->provenance.synthetic() ? "twin" : "real trace");
}
BENCHMARK(BM_AzureConvVllm)
    ->ArgNames({"standing", "plan_steps", "rate_percent"})
    ->Args({1, 4096, 130})
    ->Args({1, 4096, 100})
    ->Args({1, 1, 130})
    ->Args({1, 1, 100})
    ->Args({0, 4096, 130})
    ->Args({0, 1, 130})
    ->Unit(benchmark::kMillisecond);

void BM_MM1(benchmark::State& state) {
  const auto trace = OpenTrace(
      {.spec = "synth:poisson:count=100000,rate=700,units=1000000,unit_dist=exponential"});
  if (!trace.ok()) return state.SkipWithError("no trace");
  const StepTimeModel model = StepTimeModel::Linear(Duration::Nanos(0), Duration::Nanos(1));
  SimSetup setup;
  setup.model = &model;
  setup.device.kind = ModelKind::kOneShot;
  TraceSourceOptions view;
  view.as_units = true;
  RunOften(state, setup, "fifo", {}, *trace, view);
}
BENCHMARK(BM_MM1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace schedtwin
