// What a real run costs besides its steps: CPU time of the policy thread, lateness of arrivals, and
// what passes between the end of a step and the start of the next. The device sleeps 5 ms a step,
// so that the program is alone with its own doing.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exec/execute.h"
#include "policies/registry.h"
#include "tests/support/fakes.h"
#include "tests/support/sleeping_runner.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kRunning = 64;
constexpr std::uint32_t kSteps = 2000;

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// 64 requests that run to the end, and 300 short ones that come and go.
std::vector<RequestSpec> Traffic() {
  std::vector<RequestSpec> requests;
  for (std::uint32_t i = 0; i < kRunning; ++i) requests.push_back(TokenRequest(0, 16, kSteps));
  for (std::int64_t i = 1; i <= 300; ++i) requests.push_back(TokenRequest(i * 31'000'000, 16, 3));
  return requests;
}

// Argument: 1 spins before deadlines, 0 sleeps.
void BM_ExecOwnOverhead(benchmark::State& state) {
  DeviceInfo info;
  info.kind = ModelKind::kDecoder;
  info.total_blocks = 16'384;
  info.block_tokens = 16;
  for (auto _ : state) {
    const PolicyInfo* policy_info = FindPolicy("vllm_v1");
    Parameters parameters;
    std::string error;
    if (!Parameters::Parse(policy_info->parameters, {}, &parameters, &error)) {
      state.SkipWithError(error.c_str());
      return;
    }
    const std::unique_ptr<Policy> policy = policy_info->create(parameters);
    ExecSetup setup;
    setup.make_runner = MakeSleepingRunner(info, Duration::Micros(4'900));
    setup.wait = state.range(0) == 1 ? Wait::kSpin : Wait::kSleep;
    RecordingRecorder recorder;
    ListSource source(Traffic());
    RequestSource* const sources[] = {&source};
    const auto result =
        Execute(setup, policy.get(), sources, &recorder, {.steps = true, .log = true});
    if (!result.ok()) {
      state.SkipWithError(std::string(result.status().message()).c_str());
      return;
    }
    std::vector<double> lateness_us, gaps_us;
    for (const RequestRecord& record : recorder.requests) {
      lateness_us.push_back(static_cast<double>((record.admitted - record.arrival).ns()) / 1e3);
    }
    for (std::size_t i = 1; i < recorder.steps.size(); ++i) {
      const Duration gap = recorder.steps[i].start - recorder.steps[i - 1].end;
      gaps_us.push_back(static_cast<double>(gap.ns()) / 1e3);
    }
    state.counters["steps_per_s"] = static_cast<double>(result->summary.steps) / result->wall_s;
    state.counters["policy_thread_percent"] = 100 * result->policy_thread_s / result->wall_s;
    state.counters["lateness_p99_us"] = Percentile(lateness_us, 0.99);
    state.counters["gap_p50_us"] = Percentile(gaps_us, 0.5);
    state.counters["gap_p99_us"] = Percentile(gaps_us, 0.99);
  }
}
BENCHMARK(BM_ExecOwnOverhead)->Arg(0)->Arg(1)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace schedtwin
