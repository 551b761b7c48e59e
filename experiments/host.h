// What a run's provenance says of the machine and the program, and the CPU time that was used.
// Reads /proc and asks the kernel; any thread.
#ifndef SCHEDTWIN_EXPERIMENTS_HOST_H_
#define SCHEDTWIN_EXPERIMENTS_HOST_H_

#include <string>
#include <string_view>

namespace schedtwin {

/// "0.1.0".
std::string_view Version();

/// Name, system, processor and number of CPUs, in one line.
std::string HostText();

/// CPU time, user and system, of the whole process since it began.
double ProcessSeconds();
/// The same of the calling thread.
double ThreadSeconds();

/// How many threads can run at once; at least 1.
unsigned CpuCount();

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_HOST_H_
