// StopCheck: how a caller ends a computation of seconds from outside: a function that is asked
// between layers whether to go on, and nothing else of the caller. What is asked of it comes from
// the computing thread; that it may answer for another thread is the caller's business.
#ifndef SCHEDTWIN_KERNELS_CPU_STOP_CHECK_H_
#define SCHEDTWIN_KERNELS_CPU_STOP_CHECK_H_

#include <exception>

namespace schedtwin {

struct StopCheck {
  bool (*stopped)(const void* context) = nullptr;  ///< null: never
  const void* context = nullptr;

  bool operator()() const { return stopped != nullptr && stopped(context); }
};

/// Thrown by a constructor that was stopped.
struct MakingStopped final : std::exception {
  const char* what() const noexcept override { return "stopped while it was made"; }
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_KERNELS_CPU_STOP_CHECK_H_
