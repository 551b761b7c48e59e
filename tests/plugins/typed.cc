// A policy that does nothing, with a parameter of every type and a check of one value against
// another, exported from within a namespace.
#include <algorithm>
#include <memory>
#include <string>

#include "policies/api/plugin.h"

namespace schedtwin {
namespace {

constexpr std::string_view kOrders[] = {"arrival", "length"};
constexpr ParameterSpec kParameters[] = {
    {.name = "batch",
     .default_text = "8",
     .min = 1,
     .max = 64,
     .unit = "requests",
     .meaning = "requests at once"},
    {.name = "greedy",
     .type = ParameterType::kFlag,
     .default_text = "false",
     .meaning = "never wait"},
    {.name = "delay",
     .type = ParameterType::kDuration,
     .default_text = "10ms",
     .max = 1'000'000'000,
     .meaning = "waited for more"},
    {.name = "order",
     .type = ParameterType::kChoice,
     .default_text = "arrival",
     .meaning = "who is first",
     .choices = kOrders},
    {.name = "share",
     .type = ParameterType::kNumber,
     .default_text = "0.5",
     .max = 1,
     .meaning = "of the blocks"},
    {.name = "sizes",
     .type = ParameterType::kIntegers,
     .default_text = "4:8",
     .min = 1,
     .max = 64,
     .unit = "requests",
     .meaning = "preferred"},
    {.name = "config", .type = ParameterType::kText, .meaning = "of another program"}};

std::string Check(const Parameters& parameters) {
  std::int64_t largest = 0;
  for (const std::int64_t size : parameters.integers("sizes")) largest = std::max(largest, size);
  if (largest > parameters.integer("batch")) return "no size may be above batch; raise batch";
  if (parameters.text("config").find("nonsense") == std::string_view::npos) return "";
  return "config says nonsense";
}

constexpr PolicyInfo kInfo = {.name = "typed",
                              .summary = "Does nothing.",
                              .source = "tests",
                              .decoder = true,
                              .parameters = kParameters,
                              .create = [](const Parameters&) -> std::unique_ptr<Policy> {
                                return std::make_unique<Policy>();
                              },
                              .check = Check};

SCHEDTWIN_EXPORT_POLICY(kInfo);

}  // namespace
}  // namespace schedtwin
