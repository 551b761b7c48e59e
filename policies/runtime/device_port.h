// The device seam: plain messages, no pointers. Commands go to a device through a ring; started and
// done messages come back through a sink. A simulated device answers at once with messages that are
// due later; a real one is a thread or another process that answers when it happens. Whatever a
// device needs to know of a request is in the messages: it never reads the runtime's memory.
//
// Where KV blocks are told apart (WorldOptions::identify_blocks) the messages name them, too: a
// device with real memory follows them, any other may pass them over.
//
// Threads: the ring is single-producer (policy thread), single-consumer (device).
#ifndef SCHEDTWIN_POLICIES_RUNTIME_DEVICE_PORT_H_
#define SCHEDTWIN_POLICIES_RUNTIME_DEVICE_PORT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "policies/api/device.h"
#include "policies/api/ids.h"
#include "policies/api/time.h"

namespace schedtwin {

enum class CommandKind : std::uint8_t {
  kJoin,   ///< request becomes a member of the standing set; its context is `context_tokens`
  kLeave,  ///< and leaves it, with this context: the token of every step since the join is in it,
           ///< also of one that was cut
  kBlock,  ///< block number `context_tokens` of the request's table is block `tokens` of the pool,
           ///< and the table is that long now
  kEnd,    ///< the request is over: what is kept of it may go
  kContent,  ///< the request's text is, from position `context_tokens` on, `tokens` tokens of the
             ///< content whose id is handle(); in order of position, the named output last, before
             ///< the request's first kBlock
  kEntry,    ///< one entry of the step that follows
  kStep,     ///< run a step: the entries before it, and the standing set if `standing`; of model
             ///< number `request`
  kAbort,    ///< cut the step that runs, if it is `step` of `plan`: now, or at the end of its layer
             ///< if `layer`. Answered with the step
  kFrom,     ///< block number `context_tokens` that the copy that follows reads is block `tokens`
  kTo,       ///< and that it writes
  kCopy,     ///< operation handle(): copy `tokens` blocks of KV to tier `step` of this device, from
             ///< tier `entries` of device `context_tokens`
  kLoad,     ///< operation handle(): load model number `request`, of `bytes()` bytes
  kUnload,   ///< operation handle(): and unload it
  kCancel,   ///< end operation handle() as soon as can be. Answered with the operation
};

/// 32 bytes, the same for every kind; a step's entries precede it, as its blocks do a copy. kBlock,
/// kEnd, kContent, kFrom and kTo are sent only where blocks are told apart.
struct DeviceCommand {
  CommandKind kind = CommandKind::kStep;
  bool standing : 1 = false;
  bool decode : 1 = false;    ///< kEntry: one token past the prompt; it samples
  bool samples : 1 = false;   ///< kEntry: brings its request up to date, so the step makes a token
  bool blocking : 1 = false;  ///< kCopy, kLoad, kUnload: in its place between the steps
  bool layer : 1 = false;     ///< kAbort
  std::uint32_t request = 0;
  std::uint32_t tokens = 0;          ///< kEntry: tokens or units; kStep: padding tokens
  std::uint32_t context_tokens = 0;  ///< tokens already in the cache
  PlanId plan;                       ///< of what is no plan: handle()
  std::uint32_t step = 0;            ///< index in the plan
  std::uint32_t entries = 0;         ///< kStep: how many kEntry came before

  std::uint64_t handle() const { return plan.word(); }
  /// kLoad: of the model.
  std::uint64_t bytes() const { return (std::uint64_t{tokens} << 32) | context_tokens; }
};
static_assert(sizeof(DeviceCommand) == 32 && std::is_trivially_copyable_v<DeviceCommand>);

enum class ReplyKind : std::uint8_t { kStepDone, kOperationDone };
enum class ReplyStatus : std::uint8_t {
  kOk,
  kAborted,  ///< a step that was cut and made nothing; an operation that was cancelled
  kFailed,   ///< the device cannot go on
};

struct DeviceReply {
  ReplyKind kind = ReplyKind::kStepDone;
  ReplyStatus status = ReplyStatus::kOk;
  DeviceId device;
  PlanId plan;  ///< of an operation: its handle
  std::uint32_t step = 0;
  Time start;
  Time end;                        ///< means nothing, like `start`, where the status is kFailed
  std::int64_t predicted_ns = -1;  ///< -1: no profile
  std::int64_t compute_ns = -1;    ///< thread CPU time; -1: not measured. A real device measures

  /// True of what a real device says, false of what a model has worked out and posted for its end.
  bool measured(Time now) const { return compute_ns >= 0 || end != now; }
};
static_assert(std::is_trivially_copyable_v<DeviceReply>);

/// Bounded queue of commands for one producer and one consumer. Full means the producer must wait,
/// which a queue deeper than the largest step never does.
class CommandRing {
 public:
  explicit CommandRing(std::uint32_t log2_capacity)
      : mask_((1u << log2_capacity) - 1),
        slots_(std::make_unique<DeviceCommand[]>(std::size_t{1} << log2_capacity)) {}

  bool Push(const DeviceCommand& command) {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) > mask_) return false;
    slots_[head & mask_] = command;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  /// Calls visit(command) for each command that is there, in order.
  template <class Visit>
  void Drain(Visit visit) {
    std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    for (; tail != head; ++tail) visit(static_cast<const DeviceCommand&>(slots_[tail & mask_]));
    tail_.store(tail, std::memory_order_release);
  }

 private:
  std::uint32_t mask_;
  std::unique_ptr<DeviceCommand[]> slots_;
  std::atomic<std::uint32_t> head_ = 0;
  std::atomic<std::uint32_t> tail_ = 0;
};

/// Where a device posts its messages. In simulation `due` may lie in the future; for real it is
/// when the message was written. A device that cuts a step or an operation whose end it has posted
/// already posts again; the earlier message is void.
class ReplySink {
 public:
  virtual void Post(const DeviceReply& reply, Time due) = 0;

 protected:
  ~ReplySink() = default;
};

class DevicePort {
 public:
  virtual ~DevicePort() = default;
  virtual DeviceInfo info() const = 0;
  /// Once, before the run. Both outlive the device's use of them.
  virtual void Attach(DeviceId id, CommandRing* commands, ReplySink* replies) = 0;
  /// Commands are in the ring; `now` is the latched time, or later: when the policy's thread has
  /// got so far. They end with a kStep, kAbort, kCopy, kLoad, kUnload or kCancel, but for a ring
  /// that was full in the middle of a step: the rest follows.
  virtual void Notify(Time now) = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_DEVICE_PORT_H_
