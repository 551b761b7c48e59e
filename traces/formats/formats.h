// The descriptors of all formats, each defined in the file of its name and listed in reader.cc.
#ifndef SCHEDTWIN_TRACES_FORMATS_FORMATS_H_
#define SCHEDTWIN_TRACES_FORMATS_FORMATS_H_

#include "traces/reader.h"

namespace schedtwin {

extern const TraceFormat kAzureLlm2023;
extern const TraceFormat kAzureLlm2024;
extern const TraceFormat kAzureLmm2025;
extern const TraceFormat kBurstGpt;
extern const TraceFormat kLlmServingSim;
extern const TraceFormat kMooncake;
extern const TraceFormat kQwenBailian;
extern const TraceFormat kSplitwise;
extern const TraceFormat kVidur;

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_FORMATS_H_
