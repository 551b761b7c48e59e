#include "experiments/cli/run_report.h"

#include <nlohmann/json.hpp>

#include "experiments/cli/output.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> ThroughputOf(const RunMetrics& metrics) {
  if (!metrics.throughput_rps.has_value()) return std::nullopt;
  return metrics.throughput_rps->mean;
}

double MakespanSeconds(const RunMetrics& metrics) {
  return static_cast<double>(metrics.makespan().ns()) / 1e9;
}

std::string LatencyTable(const RunMetrics& metrics) {
  using enum Table::Align;
  Table table({{"latency (ms)", kLeft},
               {"mean", kRight},
               {"p50", kRight},
               {"p90", kRight},
               {"p99", kRight},
               {"max", kRight}});
  const auto add = [&](const char* name, const std::optional<Distribution>& d) {
    if (!d.has_value()) return;
    table.Add({name, Compact(d->mean), Compact(d->p50), Compact(d->p90), Compact(d->p99),
               Compact(d->max)});
  };
  add("TTFT", metrics.ttft_ms);
  add("TPOT", metrics.tpot_ms);
  add("E2E", metrics.e2e_ms);
  add("lateness", metrics.lateness_ms);
  return table.Text(2);
}

// "19366 requests: 19366 completed, 3 rejected", zero counts left out.
std::string CountsText(const RunOutcome& outcome) {
  const RunMetrics& m = outcome.metrics;
  std::string out = Cat(outcome.requests, " requests: ", m.completed, " completed");
  const std::pair<const char*, std::int64_t> others[] = {
      {"from the cache", m.cached}, {"rejected", m.rejected},
      {"timed out", m.timed_out},   {"cancelled", m.cancelled},
      {"failed", m.failed},         {"unfinished", outcome.requests - m.ended()},
  };
  for (const auto& [name, count] : others) {
    if (count > 0) out += Cat(", ", count, " ", name);
  }
  if (m.preemptions > 0) {
    out +=
        Cat("; ", m.preemptions, " preemptions, ", m.recomputed_tokens, " tokens computed again");
  }
  if (outcome.refusals > 0) {
    out += Cat("; ", outcome.refusals, " decisions refused:");
    for (const auto& [reason, count] : outcome.refused) out += Cat(" ", reason, " ", count);
  }
  return out;
}

// "40 swap_out (80 MB), 2 swap_in undone".
std::string OperationsText(const RunMetrics& metrics) {
  std::string out;
  const auto add = [&](const std::string& text) { out += Cat(out.empty() ? "" : ", ", text); };
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    const OperationCount& count = metrics.operations[kind];
    const std::string_view name = kOperationNames[kind];
    const double megabytes = static_cast<double>(count.bytes) / 1e6;
    if (count.done > 0) add(Cat(count.done, " ", name, " (", Compact(megabytes), " MB)"));
    if (count.undone > 0) add(Cat(count.undone, " ", name, " undone"));
  }
  return out;
}

// What runs without such things do not speak of, a line each.
std::string ExtrasText(const RunMetrics& metrics) {
  std::string out;
  if (const std::optional<double> ratio = metrics.prefix_hit_ratio(); ratio.has_value()) {
    out += Cat("  prefix cache: ", Fixed(*ratio * 100, 1), "% of ", metrics.prompt_tokens,
               " prompt tokens were found\n");
  }
  if (const std::string operations = OperationsText(metrics); !operations.empty()) {
    out += Cat("  operations: ", operations, "\n");
  }
  if (const auto& decision = metrics.decision_us; decision.has_value()) {
    out += Cat("  decisions: p50 ", Compact(decision->p50), " us, p99 ", Compact(decision->p99),
               " us (", decision->count, ")\n");
  }
  return out;
}

Json OperationsJson(const RunMetrics& metrics) {
  Json out = Json::object();
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    const OperationCount& count = metrics.operations[kind];
    if (count.done == 0 && count.undone == 0) continue;
    out[std::string(kOperationNames[kind])] = {
        {"done", count.done}, {"undone", count.undone}, {"bytes", count.bytes}};
  }
  return out;
}

Json LibraryJson(const std::optional<LibraryFacts>& library) {
  if (!library.has_value()) return nullptr;
  return {{"file", library->file}, {"hash", library->hash}};
}

}  // namespace

