// CommandSender: the runtime's end of a device's command ring. Owned by DeviceDriver, shared with
// what else has something to tell the device. Policy thread.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_COMMAND_SENDER_H_
#define SCHEDTWIN_POLICIES_RUNTIME_COMMAND_SENDER_H_

#include "policies/api/time.h"
#include "policies/runtime/device_port.h"

namespace schedtwin {

class CommandSender {
 public:
  /// `port` and `issue`, when commands leave, outlive this.
  CommandSender(DevicePort* port, const Time* issue) : port_(port), issue_(issue) {}

  CommandRing* ring() { return &ring_; }
  void Send(const DeviceCommand& command) {
    while (!ring_.Push(command)) Notify();  // full: the device makes room
  }
  void Notify() { port_->Notify(*issue_); }

 private:
  // Small, so that it stays in the nearest cache; a step with more entries fills it several times.
  static constexpr std::uint32_t kLog2Commands = 8;

  DevicePort* port_;
  const Time* issue_;
  CommandRing ring_{kLog2Commands};
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_COMMAND_SENDER_H_
