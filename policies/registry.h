// The policies that ship with the program, by name.
#ifndef SCHEDTWIN_POLICIES_REGISTRY_H_
#define SCHEDTWIN_POLICIES_REGISTRY_H_

#include <span>
#include <string_view>

#include "policies/api/policy.h"

namespace schedtwin {

/// In alphabetical order; lives as long as the program.
std::span<const PolicyInfo* const> Policies();

/// Null if there is none of that name.
const PolicyInfo* FindPolicy(std::string_view name);

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_REGISTRY_H_
