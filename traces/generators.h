// The descriptors of all generators, each defined in a file of its own and listed in synth.cc.
#ifndef SCHEDTWIN_TRACES_GENERATORS_H_
#define SCHEDTWIN_TRACES_GENERATORS_H_

#include "traces/synth.h"

namespace schedtwin {

extern const SynthGenerator kAzureConvTwin;           // azure_conv_twin.cc
extern const SynthGenerator kPoissonGenerator;        // renewal.cc
extern const SynthGenerator kDeterministicGenerator;  // renewal.cc

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_GENERATORS_H_
