// The matrix product of both backends against a double loop, over every kind of piece and edge.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/linear.h"
#include "tests/support/reference_math.h"
#include "tests/unit/kernel_testing.h"

namespace schedtwin {
namespace {

static_assert(PaddedRows(0) == 0 && PaddedRows(1) == 8 && PaddedRows(8) == 8 &&
              PaddedRows(9) == 16);
static_assert(kMaxRows % kRowTile == 0);

class KernelLinear : public testing::TestWithParam<LinearBackendKind> {
 protected:
  std::mt19937 random_{7};
};
INSTANTIATE_TEST_SUITE_P(, KernelLinear, testing::ValuesIn(LinearBackends()), BackendName);

std::vector<double> Expected(const std::vector<float>& weights, const std::vector<float>& x,
                             std::uint32_t rows, std::uint32_t k) {
  std::vector<double> y;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const auto from = x.begin() + std::ptrdiff_t{row} * k;
    const reference::Row out = reference::Times(weights, reference::Row(from, from + k));
    y.insert(y.end(), out.begin(), out.end());
  }
  return y;
}

TEST_P(KernelLinear, AgreesWithADoubleLoop) {
  const struct {
    std::uint32_t n, k;
  } shapes[] = {{8, 8}, {40, 24}, {50, 64}, {17, 520}, {288, 32}};
  const auto backend = MakeLinearBackend(GetParam());
  for (const auto& [n, k] : shapes) {
    const std::vector<float> weights = RandomFloats(random_, std::size_t{n} * k);
    const auto linear = backend->Pack(n, k, weights.data());
    linear->Prepare(24);  // what is larger is made when it is needed
    for (const std::uint32_t rows : {1U, 7U, 8U, 9U, 24U, 65U}) {
      std::vector<float> x = RandomFloats(random_, std::size_t{rows} * k);
      x.resize(std::size_t{PaddedRows(rows)} * k, kNan);
      std::vector<float> y(std::size_t{PaddedRows(rows)} * n, kNan);
      linear->Run(x.data(), rows, y.data());
      y.resize(std::size_t{rows} * n);
      EXPECT_LT(reference::RelativeError(y, Expected(weights, x, rows, k)), 1e-5)
          << backend->name() << " " << rows << "x" << n << "x" << k;
    }
  }
}

TEST_P(KernelLinear, RunsPiecesOf512RowsAndTheRest) {
  constexpr std::uint32_t kN = 24, kK = 16;
  const auto backend = MakeLinearBackend(GetParam());
  const std::vector<float> weights = RandomFloats(random_, std::size_t{kN} * kK);
  const auto linear = backend->Pack(kN, kK, weights.data());
  linear->Prepare(2000);
  for (const std::uint32_t rows : {511U, 512U, 513U, 520U, 1024U, 1025U, 1600U}) {
    std::vector<float> x = RandomFloats(random_, std::size_t{rows} * kK);
    x.resize(std::size_t{PaddedRows(rows)} * kK, kNan);
    std::vector<float> y(std::size_t{PaddedRows(rows)} * kN, kNan);
    linear->Run(x.data(), rows, y.data());
    y.resize(std::size_t{rows} * kN);
    EXPECT_LT(reference::RelativeError(y, Expected(weights, x, rows, kK)), 1e-5) << rows;
  }
}

TEST_P(KernelLinear, SharesABackendBetweenWeightsOfOneShape) {
  const auto backend = MakeLinearBackend(GetParam());
  const std::vector<float> first = RandomFloats(random_, 64), second = RandomFloats(random_, 64);
  const auto a = backend->Pack(8, 8, first.data()), b = backend->Pack(8, 8, second.data());
  const std::vector<float> x = RandomFloats(random_, 64);
  std::vector<float> y(64);
  b->Run(x.data(), 8, y.data());
  EXPECT_LT(reference::RelativeError(y, Expected(second, x, 8, 8)), 1e-5);
  a->Run(x.data(), 8, y.data());
  EXPECT_LT(reference::RelativeError(y, Expected(first, x, 8, 8)), 1e-5);
}

TEST_P(KernelLinear, RowsDoNotDependOnTheirNeighbours) {
  constexpr std::uint32_t kN = 96, kK = 300, kRows = 72;
  const auto backend = MakeLinearBackend(GetParam());
  const auto linear = backend->Pack(kN, kK, RandomFloats(random_, std::size_t{kN} * kK).data());
  const std::vector<float> x = RandomFloats(random_, std::size_t{kRows} * kK);
  std::vector<float> all(std::size_t{kRows} * kN), alone(std::size_t{kRowTile} * kN);
  linear->Run(x.data(), kRows, all.data());
  for (std::uint32_t row = 0; row + kRowTile <= kRows; row += 5) {
    linear->Run(x.data() + std::size_t{row} * kK, 1, alone.data());
    const std::vector<float> expected(all.begin() + std::ptrdiff_t{row} * kN,
                                      all.begin() + std::ptrdiff_t{row + 1} * kN);
    const std::vector<float> got(alone.begin(), alone.begin() + kN);
    ExpectSame(GetParam(), got, expected);
  }
}

TEST_P(KernelLinear, TellsItsName) {
  const std::string name = MakeLinearBackend(GetParam())->name();
  EXPECT_TRUE(name.starts_with(GetParam() == LinearBackendKind::kPlain ? "plain " : "onednn 2."))
      << name;
}

TEST(KernelLinearBackend, IsRefusedWhereTheBuildLacksIt) {
  if (HasOneDnn()) {
    EXPECT_EQ(DefaultLinearBackend(), LinearBackendKind::kOneDnn);
  } else {
    EXPECT_EQ(DefaultLinearBackend(), LinearBackendKind::kPlain);
    EXPECT_THROW(MakeLinearBackend(LinearBackendKind::kOneDnn), std::invalid_argument);
  }
}

}  // namespace
}  // namespace schedtwin
