// Which steps a calibration measures. A decoder's shapes are chosen so that every part of the
// step-time model (policies/profile/step_time.h) varies while others stand still:
//   body     one prompt token, padded to n: padding has no attention, which could not be told from
//            the body otherwise (a time in proportion to the tokens fits either)
//   head     R prompts of one token, every one sampling
//   decode   batches x contexts
//   prefill  one chunk: contexts x chunk sizes; and many chunks of one token
//   held out mixed steps as schedulers make them, at sizes between the points; never fitted
// A one-shot model has sizes only. All stay within what the device holds. Pure functions.
#ifndef SCHEDTWIN_EXEC_PROBE_SHAPES_H_
#define SCHEDTWIN_EXEC_PROBE_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/step_probe.h"
#include "policies/api/device.h"

namespace schedtwin {

enum class ProbePart : std::uint8_t { kBody, kHead, kDecode, kPrefill, kHeldOut };

struct ProbeShape {
  ProbePart part = ProbePart::kBody;
  std::vector<ProbeEntry> entries;
  std::uint32_t padding_tokens = 0;

  std::uint32_t tokens() const;  ///< computed by the step, padding included
  std::string Text() const;      ///< "64 decodes at 512 + 2 chunks of 16 at 0", for messages
};

/// The points at which the profile's tables will have values.
struct ProbeGrid {
  std::vector<std::uint32_t> body;      ///< tokens or units; multiples of the tile
  std::vector<std::uint32_t> head;      ///< rows; multiples of the tile
  std::vector<std::uint32_t> contexts;  ///< of prefill attention
  std::vector<std::uint32_t> chunks;
};

/// The most tokens of a step that are worth measuring on this device: 2048, or what it holds.
std::uint32_t MostProbeTokens(const DeviceInfo& info);

/// The grid and the shapes of steps of at most `most_tokens`, but never fewer than a tile's.
ProbeGrid GridOf(const DeviceInfo& info, std::uint32_t tile, std::uint32_t most_tokens);
std::vector<ProbeShape> FittedShapes(const DeviceInfo& info, const ProbeGrid& grid);
std::vector<ProbeShape> HeldOutShapes(const DeviceInfo& info, const ProbeGrid& grid,
                                      std::uint64_t seed);

/// True if the device can hold the step.
bool Fits(const DeviceInfo& info, const std::vector<ProbeEntry>& entries,
          std::uint32_t padding_tokens = 0);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_PROBE_SHAPES_H_
