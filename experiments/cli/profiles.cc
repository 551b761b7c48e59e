// schedtwin profiles: what device models there are, where their numbers come from, how far they are
// off.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/cli/fit_report.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/text.h"
#include "policies/profile/profile.h"
#include "policies/runtime/digest.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

Flags ProfilesFlags() {
  Flags flags(
      "profiles [NAME|FILE] [FLAG...]",
      "Lists the device profiles that ship with the program, or tells all about one: its model, "
      "its\n"
      "memory, the sources of its numbers, the error of its fit, what is known to be missing.",
      {"schedtwin profiles", "schedtwin profiles llama3-8b-a100",
       "schedtwin profiles ./mine.textproto"});
  flags.Arguments(0, 1);
  AddJsonFlag(&flags);
  return flags;
}

// Null: there is no such way.
Json LinkJson(const ProfileLink& link) {
  if (link.bytes_per_second == 0) return nullptr;
  return {{"latency_ns", link.latency_ns}, {"bytes_per_second", link.bytes_per_second}};
}

Json ProfileJson(const Profile& profile) {
  Json sources = Json::array();
  for (const ProfileSource& source : profile.sources) {
    sources.push_back({{"what", source.what},
                       {"file", source.file},
                       {"commit", source.commit},
                       {"licence", source.licence}});
  }
  return {{"name", profile.name},
          {"summary", profile.summary},
          {"model", profile.model},
          {"device", profile.device},
          {"precision", profile.precision},
          {"kind", ModelKindName(profile.kind)},
          {"hash", DigestText(profile.hash)},
          {"kv_blocks", profile.kv_blocks},
          {"block_tokens", profile.block_tokens},
          {"block_bytes", profile.block_bytes},
          {"host_blocks", profile.host_blocks},
          {"weights_bytes", profile.weights_bytes},
          {"links",
           {{"host", LinkJson(profile.host_link)},
            {"peer", LinkJson(profile.peer_link)},
            {"load", LinkJson(profile.load_link)}}},
          {"max_model_len_tokens", profile.max_model_len_tokens},
          {"max_sequences", profile.max_sequences},
          {"max_units", profile.max_units},
          {"host_overhead_ns", profile.host_overhead_ns},
          {"fit", FitJson(profile)},
          {"sources", std::move(sources)},
          {"known_gaps", profile.gaps}};
}

// "4096 tokens", or "none" for a limit of 0.
std::string LimitText(std::uint32_t limit, std::string_view unit) {
  return limit == 0 ? "none" : Cat(limit, " ", unit);
}

std::string ProfileText(const Profile& profile) {
  using enum Table::Align;
  std::string out =
      Cat(profile.name, ": ", profile.summary, "\nmodel:     ", profile.model, " (",
          ModelKindName(profile.kind), "), ", profile.precision, "\ndevice:    ", profile.device,
          "\nhash:      ", DigestText(profile.hash), "\n");
  if (profile.kind == ModelKind::kDecoder) {
    out += Cat("memory:    ", profile.kv_blocks, " KV blocks of ", profile.block_tokens, " tokens",
               profile.host_blocks > 0 ? Cat(", ", profile.host_blocks, " on the host") : "",
               "\nlimits:    ", LimitText(profile.max_model_len_tokens, "tokens"),
               " of prompt and output, ", LimitText(profile.max_sequences, "requests"),
               " in one step\n");
  } else {
    out += Cat("limits:    ", LimitText(profile.max_units, "units"), " in one launch\n");
  }
  const std::pair<const char*, const ProfileLink*> links[] = {
      {"to the host", &profile.host_link},
      {"between devices", &profile.peer_link},
      {"for loads", &profile.load_link}};
  for (const auto& [what, link] : links) {
    if (link->bytes_per_second == 0) continue;
    out += Cat("link:      ", Compact(static_cast<double>(link->bytes_per_second) / 1e9), " GB/s ",
               what, ", ", Compact(static_cast<double>(link->latency_ns) / 1e3),
               " us to the first byte\n");
  }
  out += Cat("overhead:  ", Compact(profile.host_overhead_ns / 1e6), " ms of host time per step\n");
  if (!profile.fit.empty()) {
    Table fit({{"error of the fit", kLeft},
               {"rows", kRight},
               {"mean", kRight},
               {"p95", kRight},
               {"max", kRight},
               {"how", kLeft}});
    for (const FitError& error : profile.fit) {
      fit.Add({error.part, Cat(error.rows), Cat(Fixed(error.mape_percent, 2), "%"),
               Cat(Fixed(error.p95_percent, 2), "%"), Cat(Fixed(error.max_percent, 2), "%"),
               error.method});
    }
    out += "\n" + fit.Text();
  }
  for (const ProfileSource& source : profile.sources) {
    out += Cat("\nsource: ", source.what, "\n        ", source.file);
    if (!source.commit.empty()) out += Cat(", commit ", source.commit);
    if (!source.licence.empty()) out += Cat(", ", source.licence);
    out += "\n";
  }
  if (!profile.gaps.empty()) out += "\nknown gaps:\n";
  for (const std::string& gap : profile.gaps) out += Cat("  ", gap, "\n");
  return out;
}

std::string ListText(const std::vector<Profile>& profiles) {
  using enum Table::Align;
  Table table({{"profile", kLeft},
               {"model", kLeft},
               {"kind", kLeft},
               {"device", kLeft},
               {"summary", kLeft}});
  for (const Profile& profile : profiles) {
    table.Add({profile.name, profile.model, std::string(ModelKindName(profile.kind)),
               profile.device, profile.summary});
  }
  return table.Text();
}

absl::Status RunProfiles(const Flags& flags) {
  std::vector<std::string> names(ShippedProfiles().begin(), ShippedProfiles().end());
  if (!flags.arguments().empty()) names = flags.arguments();
  std::vector<Profile> profiles;
  for (const std::string& name : names) {
    absl::StatusOr<Profile> profile = LoadProfile(name);
    if (!profile.ok()) return profile.status();
    profiles.push_back(*std::move(profile));
  }
  if (flags.given("json")) {
    Json list = Json::array();
    for (const Profile& profile : profiles) list.push_back(ProfileJson(profile));
    PrintJson({{"profiles", std::move(list)}});
  } else {
    Print(flags.arguments().empty() ? ListText(profiles) : ProfileText(profiles.front()));
  }
  return absl::OkStatus();
}

}  // namespace

const Command kProfiles = {"profiles", "the device models, their sources and errors", ProfilesFlags,
                           RunProfiles};

}  // namespace schedtwin::cli
