// How far a profile is from the steps that were measured of its device: what it predicts of each,
// through the same commands as a device would be given, against its round trip. Called by Calibrate
// once the profile is complete. Times are in nanoseconds, errors in percent of what was measured,
// rounded to a thousandth. Pure functions: any thread.
#ifndef SCHEDTWIN_EXEC_PROFILE_ERRORS_H_
#define SCHEDTWIN_EXEC_PROFILE_ERRORS_H_

#include <span>
#include <vector>

#include "exec/probe_shapes.h"
#include "policies/profile/profile.h"

namespace schedtwin {

/// A step of a calibration and its times over all rounds, without the host's overhead.
struct MeasuredStep {
  ProbeShape shape;
  double mean_ns = 0;      ///< of its wall time; above 0
  double median_ns = 0;    ///< of its wall time; above 0
  double cpu_mean_ns = 0;  ///< of its thread's CPU time; 0 where the probe does not tell
};

/// What `profile.fit` should say: the errors on the steps held out against means, medians and CPU
/// times, then on the fitted steps of each part; what has no steps is left out. The profile's host
/// overhead is added to every measured time. REQUIRES: the profile is valid.
std::vector<FitError> ProfileErrors(const Profile& profile, std::span<const MeasuredStep> steps);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_PROFILE_ERRORS_H_
