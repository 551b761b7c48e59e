// What policies' tables of parameters have in common: rows that mean the same in several, and
// reading what the table's range keeps small.
#ifndef SCHEDTWIN_POLICIES_PARTS_COMMON_PARAMETERS_H_
#define SCHEDTWIN_POLICIES_PARTS_COMMON_PARAMETERS_H_

#include <cstdint>
#include <string_view>

#include "policies/api/parameters.h"

namespace schedtwin {

inline constexpr ParameterSpec kMaxNumSeqsParameter{
    .name = "max_num_seqs",
    .default_text = "128",
    .min = 1,
    .max = 1'000'000,
    .unit = "requests",
    .meaning = "requests running at once on a device, at most"};

/// An integer parameter. REQUIRES: its row's range is within 32 bits.
inline std::uint32_t SmallInteger(const Parameters& parameters, std::string_view name) {
  return static_cast<std::uint32_t>(parameters.integer(name));
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_COMMON_PARAMETERS_H_
