// The backends behind kernels/cpu/linear.h, each in a file of its own; no other file names them.
#ifndef SCHEDTWIN_KERNELS_CPU_LINEAR_BACKENDS_H_
#define SCHEDTWIN_KERNELS_CPU_LINEAR_BACKENDS_H_

#include <memory>

#include "kernels/cpu/linear.h"

namespace schedtwin {

std::unique_ptr<LinearBackend> MakePlainBackend();
std::unique_ptr<LinearBackend> MakeOneDnnBackend();  ///< only where SCHEDTWIN_ONEDNN is set

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_LINEAR_BACKENDS_H_
