// What tests of conserve and hygen share: offline requests, and copies as texts. One thread.
#ifndef SCHEDTWIN_TESTS_UNIT_HYBRID_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_HYBRID_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/policy_testing.h"

namespace schedtwin::hybrid_testing {

using policy_testing::Played;
using policy_testing::Script;
using policy_testing::Settings;

inline RequestSpec Online(std::int64_t at_ns, std::uint32_t prompt, std::uint32_t output) {
  return policy_testing::Tokens(at_ns, prompt, output);
}

/// Of class 1.
inline RequestSpec Offline(std::int64_t at_ns, std::uint32_t prompt, std::uint32_t output) {
  RequestSpec spec = policy_testing::Tokens(at_ns, prompt, output);
  spec.request_class = 1;
  return spec;
}

/// A device of four layers and `blocks` blocks of four tokens; a step takes 1 ns for each token, a
/// copy 5 ns and 1 ns for each block.
inline Script Engine(const std::string& policy, std::vector<RequestSpec> requests,
                     const Settings& settings, std::uint32_t blocks = 64,
                     std::uint32_t host_blocks = 64) {
  Script script{.policy = policy, .settings = settings, .requests = std::move(requests)};
  script.device.layers = 4;
  script.device.total_blocks = blocks;
  script.device.block_tokens = 4;
  script.device.block_bytes = 1;
  script.device.host_blocks = host_blocks;
  script.device.host_link = {Duration::Nanos(5), 1'000'000'000};
  return script;
}

/// "save 0:2 9-16" for each copy, in order of their ends: blocks of request 0 to the host tier
/// while it stays; "out" when it leaves, "in" when it comes back.
inline std::vector<std::string> Copies(const Played& played) {
  std::vector<std::string> texts;
  for (const OperationRecord& copy : played.operations) {
    const auto kind = static_cast<OperationKind>(copy.kind);
    std::string text = kind == OperationKind::kStage     ? "save "
                       : kind == OperationKind::kSwapOut ? "out "
                                                         : "in ";
    text += std::to_string(copy.request.value) + ":" + std::to_string(copy.bytes) + " " +
            std::to_string(copy.start.ns()) + "-" + std::to_string(copy.end.ns());
    texts.push_back(text + (copy.ok ? "" : " lost"));
  }
  return texts;
}

inline void ExpectNothingRefused(const RunSummary& summary) {
  EXPECT_EQ(summary.result, RunResult::kFinished) << summary.detail;
  for (std::size_t i = 1; i < static_cast<std::size_t>(Refusal::kCount); ++i) {
    EXPECT_EQ(summary.refusals[i], 0u) << "reason " << i;
  }
}

}  // namespace schedtwin::hybrid_testing

#endif  // SCHEDTWIN_TESTS_UNIT_HYBRID_TESTING_H_
