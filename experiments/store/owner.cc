#include "experiments/store/owner.h"

#include <unistd.h>

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
std::optional<std::int64_t> StartTicks(std::int64_t pid) {
  const std::string line = FirstLine("/proc/" + std::to_string(pid) + "/stat");
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

}  // namespace

Owner CurrentOwner() {
  Owner owner;
  owner.boot = FirstLine("/proc/sys/kernel/random/boot_id");
  owner.pid_namespace = PidNamespace();
  owner.pid = getpid();
  owner.start_ticks = StartTicks(owner.pid).value_or(0);
  return owner;
}

bool IsDead(const Owner& owner, const Owner& self) {
  if (owner.boot != self.boot) return true;
  if (owner.pid_namespace != self.pid_namespace) return false;
  return StartTicks(owner.pid) != owner.start_ticks;
}

}  // namespace schedtwin
