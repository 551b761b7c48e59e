#include "exec/probe_shapes.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "policies/api/rng.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kMostTokens = 2048;
constexpr std::uint32_t kMostContext = 4096;  // attention is a straight line in it: it goes on
constexpr std::uint32_t kFine = 64;           // up to here every multiple of the tile is a point
constexpr std::uint32_t kMostRows = 256;
constexpr int kHeldOut = 16;

constexpr std::uint32_t kBatches[] = {1, 8, 32, 64, 128, 256};
constexpr std::uint32_t kFewest = 64;  // batches above it are measured at short contexts alone

/// What the longest request may have in the cache.
std::uint32_t LongestRequest(const DeviceInfo& info) {
  std::uint64_t longest = std::numeric_limits<std::uint32_t>::max();
  if (info.max_model_len_tokens > 0) longest = info.max_model_len_tokens;
  if (info.total_blocks > 0) {
    longest = std::min(longest, std::uint64_t{info.total_blocks} * info.block_tokens);
  }
  return static_cast<std::uint32_t>(longest);
}

std::vector<ProbeEntry> HeadEntries(const DeviceInfo& info, std::uint32_t rows) {
  std::vector<ProbeEntry> entries(rows, {.tokens = 1, .samples = true});
  return Fits(info, entries) ? entries : std::vector<ProbeEntry>();
}

/// Table points up to `most`: every multiple of the tile to 64 (of 4 where the tile is less, once
/// past the first four), then ever fewer, so that the last two are far enough apart for what goes
/// on beyond them.
std::vector<std::uint32_t> Points(std::uint32_t tile, std::uint32_t most) {
  std::vector<std::uint32_t> points;
  for (std::uint32_t n = tile; n <= std::min(most, std::max(kFine, 4 * tile)); n += tile) {
    if (tile >= 4 || n <= 4 || n % 4 == 0) points.push_back(n);
  }
  if (points.empty()) points.push_back(tile);
  for (const std::uint32_t n : {96u, 128u, 192u, 256u, 384u, 512u, 1024u, 2048u}) {
    if (n > points.back() && n <= most && n % tile == 0) points.push_back(n);
  }
  return points;
}

/// A one-shot model's points leave sizes out, for the steps held out to lie at.
std::vector<std::uint32_t> UnitPoints(std::uint32_t tile, std::uint32_t most) {
  std::vector<std::uint32_t> points;
  for (const std::uint32_t k :
       {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u, 24u, 32u, 48u, 64u, 96u, 128u, 192u, 256u}) {
    if (points.empty() || k * tile <= most) points.push_back(k * tile);
  }
  const std::uint32_t last = most / tile * tile;
  if (last > points.back()) points.push_back(last);
  return points;
}

std::vector<std::uint32_t> ChunkAxis(std::uint32_t most) {
  std::vector<std::uint32_t> axis = {1};
  for (const std::uint32_t chunk : {16u, 64u, 128u, 256u, 512u, 1024u}) {
    if (chunk <= most) axis.push_back(chunk);
  }
  if (axis.size() == 1) axis.push_back(std::max(2u, most));
  return axis;
}

std::vector<std::uint32_t> ContextAxis(std::uint32_t most) {
  most = std::min(most, kMostContext);
  std::vector<std::uint32_t> axis = {0};
  for (const std::uint32_t context : {256u, 1024u, 4096u}) {
    if (context <= most) axis.push_back(context);
  }
  if (axis.size() == 1) axis.push_back(std::max(1u, most));
  if (axis.back() < most / 2) axis.push_back(most);  // the end is far from the last point
  return axis;
}

std::vector<ProbeShape> DecodeShapes(const DeviceInfo& info, std::uint32_t most_tokens) {
  std::vector<ProbeShape> shapes;
  for (const std::uint32_t batch : kBatches) {
    if (batch > std::max(1u, most_tokens)) continue;
    for (const std::uint32_t attended : {1u, 16u, 128u, 512u, 1024u, 2048u, 4096u}) {
      if (batch > kFewest && attended > 128) continue;
      std::vector<ProbeEntry> entries(
          batch, {.tokens = 1, .context_tokens = attended - 1, .decode = true, .samples = true});
      if (Fits(info, entries)) shapes.push_back({ProbePart::kDecode, std::move(entries)});
    }
  }
  return shapes;
}

