// What the tests of kernels share: random inputs, and the backends that this build has.
#ifndef SCHEDTWIN_TESTS_UNIT_KERNEL_TESTING_H_
#define SCHEDTWIN_TESTS_UNIT_KERNEL_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/stop_check.h"
#include "tests/support/reference_math.h"

namespace schedtwin {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<LinearBackendKind> LinearBackends() {
  std::vector<LinearBackendKind> kinds = {LinearBackendKind::kPlain};
  if (HasOneDnn()) kinds.push_back(LinearBackendKind::kOneDnn);
  return kinds;
}

inline std::string BackendName(const testing::TestParamInfo<LinearBackendKind>& info) {
  return info.param == LinearBackendKind::kPlain ? "plain" : "onednn";
}

// Bit for bit with the plain loops; oneDNN sums in another order for other numbers of rows.
inline void ExpectSame(LinearBackendKind backend, const std::vector<float>& a,
                       const std::vector<float>& b) {
  if (backend == LinearBackendKind::kPlain) {
    EXPECT_EQ(a, b);
  } else {
    EXPECT_LT(reference::RelativeError(a, b), 1e-5);
  }
}

/// Says stop when it is asked for the `stop_at`th time, from 0, and from then on.
struct StopAt {
  int stop_at;
  mutable int asked = 0;

  StopCheck check() const {
    return {[](const void* context) {
              const auto& self = *static_cast<const StopAt*>(context);
              return self.asked++ >= self.stop_at;
            },
            this};
  }
};

inline std::vector<float> RandomFloats(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline std::vector<std::int32_t> RandomTokens(std::mt19937& random, std::size_t count,
                                              std::uint32_t vocab) {
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % vocab);
  return tokens;
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_UNIT_KERNEL_TESTING_H_
