// Owner: which process has a run open, told so that another process can see whether it still lives.
// A process id alone is not enough (ids are used again), so the time the process started, the boot
// and the machine it belongs to go with it. The store writes it into open runs and removes those
// whose owner is dead. Reads /proc where there is one; any thread; plain values.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_OWNER_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_OWNER_H_

#include <cstdint>
#include <string>

namespace schedtwin {

struct Owner {
  std::string machine;        ///< /etc/machine-id, or the node's name where there is none
  std::string boot;           ///< /proc/sys/kernel/random/boot_id
  std::string pid_namespace;  ///< "pid:[4026531836]": process ids mean something only inside it
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;  ///< clock ticks from boot to the start of the process

  bool operator==(const Owner&) const = default;
};

/// This process.
Owner CurrentOwner();

/// True only when it is certain that `owner` no longer runs: another boot of this machine, or,
/// within the process-id namespace of `self`, no such process, or one that started at another time.
/// A process on another machine or in another container cannot be seen from here and counts as
/// alive. `proc` is another folder in tests only.
bool IsDead(const Owner& owner, const Owner& self, const std::string& proc = "/proc");

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_OWNER_H_