Json NumberJson(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json DistributionJson(const std::optional<Distribution>& distribution) {
  if (!distribution.has_value()) return nullptr;
  Json out = Json::object();
  for (const std::string_view name : StatisticNames()) {
    out[std::string(name)] = Statistic(*distribution, name);
  }
  return out;
}

Json RunJson(std::int64_t run, const RunInfo& info, const RunOutcome& outcome) {
  const RunMetrics& m = outcome.metrics;
  Json refusals = Json::object();
  for (const auto& [reason, count] : outcome.refused) refusals[std::string(reason)] = count;
  Json execution = nullptr;
  if (const auto& facts = outcome.execution; facts.has_value()) {
    execution = {{"wait", facts->wait},
                 {"backend", facts->backend},
                 {"policy_thread_s", facts->policy_thread_s},
                 {"invalid", facts->invalid.empty() ? Json(nullptr) : Json(facts->invalid)}};
  }
  Json parameters = Json::object();
  for (const ParameterValue& parameter : info.parameters)
    parameters[parameter.name] = parameter.value;
  return {{"run_id", run},
          {"world", info.world},
          {"policy", info.policy},
          {"policy_library", LibraryJson(info.library)},
          {"requests", outcome.requests},
          {"completed", m.completed},
          {"rejected", m.rejected},
          {"failed", m.failed},
          {"outcome_digest", outcome.outcome_digest},
          {"decision_digest", outcome.decision_digest},
          {"makespan_s", MakespanSeconds(m)},
          {"wall_s", outcome.wall_s},
          {"process_s", outcome.process_s},
          {"events", outcome.events},
          {"steps", outcome.steps},
          {"throughput_rps", NumberJson(ThroughputOf(m))},
          {"output_tokens_per_s", NumberJson(m.output_tokens_per_s())},
          {"goodput_rps", NumberJson(m.goodput_rps())},
          {"ttft_ms", DistributionJson(m.ttft_ms)},
          {"tpot_ms", DistributionJson(m.tpot_ms)},
          {"e2e_ms", DistributionJson(m.e2e_ms)},
          {"result", outcome.result},
          {"result_detail", outcome.result_detail},
          {"timed_out", m.timed_out},
          {"cancelled", m.cancelled},
          {"cached", m.cached},
          {"unfinished", outcome.requests - m.ended()},
          {"output_tokens", m.output_tokens},
          {"preemptions", m.preemptions},
          {"recomputed_tokens", m.recomputed_tokens},
          {"refusals", std::move(refusals)},
          {"parameters", std::move(parameters)},
          {"model", info.model},
          {"profile", info.profile},
          {"devices", info.devices},
          {"trace", info.trace},
          {"trace_transforms", info.trace_transforms},
          {"seed", info.seed},
          {"lateness_ms", DistributionJson(m.lateness_ms)},
          {"oracle", info.oracle},
          {"prompt_tokens", m.prompt_tokens},
          {"cached_tokens", m.cached_tokens},
          {"prefix_hit_ratio", NumberJson(m.prefix_hit_ratio())},
          {"operations", OperationsJson(m)},
          {"decision_us", DistributionJson(m.decision_us)},
          {"execution", std::move(execution)}};
}

std::string RunText(std::int64_t run, const RunInfo& info, const RunOutcome& outcome) {
  const RunMetrics& m = outcome.metrics;
  std::string out = Cat("run ", run, ": ", info.policy, " in ", info.world, ", ", info.devices,
                        " x ", info.profile.empty() ? info.model : info.profile, ", ", info.trace);
  if (!info.trace_transforms.empty()) out += Cat(" (", info.trace_transforms, ")");
  out += Cat(", seed ", info.seed, "\n");
  if (outcome.result != "finished") {
    out += Cat("  ", outcome.result, ": ", outcome.result_detail, "\n");
  }
  if (m.e2e_ms.has_value()) out += LatencyTable(m);
  out += Cat("  ", CountsText(outcome), "\n");
  out += Cat("  ", Cell(ThroughputOf(m)), " requests/s");
  if (m.output_tokens > 0) out += Cat(", ", Cell(m.output_tokens_per_s()), " output tokens/s");
  if (m.has_slo) out += Cat(", goodput ", Cell(m.goodput_rps()), " requests/s");
  out += Cat(" over ", Compact(MakespanSeconds(m)), " s\n");
  out += Cat("  ", outcome.events, " events, ", outcome.steps, " steps in ",
             Compact(outcome.wall_s), " s of wall time\n");
  out += ExtrasText(m);
  if (info.oracle) out += "  oracle: the policy was told true output lengths\n";
  if (const auto& facts = outcome.execution; facts.has_value()) {
    out += Cat("  ", facts->backend, "; the policy thread used ", Compact(facts->policy_thread_s),
               " s of CPU time (wait: ", facts->wait, ")\n");
    if (!facts->invalid.empty()) out += Cat("  INVALID: ", facts->invalid, "\n");
  }
  out += Cat("  digests: outcome ", outcome.outcome_digest, ", decision ", outcome.decision_digest,
             "\n");
  return out;
}

}  // namespace schedtwin::cli
