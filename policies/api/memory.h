// Memory: the KV blocks of one device, as books kept inside one decision: everything here is
// synchronous. Released blocks are free in the books at once but fenced: they are handed out again
// only when every step in flight at their release has ended (DeviceView: free_blocks,
// fenced_blocks).
//
// A policy that tries, evicts and retries opens a transaction, and commits or rolls back before its
// callback returns; an open one is rolled back by the runtime and counted as a refusal. While one
// is open, of whichever device, only memory moves: plans, members and requests stay as they are.
#ifndef SCHEDTWIN_POLICIES_API_MEMORY_H_
#define SCHEDTWIN_POLICIES_API_MEMORY_H_

#include <cstdint>

#include "policies/api/ids.h"

namespace schedtwin {

/// A point in an open transaction to go back to.
struct MemoryMark {
  std::uint32_t entries = 0;
};

class Memory {
 public:
  /// Makes the request's blocks cover `tokens` tokens; false, and nothing changes, if too few are
  /// free. Reserving less than it owns does nothing and gives true. The first reservation binds the
  /// request to the device. REQUIRES: a live request that owns blocks of no other device, and is
  /// bound to none while a transaction is open (else false).
  virtual bool Reserve(RequestId request, std::uint32_t tokens) = 0;
  /// Gives back all blocks of the request and forgets what was computed of it. A member of the
  /// standing set (Leave first) and a request that a launched plan names (Withdraw or Preempt) keep
  /// theirs: false.
  virtual bool Release(RequestId request) = 0;
  /// Blocks that the next step of the standing set will take.
  virtual std::uint32_t StandingGrowth() const = 0;

  virtual MemoryMark Begin() = 0;
  /// Undoes everything since the mark.
  virtual void Rollback(MemoryMark mark) = 0;
  virtual void Commit(MemoryMark mark) = 0;

 protected:
  ~Memory() = default;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_API_MEMORY_H_
