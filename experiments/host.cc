#include "experiments/host.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>

#include "experiments/text.h"

namespace schedtwin {
namespace {

double UsedSeconds(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(Trim(line.substr(colon + 1)));
  }
  return "unknown processor";
}

}  // namespace

std::string_view Version() { return SCHEDTWIN_VERSION; }

std::string HostText() {
  utsname name = {};
  uname(&name);
  return Cat(name.nodename, ", ", name.sysname, " ", name.release, " ", name.machine, ", ",
             ProcessorName(), ", ", CpuCount(), " CPUs");
}

double ProcessSeconds() { return UsedSeconds(RUSAGE_SELF); }
double ThreadSeconds() { return UsedSeconds(RUSAGE_THREAD); }

unsigned CpuCount() {
  // What this process may use, which in a container is less than what the machine has.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace schedtwin
