#include "policies/profile/profile_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace schedtwin {
namespace {

/// The shortest text that reads back to the same bits.
std::string Number(double x) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return std::string(buffer.data(), end);
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

/// One field of a message, on a line or within one; what has its default is left out.
std::string Field(const char* name, const std::string& value) {
  return value.empty() ? "" : absl::StrCat(name, ": ", Quoted(value), " ");
}
std::string Field(const char* name, double value) {
  return value == 0 ? "" : absl::StrCat(name, ": ", Number(value), " ");
}
std::string Field(const char* name, std::uint64_t value) {
  return value == 0 ? "" : absl::StrCat(name, ": ", value, " ");
}
std::string Field(const char* name, std::uint32_t value) {
  return Field(name, std::uint64_t{value});
}

/// `fields`, each with a space behind it, as a line of their own; none: no line.
std::string Line(std::string_view indent, std::string fields) {
  if (fields.empty()) return "";
  fields.back() = '\n';
  return absl::StrCat(std::string(indent), fields);
}

/// A message on one line; nothing if it has no fields.
std::string Message(const char* name, const std::string& fields) {
  return fields.empty() ? "" : absl::StrCat(name, " { ", fields, "}\n");
}

std::string Points(const std::vector<StepPoint>& points, const char* count) {
  std::string text;
  for (const StepPoint& point : points) {
    absl::StrAppend(&text, "  point { ", count, ": ", point.count,
                    " step_ns: ", Number(point.step_ns), " }\n");
  }
  return text;
}

std::string Prefill(const PrefillTable& table) {
  if (table == PrefillTable{}) return "";
  std::string text = "prefill_attention {\n";
  absl::StrAppend(&text, Line("  ", Field("launch_layer_ns", table.launch_ns)));
  if (!table.chunk_tokens.empty()) {
    std::string list;
    for (const std::uint32_t chunk : table.chunk_tokens) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", chunk);
    }
    absl::StrAppend(&text, "  chunk_tokens: [", list, "]\n");
  }
  const std::size_t width = table.chunk_tokens.size();
  for (std::size_t i = 0; i < table.context_tokens.size(); ++i) {
    std::string list;
    for (const double ns : std::span(table.layer_ns).subspan(i * width, width)) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", Number(ns));
    }
    absl::StrAppend(&text, "  row { context_tokens: ", table.context_tokens[i], " layer_ns: [",
                    list, "] }\n");
  }
  return text + "}\n";
}

std::string Decoder(const Profile& p) {
  std::string text = Line("", Field("layers", p.layers));
  absl::StrAppend(&text, "linear {\n  tile_tokens: ", p.tile, "\n", Points(p.steps, "tokens"),
                  "}\n");
  if (!p.head.empty()) absl::StrAppend(&text, "lm_head {\n", Points(p.head, "rows"), "}\n");
  absl::StrAppend(&text,
                  Message("decode_attention",
                          Field("layer_base_ns", p.decode_base_ns) +
                              Field("layer_ns_per_context_token", p.decode_ns_per_context_token) +
                              Field("layer_ns_per_sequence", p.decode_ns_per_sequence)),
                  Prefill(p.prefill));
  return text;
}

std::string OneShot(const Profile& p) {
  return absl::StrCat("one_shot {\n  tile_units: ", p.tile, "\n",
                      Line("  ", Field("floor_ns", p.floor_ns)), Points(p.steps, "units"), "}\n");
}

/// How far it is off, where it comes from, what it lacks.
std::string Origin(const Profile& p) {
  std::string text;
  for (const FitError& fit : p.fit) {
    absl::StrAppend(&text, "fit {\n", Line("  ", Field("part", fit.part)),
                    Line("  ", Field("method", fit.method)),
                    Line("  ", Field("rows", fit.rows) + Field("mape_percent", fit.mape_percent) +
                                   Field("p95_percent", fit.p95_percent) +
                                   Field("max_percent", fit.max_percent) +
                                   Field("bias_percent", fit.bias_percent)),
                    "}\n");
  }
  for (const ProfileSource& source : p.sources) {
    absl::StrAppend(&text, "source {\n", Line("  ", Field("what", source.what)),
                    Line("  ", Field("file", source.file)),
                    Line("  ", Field("commit", source.commit)),
                    Line("  ", Field("licence", source.licence)), "}\n");
  }
  for (const std::string& gap : p.gaps) {
    absl::StrAppend(&text, "known_gap: ", Quoted(gap), "\n");
  }
  return text;
}

std::string LinkText(const char* name, const ProfileLink& link) {
  return link == ProfileLink{}
             ? ""
             : absl::StrCat("  ",
                            Message(name, Field("latency_ns", link.latency_ns) +
                                              Field("bytes_per_second", link.bytes_per_second)));
}

std::string Links(const Profile& p) {
  const std::string links =
      LinkText("host", p.host_link) + LinkText("peer", p.peer_link) + LinkText("load", p.load_link);
  return links.empty() ? "" : absl::StrCat("links {\n", links, "}\n");
}

std::string Comment(std::string_view comment) {
  std::string text;
  while (!comment.empty()) {
    const std::string_view line = comment.substr(0, comment.find('\n'));
    absl::StrAppend(&text, line.empty() ? "#" : "# ", std::string(line), "\n");
    comment.remove_prefix(std::min(line.size() + 1, comment.size()));
  }
  return text;
}

}  // namespace

std::string ProfileText(const Profile& profile, std::string_view comment) {
  const Profile& p = profile;
  const bool decoder = p.kind == ModelKind::kDecoder;
  const std::string limits = Field("max_model_len_tokens", p.max_model_len_tokens) +
                             Field("max_sequences", p.max_sequences) +
                             Field("max_units", p.max_units);
  const std::string memory =
      Field("kv_blocks", p.kv_blocks) + Field("block_tokens", p.block_tokens) +
      Field("block_bytes", p.block_bytes) + Field("host_blocks", p.host_blocks);
  return absl::StrCat(Comment(comment), Line("", Field("name", p.name)),
                      Line("", Field("summary", p.summary)), Line("", Field("model", p.model)),
                      Line("", Field("device", p.device)),
                      Line("", Field("precision", p.precision)),
                      decoder ? "kind: DECODER\n" : "kind: ONE_SHOT\n", Message("limits", limits),
                      Message("memory", memory), Line("", Field("weights_bytes", p.weights_bytes)),
                      Links(p), Line("", Field("host_overhead_ns", p.host_overhead_ns)), Origin(p),
                      decoder ? Decoder(p) : OneShot(p));
}

}  // namespace schedtwin
