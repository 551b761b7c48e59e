#include "policies/profile/step_time.h"

#include <algorithm>
#include <bit>

#include "policies/profile/profile.h"

namespace schedtwin {
namespace {

/// The first axis point, from the second on, that is not below `x`; the last if all are. Counted
/// without branches: axes are short, and which cell it is cannot be foreseen.
std::size_t UpperEnd(const std::vector<double>& axis, double x) {
  std::size_t i = 1;
  for (std::size_t k = 1; k + 1 < axis.size(); ++k) i += axis[k] < x ? 1 : 0;
  return i;
}

/// Time of one row (a fixed context) at `chunk` tokens, which lie in the cell that ends at `j`.
/// Past the last chunk it grows with the work s * (C + s / 2) at the rate of the last cell.
double RowNs(const double* row, const std::vector<double>& chunks, std::size_t j, double context,
             double chunk) {
  const double low = row[j - 1];
  const double high = row[j];
  if (chunk <= chunks[j]) {
    return low + (high - low) * ((chunk - chunks[j - 1]) / (chunks[j] - chunks[j - 1]));
  }
  const auto work = [context](double s) { return s * (context + 0.5 * s); };
  const double rate = std::max(0.0, high - low) / (work(chunks[j]) - work(chunks[j - 1]));
  return high + rate * (work(chunk) - work(chunks[j]));
}

}  // namespace

StepTimeModel::TileTable::TileTable(const std::vector<StepPoint>& points, unsigned tile_shift,
                                    double offset_ns, double floor_ns)
    : last(points.back().count >> tile_shift) {
  ns.reserve(static_cast<std::size_t>(last) + 1);
  ns.push_back(offset_ns);
  double slope_ns = 0;  // per tile, of the segment at hand
  for (std::size_t i = 0; i < points.size(); ++i) {
    const StepPoint& high = points[i];
    const StepPoint& low = points[i == 0 ? 0 : i - 1];
    const std::uint64_t low_index = low.count >> tile_shift;
    const std::uint64_t high_index = high.count >> tile_shift;
    if (i > 0)
      slope_ns = (high.step_ns - low.step_ns) / static_cast<double>(high_index - low_index);
    while (ns.size() < high_index) {
      const auto tiles = static_cast<double>(ns.size() - low_index);
      ns.push_back(offset_ns + std::max(floor_ns, low.step_ns + slope_ns * tiles));
    }
    ns.push_back(offset_ns + std::max(floor_ns, high.step_ns));
  }
  if (points.size() == 1) slope_ns = points[0].step_ns;  // through the origin
  beyond_ns = std::max(0.0, slope_ns);
}

StepTimeModel::StepTimeModel(const Profile& profile)
    : tile_mask_(profile.tile - 1),
      tile_shift_(static_cast<unsigned>(std::countr_zero(profile.tile))),
      context_axis_(profile.prefill.context_tokens.begin(), profile.prefill.context_tokens.end()),
      chunk_axis_(profile.prefill.chunk_tokens.begin(), profile.prefill.chunk_tokens.end()) {
  table_ = TileTable(profile.steps, tile_shift_, profile.host_overhead_ns, profile.floor_ns);
  if (!profile.head.empty()) head_ = TileTable(profile.head, tile_shift_, 0, 0);
  const double layers = profile.layers;
  decode_base_ns_ = layers * profile.decode_base_ns;
  decode_sequence_ns_ = layers * profile.decode_ns_per_sequence;
  decode_context_ns_ = layers * profile.decode_ns_per_context_token;
  prefill_launch_ns_ = layers * profile.prefill.launch_ns;
  prefill_ns_.reserve(profile.prefill.layer_ns.size());
  for (const double ns : profile.prefill.layer_ns) {
    prefill_ns_.push_back(layers * (ns - profile.prefill.launch_ns));
  }
}

StepTimeModel StepTimeModel::Linear(Duration base, Duration per_unit) {
  StepTimeModel model;
  model.table_.ns.push_back(static_cast<double>(base.ns()));
  model.table_.beyond_ns = static_cast<double>(per_unit.ns());
  return model;
}

double StepTimeModel::ChunkNs(const PrefillChunk& chunk) const {
  const double context = chunk.context_tokens;
  const double tokens = chunk.tokens;
  const std::size_t i = UpperEnd(context_axis_, context);
  const std::size_t j = UpperEnd(chunk_axis_, tokens);
  const double* high_row = prefill_ns_.data() + i * chunk_axis_.size();
  const double* low_row = high_row - chunk_axis_.size();
  const double low = RowNs(low_row, chunk_axis_, j, context_axis_[i - 1], tokens);
  if (context == context_axis_[i - 1]) return low;  // a prompt's first chunk: on the first row
  const double high = RowNs(high_row, chunk_axis_, j, context_axis_[i], tokens);
  const double share = (context - context_axis_[i - 1]) / (context_axis_[i] - context_axis_[i - 1]);
  return share > 1 && high < low ? high : low + (high - low) * share;
}

double StepTimeModel::PrefillNs(std::span<const PrefillChunk> chunks) const {
  if (prefill_ns_.empty()) return 0;
  double ns = prefill_launch_ns_;
  for (const PrefillChunk& chunk : chunks) {
    if (chunk.tokens > 0) ns += ChunkNs(chunk);
  }
  return ns;
}

}  // namespace schedtwin