/// A step as a scheduler would make it: decodes, pieces of prompts, or both.
std::vector<ProbeEntry> MixedStep(const DeviceInfo& info, const ProbeGrid& grid, Rng* rng, int i) {
  const std::uint32_t most_tokens = grid.body.back();
  const std::uint32_t longest = std::min(LongestRequest(info), kMostContext);
  const std::uint32_t chunks = i % 4 == 0 ? 0 : 1 + rng->Below(2);
  const std::uint32_t decodes = i % 4 == 1 ? 0 : 1 + rng->Below(std::min(kFine, most_tokens));
  std::vector<ProbeEntry> entries;
  std::uint32_t tokens = 0;
  const auto add = [&](const ProbeEntry& entry) {
    entries.push_back(entry);
    if (tokens + entry.tokens > most_tokens || !Fits(info, entries)) {
      entries.pop_back();
    } else {
      tokens += entry.tokens;
    }
  };
  for (std::uint32_t k = 0; k < chunks; ++k) {
    const std::uint32_t size = 1 + rng->Below(std::max(1u, grid.chunks.back() >> rng->Below(4)));
    const std::uint32_t room = longest > size ? longest - size : 1;
    const std::uint32_t context = rng->Below(2) == 0 ? 0 : rng->Below(room);
    add({.tokens = size, .context_tokens = context, .samples = rng->Below(2) == 0});
  }
  const std::uint32_t spread = 1 + rng->Below(longest);
  for (std::uint32_t k = 0; k < decodes; ++k) {
    add({.tokens = 1, .context_tokens = rng->Below(spread), .decode = true, .samples = true});
  }
  return entries;
}

/// Between the points.
std::vector<ProbeShape> HeldOutUnits(const DeviceInfo& info, const ProbeGrid& grid) {
  std::vector<ProbeShape> shapes;
  for (std::size_t i = 1; i < grid.body.size(); ++i) {
    const std::uint32_t units = (grid.body[i - 1] + grid.body[i]) / 2;
    if (units == grid.body[i - 1]) continue;
    const std::vector<ProbeEntry> entries = {{.tokens = units}};
    if (Fits(info, entries)) shapes.push_back({ProbePart::kHeldOut, entries});
  }
  return shapes;
}

}  // namespace

std::uint32_t ProbeShape::tokens() const {
  std::uint32_t sum = 0;
  for (const ProbeEntry& entry : entries) sum += entry.tokens;
  return sum + padding_tokens;
}

std::string ProbeShape::Text() const {
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, std::uint32_t> kinds;
  for (const ProbeEntry& entry : entries) {
    ++kinds[{entry.decode, entry.tokens, entry.context_tokens}];
  }
  std::string text;
  for (const auto& [kind, count] : kinds) {
    const auto& [decode, tokens, context] = kind;
    absl::StrAppend(&text, text.empty() ? "" : " + ", count,
                    decode ? " decoding" : absl::StrCat(" of ", tokens), " at ", context);
  }
  if (padding_tokens > 0) absl::StrAppend(&text, " + ", padding_tokens, " of padding");
  return text;
}

bool Fits(const DeviceInfo& info, const std::vector<ProbeEntry>& entries,
          std::uint32_t padding_tokens) {
  std::uint64_t tokens = padding_tokens;
  std::uint64_t blocks = 0;
  for (const ProbeEntry& entry : entries) {
    const std::uint64_t cached = std::uint64_t{entry.context_tokens} + entry.tokens;
    if (info.max_model_len_tokens > 0 && cached > info.max_model_len_tokens) return false;
    if (info.total_blocks > 0) blocks += (cached + info.block_tokens - 1) / info.block_tokens;
    tokens += entry.tokens;
  }
  return (info.max_step_tokens == 0 || tokens <= info.max_step_tokens) &&
         (info.total_blocks == 0 || blocks <= info.total_blocks);
}

