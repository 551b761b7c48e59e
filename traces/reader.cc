#include "traces/reader.h"

#include <utility>

#include "traces/formats/formats.h"

namespace schedtwin {
namespace {

constexpr const TraceFormat* kFormats[] = {&kAzureLlm2024, &kAzureLlm2023,  &kAzureLmm2025,
                                           &kBurstGpt,     &kVidur,         &kSplitwise,
                                           &kQwenBailian,  &kLlmServingSim, &kMooncake};

std::string KnownFormats() {
  std::string known;
  for (const TraceFormat* format : TraceFormats()) {
    known += (known.empty() ? "" : ", ") + std::string(format->name);
  }
  return known;
}

absl::StatusOr<const TraceFormat*> NamedFormat(std::string_view name) {
  for (const TraceFormat* format : TraceFormats()) {
    if (format->name == name) return format;
  }
  return absl::InvalidArgumentError("unknown trace format " + Quoted(name) +
                                    "; the formats are: " + KnownFormats());
}

absl::StatusOr<const TraceFormat*> DetectFormat(std::string_view head, const std::string& path) {
  for (const TraceFormat* format : TraceFormats()) {
    if (format->detect(head)) return format;
  }
  if (head.starts_with("\x1f\x8b")) {
    return LineError(path, 1, "the file is compressed with gzip; unpack it first (gunzip)");
  }
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  return LineError(path, 1,
                   "found " + Quoted(line) + ", which no known trace format begins with; " +
                       "expected one of: " + KnownFormats() +
                       " (trace info --help shows how each begins); mend the header, or name the "
                       "format with --format");
}

// A trace without requests is no trace: nothing could be run on it.
absl::Status CheckNotEmpty(const Trace& trace) {
  if (!trace.rows.empty()) return absl::OkStatus();
  std::string found = "found no row after the header";
  std::string separator =
      "found no row that can be used, of " + std::to_string(trace.provenance.rows_read) + ": ";
  if (!trace.provenance.dropped.empty()) found.clear();
  for (const ReasonCount& dropped : trace.provenance.dropped) {
    found += separator + dropped.reason + " " + std::to_string(dropped.rows);
    separator = ", ";
  }
  return LineError(trace.provenance.source, 1, found + "; expected at least one request");
}

absl::StatusOr<Trace> Read(TextReader text, std::string_view format_name,
                           const ReadOptions& options) {
  // An unknown name is a mistake whatever the file holds, so it is told first.
  absl::StatusOr<const TraceFormat*> format = nullptr;
  if (!format_name.empty()) format = NamedFormat(format_name);
  if (!format.ok()) return format.status();

  const std::string_view head = text.Head();
  if (!text.status().ok()) return text.status();
  if (head.empty()) {
    return LineError(text.path(), 1, "the file is empty; expected one of: " + KnownFormats());
  }
  if (*format == nullptr) format = DetectFormat(head, text.path());
  if (!format.ok()) return format.status();

  TraceBuilder builder;
  const absl::Status status = (*format)->read(&text, options, &builder);
  if (!text.status().ok()) return text.status();
  if (!status.ok()) return status;
  Trace trace = builder.Finish();
  trace.provenance.source = text.path();
  trace.provenance.format = std::string((*format)->name);
  trace.provenance.content_hash = text.hash();
  trace.provenance.source_bytes = text.bytes();
  if (absl::Status empty = CheckNotEmpty(trace); !empty.ok()) return empty;
  return trace;
}

}  // namespace

std::span<const TraceFormat* const> TraceFormats() { return kFormats; }

absl::StatusOr<Trace> ParseTrace(std::string_view text, const std::string& path,
                                 std::string_view format, const ReadOptions& options) {
  return Read(TextReader::FromText(text, path), format, options);
}

absl::StatusOr<Trace> ReadTrace(const std::string& path, std::string_view format,
                                const ReadOptions& options) {
  absl::StatusOr<TextReader> text = TextReader::OpenFile(path);
  if (!text.ok()) return text.status();
  return Read(*std::move(text), format, options);
}

}  // namespace schedtwin
