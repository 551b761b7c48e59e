// A policy that does nothing, with a parameter of every type, exported from within a namespace.
#include <memory>

#include "policies/api/plugin.h"

namespace schedtwin {
namespace {

constexpr std::string_view kOrders[] = {"arrival", "length"};
constexpr ParameterSpec kParameters[] = {{.name = "batch",
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
                                          .choices = kOrders}};
constexpr PolicyInfo kInfo = {.name = "typed",
                              .summary = "Does nothing.",
                              .source = "tests",
                              .decoder = true,
                              .parameters = kParameters,
                              .create = [](const Parameters&) -> std::unique_ptr<Policy> {
                                return std::make_unique<Policy>();
                              }};

SCHEDTWIN_EXPORT_POLICY(kInfo);

}  // namespace
}  // namespace schedtwin
