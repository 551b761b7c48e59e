#include "experiments/store/owner.h"

#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace schedtwin {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Field 22 of /proc/PID/stat. The second field is the program's name in parentheses and may itself
// hold spaces and parentheses, so fields are counted from the last one.
std::optional<std::int64_t> StartTicks(const std::string& proc, std::int64_t pid) {
  const std::string line = FirstLine(proc + "/" + std::to_string(pid) + "/stat");
  const std::size_t close = line.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(line).substr(close + 1);
  for (int field = 2; field < 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  std::int64_t ticks = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), ticks).ec != std::errc()) {
    return std::nullopt;
  }
  return ticks;
}

std::string PidNamespace() {
  char buffer[64];
  const ssize_t size = readlink("/proc/self/ns/pid", buffer, sizeof(buffer));
  return size <= 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
}

std::string Machine() {
  std::string id = FirstLine("/etc/machine-id");
  if (!id.empty()) return id;
  utsname name = {};
  uname(&name);
  return name.nodename;
}

}  // namespace

Owner CurrentOwner() {
  Owner owner;
  owner.machine = Machine();
  owner.boot = FirstLine("/proc/sys/kernel/random/boot_id");
  owner.pid_namespace = PidNamespace();
  owner.pid = getpid();
  owner.start_ticks = StartTicks("/proc", owner.pid).value_or(0);
  return owner;
}

bool IsDead(const Owner& owner, const Owner& self, const std::string& proc) {
  const bool boots_known = !owner.boot.empty() && !self.boot.empty();
  if (owner.boot != self.boot) return boots_known && owner.machine == self.machine;
  if (!boots_known && owner.machine != self.machine) return false;
  if (owner.pid_namespace != self.pid_namespace || owner.pid <= 0) return false;
  const std::optional<std::int64_t> ticks = StartTicks(proc, owner.pid);
  if (ticks.has_value() && owner.start_ticks != 0) return *ticks != owner.start_ticks;
  // /proc may be missing, or hide other users' processes (hidepid): the kernel itself still tells
  // whether there is one of this id.
  return kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
}

}  // namespace schedtwin
