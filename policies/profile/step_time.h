// StepTimeModel: how long one step takes, as a function of what it does. Compiled once from a
// profile into flat tables; predicting neither allocates nor reads a clock, and gives the same bits
// on every machine (plain double arithmetic without contraction, rounded to nanoseconds once). Used
// by sim, by calibration, and by policies that ask `predict`. A value, immutable once made; safe to
// read from any thread.
//
//   step = host overhead + table(counts padded up to the tile)
//        + layers * (base + share * decodes + slope * their contexts)   if it decodes
//        + layers * (launch + sum over chunks of (attention(chunk) - launch))   if it prefills
//        + head(rows that sample, padded up to the tile)           if any do
#ifndef SCHEDTWIN_POLICIES_PROFILE_STEP_TIME_H_
#define SCHEDTWIN_POLICIES_PROFILE_STEP_TIME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/api/time.h"

namespace schedtwin {

struct Profile;
struct StepPoint;

/// A piece of a prompt that a step computes: `tokens` of it, after `context_tokens` already in the
/// cache.
struct PrefillChunk {
  std::uint32_t tokens = 0;
  std::uint32_t context_tokens = 0;
  bool samples = false;  ///< the last piece: the step makes a token of it
};

/// What one step does, as far as its time depends on it.
struct StepShape {
  std::uint32_t decode_tokens = 0;  ///< one per decoding request; each samples
  std::uint64_t decode_context_tokens =
      0;  ///< sum over them of the tokens attended to, own included
  std::span<const PrefillChunk> prefills;
  std::uint32_t padding_tokens = 0;  ///< computed and thrown away (static batching)
  std::uint32_t units = 0;           ///< one-shot models: images, sequences
};

class StepTimeModel {
 public:
  /// No step takes longer, whatever the profile says of it: eleven days.
  static constexpr double kMostNs = 1e15;

  /// REQUIRES: ValidateProfile(profile) is OK. The profile may go away afterwards.
  explicit StepTimeModel(const Profile& profile);

  /// A one-shot model whose step takes exactly base + units * per_unit: for tests against theory.
  /// Exact while the sum stays below kMostNs. REQUIRES: neither is negative.
  static StepTimeModel Linear(Duration base, Duration per_unit);

  /// The time of a step; at least 1 ns, at most kMostNs. An empty step costs the host overhead.
  Duration Predict(const StepShape& shape) const {
    std::uint64_t count = std::uint64_t{shape.decode_tokens} + shape.padding_tokens + shape.units;
    std::uint64_t rows = shape.decode_tokens;
    double attention_ns = 0;
    if (!shape.prefills.empty()) {
      attention_ns = PrefillNs(shape.prefills);
      for (const PrefillChunk& chunk : shape.prefills) {
        count += chunk.tokens;
        rows += chunk.samples ? 1 : 0;
      }
    }
    return Rounded(TableNs(count) + DecodeNs(shape.decode_tokens, shape.decode_context_tokens) +
                   attention_ns + HeadNs(rows));
  }

  /// Predict for a step that only decodes; the same bits as Predict gives.
  Duration PredictDecode(std::uint32_t decode_tokens, std::uint64_t decode_context_tokens) const {
    return Rounded(TableNs(decode_tokens) + DecodeNs(decode_tokens, decode_context_tokens) + 0.0 +
                   HeadNs(decode_tokens));
  }

  /// The part of every prediction that the host takes, not the device.
  Duration host_overhead() const {
    return Duration::Nanos(static_cast<std::int64_t>(TableNs(0) + 0.5));
  }

  /// Predict for a one-shot launch; the same bits as Predict gives.
  Duration PredictUnits(std::uint32_t units) const { return Rounded(TableNs(units)); }

 private:
  StepTimeModel() = default;

  /// A table made dense: one value per multiple of the tile, from 0 on; past its end, by the last
  /// slope.
  struct TileTable {
    TileTable() = default;
    TileTable(const std::vector<StepPoint>& points, unsigned tile_shift, double offset_ns,
              double floor_ns);
    double At(std::uint64_t index) const {
      if (index <= last) return ns[static_cast<std::size_t>(index)];
      return ns.back() + beyond_ns * static_cast<double>(index - last);
    }
    std::vector<double> ns;  ///< [0] is the offset alone
    std::uint64_t last = 0;  ///< ns.size() - 1
    double beyond_ns = 0;    ///< per tile past the end
  };

  /// Host overhead plus the step table at `count` padded up to the tile.
  double TableNs(std::uint64_t count) const {
    return table_.At((count + tile_mask_) >> tile_shift_);
  }
  double HeadNs(std::uint64_t rows) const {
    return head_.ns.empty() ? 0.0 : head_.At((rows + tile_mask_) >> tile_shift_);
  }
  double DecodeNs(std::uint32_t tokens, std::uint64_t context_tokens) const {
    if (tokens == 0) return 0.0;
    return decode_base_ns_ + decode_sequence_ns_ * static_cast<double>(tokens) +
           decode_context_ns_ * static_cast<double>(static_cast<std::int64_t>(context_tokens));
  }
  static Duration Rounded(double ns) {
    if (!(ns < kMostNs)) return Duration::Nanos(static_cast<std::int64_t>(kMostNs));
    const auto down = static_cast<std::int64_t>(ns);
    const std::int64_t whole = down + (ns - static_cast<double>(down) >= 0.5 ? 1 : 0);
    return Duration::Nanos(whole < 1 ? 1 : whole);
  }

  /// Attention of all prefill chunks over all layers. REQUIRES: not empty.
  double PrefillNs(std::span<const PrefillChunk> chunks) const;
  double ChunkNs(const PrefillChunk& chunk) const;

  TileTable table_;  ///< host overhead included
  TileTable head_;   ///< empty: no LM head
  std::uint64_t tile_mask_ = 0;
  unsigned tile_shift_ = 0;
  double decode_base_ns_ = 0;  ///< times layers, as all that follows
  double decode_sequence_ns_ = 0;
  double decode_context_ns_ = 0;
  double prefill_launch_ns_ = 0;
  std::vector<double> context_axis_;
  std::vector<double> chunk_axis_;
  std::vector<double> prefill_ns_;  ///< row-major, launch part taken out
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PROFILE_STEP_TIME_H_
