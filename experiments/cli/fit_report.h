// How the error of a profile's fit is shown: `fit` of --json, and the table for people. Used by
// `profiles` and `calibrate`; pure.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_FIT_REPORT_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_FIT_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "policies/profile/profile.h"

namespace schedtwin::cli {

/// One object for each part: part, method, rows, mape_percent, p95_percent, max_percent,
/// bias_percent.
nlohmann::ordered_json FitJson(const Profile& profile);

/// A table, one line for each part.
std::string FitText(const Profile& profile);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_FIT_REPORT_H_
