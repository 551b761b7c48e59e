// The descriptors of all formats, each defined in the file of its name and listed in reader.cc.
#ifndef SCHEDTWIN_TRACES_FORMATS_H_
#define SCHEDTWIN_TRACES_FORMATS_H_

#include "traces/reader.h"

namespace schedtwin {

extern const TraceFormat kAzureLlm2023;

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_H_
