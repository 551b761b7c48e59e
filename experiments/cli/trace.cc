// schedtwin trace: what is in a trace.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/run_report.h"
#include "experiments/run_spec.h"
#include "experiments/text.h"
#include "policies/runtime/digest.h"
#include "traces/reader.h"
#include "traces/source.h"
#include "traces/stats.h"
#include "traces/synth.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string KnownText() {
  std::string out = "\n\nFile formats:";
  for (const TraceFormat* format : TraceFormats())
    out += Cat("\n  ", format->name, ": ", format->summary, "\n    ", format->begins);
  out += "\n\nMade here (synth:NAME, or synth:NAME:key=value,key=value):";
  for (const SynthGenerator* generator : SynthGenerators()) {
    out += Cat("\n  ", generator->name, ": ", generator->summary);
    for (const SynthParameter& parameter : generator->parameters) {
      out += Cat("\n    ", parameter.name, "=", parameter.default_text, "  ", parameter.meaning);
    }
  }
  return out;
}

Flags TraceInfoFlags() {
  Flags flags("trace info FILE|synth:NAME [FLAG...]",
              Cat("Tells what is in a trace: where it came from, how many requests, how fast and "
                  "how bursty\n"
                  "they come, how long they are, and what was dropped or flagged when it was read.",
                  KnownText()),
              {"schedtwin trace info AzureLLMInferenceTrace_conv.csv",
               "schedtwin trace info synth:poisson:rate=200,count=1000 --json",
               "schedtwin trace info synth:azure_conv --rate-scale 2 --duration 10min"});
  flags.Arguments(1, 1);
  AddTraceFlags(&flags);
  AddJsonFlag(&flags);
  return flags;
}

Json LengthJson(const LengthStats& stats) {
  return {{"mean", stats.mean},
          {"p50", stats.p50},
          {"p99", stats.p99},
          {"min", stats.min},
          {"max", stats.max}};
}

Json ReasonsJson(const std::vector<ReasonCount>& reasons) {
  Json out = Json::object();
  for (const ReasonCount& reason : reasons) out[reason.reason] = reason.rows;
  return out;
}

double Seconds(Duration duration) { return static_cast<double>(duration.ns()) / 1e9; }

Json InfoJson(const TraceSource& source, const TraceStats& stats, const TextStats& texts) {
  const TraceProvenance& from = source.trace().provenance;
  Json dispersion = Json::object();
  for (const Dispersion& d : stats.dispersion) {
    dispersion[Cat(d.window.ns() / 1'000'000'000, "s")] = NumberJson(d.value);
  }
  return {{"source", from.source},
          {"format", from.format},
          {"content_hash", DigestText(from.content_hash)},
          {"source_bytes", from.source_bytes},
          {"rows",
           {{"read", from.rows_read},
            {"kept", from.rows_kept},
            {"dropped", ReasonsJson(from.dropped)},
            {"flagged", ReasonsJson(from.flagged)},
            {"out_of_order", from.rows_out_of_order}}},
          {"draws", from.draws},
          {"transforms", source.transforms()},
          {"requests", stats.rows},
          {"duration_s", Seconds(stats.duration)},
          {"rate_rps", NumberJson(stats.rate_rps)},
          {"cv", NumberJson(stats.gap_cv)},
          {"dispersion", std::move(dispersion)},
          {"input_tokens", LengthJson(stats.prompt_tokens)},
          {"output_tokens", LengthJson(stats.output_tokens)},
          {"units", LengthJson(stats.units)},
          {"sessions", texts.sessions},
          {"continued", texts.continued},
          {"prefix_hit_ideal", NumberJson(texts.prefix_hit_ideal)}};
}

std::string InfoText(const TraceSource& source, const TraceStats& stats, const TextStats& texts) {
  using enum Table::Align;
  const TraceProvenance& from = source.trace().provenance;
  std::string out =
      Cat(from.source, ": ", from.format, ", content ", DigestText(from.content_hash), "\n");
  if (!source.transforms().empty()) out += Cat("  ", Join(source.transforms(), " "), "\n");
  out += Cat("  ", stats.rows, " requests over ", Compact(Seconds(stats.duration)), " s");
  if (stats.rate_rps.has_value()) out += Cat(", ", Compact(*stats.rate_rps), " requests/s");
  if (stats.gap_cv.has_value()) out += Cat(", gaps vary by ", Compact(*stats.gap_cv), " (CV)");
  out += "\n  variance over mean of arrivals:";
  for (const Dispersion& d : stats.dispersion) {
    out += Cat(" ", Cell(d.value), " per ", d.window.ns() / 1'000'000'000, " s;");
  }
  out.back() = '\n';
  Table table({{"", kLeft},
               {"mean", kRight},
               {"p50", kRight},
               {"p99", kRight},
               {"min", kRight},
               {"max", kRight}});
  const std::pair<const char*, const LengthStats*> rows[] = {
      {"input tokens", &stats.prompt_tokens},
      {"output tokens", &stats.output_tokens},
      {"units", &stats.units}};
  for (const auto& [name, length] : rows) {
    if (length->max == 0) continue;
    table.Add({name, Compact(length->mean), Compact(length->p50), Compact(length->p99),
               Cat(length->min), Cat(length->max)});
  }
  out += table.Text(2);
  if (texts.sessions > 0) {
    out += Cat("  sessions: ", texts.sessions,
               "; requests that continue another: ", texts.continued, "\n");
  }
  if (texts.prefix_hit_ideal.has_value()) {
    out += Cat("  an unlimited prefix cache would have ", Compact(*texts.prefix_hit_ideal * 100),
               "% of the input tokens\n");
  }
  for (const ReasonCount& reason : from.dropped)
    out += Cat("  dropped: ", reason.rows, " ", reason.reason, "\n");
  for (const ReasonCount& reason : from.flagged)
    out += Cat("  flagged: ", reason.rows, " ", reason.reason, "\n");
  if (!from.was_sorted())
    out += Cat("  ", from.rows_out_of_order, " rows were out of order and were sorted\n");
  return out;
}

absl::Status RunTraceInfo(const Flags& flags) {
  Experiment experiment;
  absl::Status status = experiment.Set("trace.source", flags.arguments()[0], "trace info");
  if (status.ok()) status = ApplyTraceFlags(flags, &experiment);
  if (!status.ok()) return status;
  Resolver resolver;
  absl::StatusOr<std::unique_ptr<TraceSource>> source = resolver.OpenSource(experiment);
  if (!source.ok()) return source.status();
  const TraceStats stats = ComputeTraceStats((*source)->Rows());
  TraceSource pulled = **source;
  const TextStats texts = ComputeTextStats(&pulled);
  if (flags.given("json")) {
    PrintJson(InfoJson(**source, stats, texts));
  } else {
    Print(InfoText(**source, stats, texts));
  }
  return absl::OkStatus();
}

}  // namespace

const Command kTraceInfo = {"trace info", "what is in a trace", TraceInfoFlags, RunTraceInfo};

}  // namespace schedtwin::cli
