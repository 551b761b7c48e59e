#include "experiments/cli/fit_report.h"

#include <nlohmann/json.hpp>

#include "experiments/cli/output.h"
#include "experiments/text.h"

namespace schedtwin::cli {

nlohmann::ordered_json FitJson(const Profile& profile) {
  nlohmann::ordered_json fit = nlohmann::ordered_json::array();
  for (const FitError& error : profile.fit) {
    fit.push_back({{"part", error.part},
                   {"method", error.method},
                   {"rows", error.rows},
                   {"mape_percent", error.mape_percent},
                   {"p95_percent", error.p95_percent},
                   {"max_percent", error.max_percent},
                   {"bias_percent", error.bias_percent}});
  }
  return fit;
}

std::string FitText(const Profile& profile) {
  using enum Table::Align;
  Table table({{"part", kLeft},
               {"rows", kRight},
               {"MAPE", kRight},
               {"p95", kRight},
               {"max", kRight},
               {"bias", kRight},
               {"how", kLeft}});
  for (const FitError& error : profile.fit) {
    table.Add({error.part, Cat(error.rows), Cat(Fixed(error.mape_percent, 2), "%"),
               Cat(Fixed(error.p95_percent, 2), "%"), Cat(Fixed(error.max_percent, 2), "%"),
               Cat(Fixed(error.bias_percent, 2), "%"), error.method});
  }
  return table.Text(2);
}

}  // namespace schedtwin::cli
