// A policy from a shared library (a plugin, policies/api/plugin.h): looked at as a file, held
// against this program's stamp, and only then loaded. What was loaded stays for as long as the
// program runs, since policies and their parameters point into it. Called by Resolver and by the
// `policies` command, on one thread; the policies themselves may run on any. Every error is one
// line that names the file and says how to mend it.
#ifndef SCHEDTWIN_EXPERIMENTS_POLICY_LIBRARY_H_
#define SCHEDTWIN_EXPERIMENTS_POLICY_LIBRARY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "experiments/store/store.h"
#include "policies/api/policy.h"

namespace schedtwin {

struct PolicyLibrary {
  const PolicyInfo* info = nullptr;  ///< checked: names, parameters, and that it makes a policy
  LibraryFacts facts;
};

/// A policy is named by its library's file rather than by its name when it has a '/':
/// "./libmine.so".
inline bool NamesLibrary(std::string_view policy) {
  return policy.find('/') != std::string_view::npos;
}

/// NotFound when there is no such file, InvalidArgument when it is no policy for this program.
absl::StatusOr<PolicyLibrary> LoadPolicyLibrary(const std::string& file);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_POLICY_LIBRARY_H_
