// Mailbox: the way from the worker threads of a run's devices back to its policy thread. Workers
// put replies in; a file descriptor becomes readable, on which the policy thread can sleep together
// with its timers; the policy thread takes them out and posts them to the run. One for all devices
// of a run, which it outlives. Allocates nothing once all devices are connected, unless a device
// answers more than kRepliesHeld times between two deliveries.
#ifndef SCHEDTWIN_EXEC_MAILBOX_H_
#define SCHEDTWIN_EXEC_MAILBOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "policies/runtime/device_port.h"

namespace schedtwin {

class Mailbox {
 public:
  /// Of a device, without more memory: its step's, and those of operations.
  static constexpr std::size_t kRepliesHeld = 16;

  /// Throws std::system_error if the system has no descriptor left.
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // The policy thread's side.
  /// Once for each device. Where Deliver posts to; not used after the last Deliver: the sink may be
  /// gone while a worker still puts.
  void Connect(ReplySink* sink);
  /// A reply will come.
  void Expect() { ++expected_; }
  std::uint32_t expected() const { return expected_; }
  /// Posts what has come in; false if nothing has.
  bool Deliver();
  /// True if something has come in.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  /// Readable while something is in; Deliver makes it unreadable.
  int descriptor() const { return descriptor_; }

  /// Any thread.
  void Put(const DeviceReply& reply);

 private:
  int descriptor_;
  ReplySink* sink_ = nullptr;
  std::uint32_t devices_ = 0;
  std::uint32_t expected_ = 0;
  std::atomic<bool> ready_ = false;
  std::mutex mutex_;
  std::vector<DeviceReply> in_;   ///< guarded by mutex_
  std::vector<DeviceReply> out_;  ///< what Deliver is at
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXEC_MAILBOX_H_
