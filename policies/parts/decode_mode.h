// DecodeMode: how a policy for decoders asks for decode steps: by the device's standing set or by
// listing every request in every plan, and how many steps a plan may run before the policy is asked
// again. Neither changes what happens to requests (tests hold every policy to the same outcome
// digest); both change what a step costs the scheduler.
#ifndef SCHEDTWIN_POLICIES_PARTS_DECODE_MODE_H_
#define SCHEDTWIN_POLICIES_PARTS_DECODE_MODE_H_

#include <cstdint>

#include "policies/api/parameters.h"

namespace schedtwin {

inline constexpr ParameterSpec kStandingSetParameter{
    .name = "standing_set",
    .type = ParameterType::kFlag,
    .default_text = "true",
    .meaning =
        "keep decoding requests in the device's standing set instead of listing them in "
        "every plan; same outcome"};

inline constexpr ParameterSpec kPlanStepsParameter{
    .name = "plan_steps",
    .type = ParameterType::kInteger,
    .default_text = "4096",
    .min = 1,
    .max = 1'000'000,
    .unit = "steps",
    .meaning = "decode steps that one plan may run while nothing can change; same outcome"};

struct DecodeMode {
  explicit DecodeMode(const Parameters& parameters)
      : standing_set(parameters.flag(kStandingSetParameter.name)),
        plan_steps(static_cast<std::uint32_t>(parameters.integer(kPlanStepsParameter.name))) {}

  bool standing_set;
  std::uint32_t plan_steps;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_DECODE_MODE_H_
