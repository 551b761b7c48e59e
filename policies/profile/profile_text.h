// ProfileText: a profile as the text that LoadProfile reads back to an equal one (but for `hash`,
// which is of the text), to the last bit of every number. For what makes profiles: calibration and
// imports. A pure function.
#ifndef SCHEDTWIN_POLICIES_PROFILE_PROFILE_TEXT_H_
#define SCHEDTWIN_POLICIES_PROFILE_PROFILE_TEXT_H_

#include <string>
#include <string_view>

#include "policies/profile/profile.h"

namespace schedtwin {

/// `comment` comes first, as comment lines: what made the profile, from what. REQUIRES:
/// ValidateProfile(profile) is OK.
std::string ProfileText(const Profile& profile, std::string_view comment = {});

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PROFILE_PROFILE_TEXT_H_
