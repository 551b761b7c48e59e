// FitDecoder: the step-time tables that explain measured steps best. The model is linear in all
// that is sought (every table value, every attention factor), so all of it is solved at once, in
// the sense of least squares of relative errors with nothing negative. Parts need not be subtracted
// from one another in some order, and the noise of a small difference does not end up in one of
// them. A pure function.
#ifndef SCHEDTWIN_EXEC_PROBE_FIT_H_
#define SCHEDTWIN_EXEC_PROBE_FIT_H_

#include <span>

#include "exec/probe_shapes.h"
#include "policies/profile/profile.h"

namespace schedtwin {

/// Sets steps, head, decode and prefill attention of `profile`, whose layers and tile are set.
/// `wall_ns` has one time above 0 for each shape. REQUIRES: the shapes are FittedShapes of `grid`.
void FitDecoder(const ProbeGrid& grid, std::span<const ProbeShape> shapes,
                std::span<const double> wall_ns, Profile* profile);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_PROBE_FIT_H_
