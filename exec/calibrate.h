// Calibrate: measures a device through a StepProbe and makes a Profile of it, with the error of its
// fit on steps held out. Called by `calibrate`; runs in the caller's thread until its budget is
// spent; reads the steady clock. How it measures is said in calibrate.cc, how it fits in
// probe_fit.h.
//
// What the profile predicts is the round trip of a step: its wall time, and the host's overhead of
// handing it over and reading the answer.
#ifndef SCHEDTWIN_EXEC_CALIBRATE_H_
#define SCHEDTWIN_EXEC_CALIBRATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "exec/step_probe.h"
#include "policies/api/time.h"
#include "policies/profile/profile.h"

namespace schedtwin {

struct CalibrateOptions {
  std::string name;  ///< of the profile; as the next four, what the profile will say
  std::string summary;
  std::string model;
  std::string device;
  std::string precision;
  std::uint32_t layers = 0;  ///< decoders
  std::uint32_t tile = 1;    ///< to which the device pads its tokens: a power of two
  Duration budget = Duration::Seconds(40);
  std::uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;        ///< true: give up, soon; may be null
  std::function<std::int64_t()> now_ns;           ///< any steady clock; empty: the machine's
  std::function<void(double fraction)> progress;  ///< from 0 to 1; may be empty
};

/// Measures for about `budget`: a little over only if three rounds of the smallest set of shapes
/// take longer. Cancelled: `stop`. DeadlineExceeded: the budget is far too small.
/// InvalidArgument: an option is wrong, or the device too small to tell anything. An error of the
/// probe comes back with the shape that it was given.
absl::StatusOr<Profile> Calibrate(StepProbe& probe, const CalibrateOptions& options);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_CALIBRATE_H_