std::uint32_t MostProbeTokens(const DeviceInfo& info) {
  if (info.kind == ModelKind::kOneShot) {
    return info.max_step_tokens > 0 ? std::min(info.max_step_tokens, 256u) : 64;
  }
  std::uint64_t most = kMostTokens;
  if (info.max_step_tokens > 0) most = std::min(most, std::uint64_t{info.max_step_tokens});
  most = std::min(most, std::uint64_t{info.total_blocks} * info.block_tokens);
  return static_cast<std::uint32_t>(most);
}

ProbeGrid GridOf(const DeviceInfo& info, std::uint32_t tile, std::uint32_t most_tokens) {
  ProbeGrid grid;
  if (info.kind == ModelKind::kOneShot) {
    grid.body = UnitPoints(tile, most_tokens);
    return grid;
  }
  grid.body = Points(tile, most_tokens);
  std::erase_if(grid.body, [&](std::uint32_t n) { return !Fits(info, {{.tokens = 1}}, n - 1); });
  grid.head = Points(tile, std::min(most_tokens, kMostRows));
  std::erase_if(grid.head, [&](std::uint32_t rows) { return HeadEntries(info, rows).empty(); });
  const std::uint32_t longest = LongestRequest(info);
  grid.chunks = ChunkAxis(std::min(most_tokens, longest / 2));
  grid.contexts = ContextAxis(longest - std::min(longest, grid.chunks.back()));
  return grid;
}

std::vector<ProbeShape> FittedShapes(const DeviceInfo& info, const ProbeGrid& grid) {
  std::vector<ProbeShape> shapes;
  if (info.kind == ModelKind::kOneShot) {
    for (const std::uint32_t units : grid.body) {
      shapes.push_back({ProbePart::kBody, {{.tokens = units}}});
    }
    return shapes;
  }
  for (const std::uint32_t n : grid.body) {
    shapes.push_back({ProbePart::kBody, {{.tokens = 1}}, n - 1});
  }
  for (const std::uint32_t rows : grid.head) {
    shapes.push_back({ProbePart::kHead, HeadEntries(info, rows)});
  }
  for (ProbeShape& shape : DecodeShapes(info, grid.body.back())) {
    shapes.push_back(std::move(shape));
  }
  for (const std::uint32_t context : grid.contexts) {
    for (const std::uint32_t chunk : grid.chunks) {
      shapes.push_back({ProbePart::kPrefill, {{.tokens = chunk, .context_tokens = context}}});
    }
  }
  for (const std::uint32_t n : {16u, kFine, 4 * kFine}) {  // what a chunk costs, however short
    const std::vector<ProbeEntry> entries(n, {.tokens = 1});
    if (n <= grid.body.back() && Fits(info, entries))
      shapes.push_back({ProbePart::kPrefill, entries});
  }
  return shapes;
}

std::vector<ProbeShape> HeldOutShapes(const DeviceInfo& info, const ProbeGrid& grid,
                                      std::uint64_t seed) {
  if (info.kind == ModelKind::kOneShot) return HeldOutUnits(info, grid);
  std::vector<ProbeShape> shapes;
  for (int i = 0; i < kHeldOut; ++i) {
    Rng rng(seed, "calibration steps held out", static_cast<std::uint64_t>(i));
    std::vector<ProbeEntry> entries = MixedStep(info, grid, &rng, i);
    if (entries.empty()) continue;
    ProbeShape shape = {ProbePart::kHeldOut, std::move(entries)};
    const std::uint32_t room = grid.body.back() - std::min(grid.body.back(), shape.tokens());
    if (i % 4 == 2 && room > 0) shape.padding_tokens = rng.Below(room);  // a static batch
    if (Fits(info, shape.entries, shape.padding_tokens)) shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace schedtwin
