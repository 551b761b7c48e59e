#include "exec/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace schedtwin {

Mailbox::Mailbox() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Mailbox::~Mailbox() { close(descriptor_); }

void Mailbox::Connect(ReplySink* sink) {
  sink_ = sink;
  ++devices_;
  const std::lock_guard lock(mutex_);
  in_.reserve(devices_ * kRepliesHeld);
  out_.reserve(devices_ * kRepliesHeld);
}

void Mailbox::Put(const DeviceReply& reply) {
  const std::lock_guard lock(mutex_);
  in_.push_back(reply);
  if (in_.size() > 1) return;  // the descriptor is readable already
  ready_.store(true, std::memory_order_release);
  eventfd_write(descriptor_, 1);
}

bool Mailbox::Deliver() {
  if (!ready()) return false;
  {
    const std::lock_guard lock(mutex_);
    in_.swap(out_);
    ready_.store(false, std::memory_order_release);
    eventfd_t ignored = 0;
    eventfd_read(descriptor_, &ignored);
  }
  for (const DeviceReply& reply : out_) {
    --expected_;
    sink_->Post(reply, reply.end);
  }
  out_.clear();
  return true;
}

}  // namespace schedtwin
