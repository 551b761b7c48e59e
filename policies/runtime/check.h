// SCHEDTWIN_CHECK: an invariant of the runtime. Always on; a failure is a defect of this program,
// never of a user's input, so it says where and aborts. SCHEDTWIN_HARDENED builds also sweep all
// books after events.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_CHECK_H_
#define SCHEDTWIN_POLICIES_RUNTIME_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define SCHEDTWIN_CHECK(condition)                                                     \
  do {                                                                                 \
    if (!(condition)) [[unlikely]] {                                                   \
      std::fprintf(stderr, "%s:%d: invariant does not hold: %s\n", __FILE__, __LINE__, \
                   #condition);                                                        \
      std::abort();                                                                    \
    }                                                                                  \
  } while (false)

#endif  // SCHEDTWIN_POLICIES_RUNTIME_CHECK_H_
