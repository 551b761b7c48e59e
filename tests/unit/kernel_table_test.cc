// Every kernel of every instruction set that this CPU runs, against the same in double precision.
// What no kernel may read is filled with NaN first.
#include "kernels/cpu/kernel_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/reference_math.h"
#include "tests/unit/kernel_testing.h"

namespace schedtwin {
namespace {

using reference::Plus;
using reference::RelativeError;
using reference::Row;

class KernelTable : public testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& kernels_ = *GetParam();
  std::mt19937 random_{11};
};
INSTANTIATE_TEST_SUITE_P(, KernelTable,
                         testing::ValuesIn(CpuKernelTables().begin(), CpuKernelTables().end()),
                         [](const auto& table) { return std::string(table.param->isa); });

Row RowOf(const std::vector<float>& values, std::size_t row, std::size_t dim) {
  const auto from = values.begin() + static_cast<std::ptrdiff_t>(row * dim);
  return Row(from, from + static_cast<std::ptrdiff_t>(dim));
}

TEST(KernelTables, EndWithTheOneThatIsUsed) {
  ASSERT_FALSE(CpuKernelTables().empty());
  EXPECT_STREQ(CpuKernelTables().front()->isa, "baseline");
  EXPECT_EQ(CpuKernelTables().back(), &Kernels());
}

TEST_P(KernelTable, ExpIsAccurate) {
  std::vector<float> x;
  for (int i = -87000; i <= 88000; i += 7) x.push_back(static_cast<float>(i) / 1000);
  x.resize(x.size() / kLaneMultiple * kLaneMultiple);
  std::vector<float> y = x;
  kernels_.exp(y.data(), static_cast<std::uint32_t>(y.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i] / exact, 1, 2e-7) << x[i];
  }
  const float infinity = std::numeric_limits<float>::infinity();
  float edges[kLaneMultiple] = {0, -infinity, -1000, 1000, kNan, -0.0F, 1e-30F, 88};
  kernels_.exp(edges, kLaneMultiple);
  EXPECT_EQ(edges[0], 1);
  EXPECT_LT(edges[1], 1.3e-38F);
  EXPECT_LT(edges[2], 1.3e-38F);
  EXPECT_GT(edges[3], 1e38F);
  EXPECT_TRUE(std::isnan(edges[4]));
  EXPECT_EQ(edges[5], 1);
  EXPECT_EQ(edges[6], 1);
}

TEST_P(KernelTable, GathersRows) {
  const std::vector<float> table = RandomFloats(random_, 5 * 8);
  const std::int32_t tokens[] = {4, 0, 4};
  std::vector<float> out(3 * 8, kNan);
  kernels_.gather(table.data(), tokens, 3, 8, out.data());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(RowOf(out, i, 8), RowOf(table, static_cast<std::size_t>(tokens[i]), 8));
  }
}

TEST_P(KernelTable, NormsAddFirst) {
  constexpr std::uint32_t kRows = 3;
  for (const std::uint32_t dim : {8U, 40U, 288U}) {
    const std::vector<float> x = RandomFloats(random_, kRows * dim),
                             delta = RandomFloats(random_, kRows * dim),
                             bias = RandomFloats(random_, dim), weight = RandomFloats(random_, dim),
                             shift = RandomFloats(random_, dim);
    std::vector<float> plain = x, added = x, out(kRows * dim, kNan), out_added = out;
    kernels_.rms_norm(plain.data(), nullptr, weight.data(), 1e-5F, kRows, dim, out.data());
    kernels_.rms_norm(added.data(), delta.data(), weight.data(), 1e-5F, kRows, dim,
                      out_added.data());
    std::vector<float> layer = x, layer_added = x;
    kernels_.layer_norm(layer.data(), nullptr, nullptr, weight.data(), shift.data(), 1e-12F, kRows,
                        dim);
    kernels_.layer_norm(layer_added.data(), delta.data(), bias.data(), weight.data(), shift.data(),
                        1e-12F, kRows, dim);
    Row rms, rms_added, sums, norm, norm_added;
    const auto append = [](Row& to, const Row& row) {
      to.insert(to.end(), row.begin(), row.end());
    };
    for (std::size_t row = 0; row < kRows; ++row) {
      const Row sum = Plus(RowOf(x, row, dim), RowOf(delta, row, dim));
      append(rms, reference::RmsNorm(RowOf(x, row, dim), weight, 1e-5));
      append(sums, sum);
      append(rms_added, reference::RmsNorm(sum, weight, 1e-5));
      append(norm, reference::LayerNorm(RowOf(x, row, dim), weight, shift, 1e-12));
      append(norm_added, reference::LayerNorm(Plus(sum, bias), weight, shift, 1e-12));
    }
    EXPECT_EQ(plain, x);
    EXPECT_LT(RelativeError(out, rms), 1e-6);
    EXPECT_LT(RelativeError(added, sums), 1e-6);
    EXPECT_LT(RelativeError(out_added, rms_added), 1e-6);
    EXPECT_LT(RelativeError(layer, norm), 1e-5);
    EXPECT_LT(RelativeError(layer_added, norm_added), 1e-5);
  }
}

TEST_P(KernelTable, Activates) {
  constexpr std::uint32_t kRows = 3, kDim = 24;
  std::vector<float> gate_up = RandomFloats(random_, kRows * 2 * kDim);
  gate_up[0] = 100, gate_up[1] = -100, gate_up[2] = 0;
  std::vector<float> out(kRows * kDim, kNan);
  kernels_.swiglu(gate_up.data(), kRows, kDim, out.data());
  const std::vector<float> x = RandomFloats(random_, kRows * kDim),
                           bias = RandomFloats(random_, kDim);
  std::vector<float> gelu = x, biased = x;
  kernels_.gelu(gelu.data(), bias.data(), kRows, kDim);
  kernels_.add_bias(biased.data(), bias.data(), kRows, kDim);
  Row swiglu, expected_gelu, expected_biased;
  for (std::size_t i = 0; i < kRows * kDim; ++i) {
    const std::size_t gate = i / kDim * 2 * kDim + i % kDim;
    swiglu.push_back(reference::Silu(gate_up[gate]) * gate_up[gate + kDim]);
    expected_biased.push_back(static_cast<double>(x[i]) + bias[i % kDim]);
    expected_gelu.push_back(reference::Gelu(expected_biased.back()));
  }
  EXPECT_LT(RelativeError(out, swiglu), 1e-6);
  EXPECT_LT(RelativeError(gelu, expected_gelu), 1e-6);
  EXPECT_LT(RelativeError(biased, expected_biased), 1e-6);
}

TEST_P(KernelTable, ArgmaxIsTheFirstOfTheLargest) {
  for (const std::uint32_t count : {1U, 3U, 8U, 50U, 257U}) {
    std::vector<float> x = RandomFloats(random_, count);
    const auto largest = std::max_element(x.begin(), x.end()) - x.begin();
    EXPECT_EQ(kernels_.argmax(x.data(), count), largest);
    x.back() = 10;
    EXPECT_EQ(kernels_.argmax(x.data(), count), static_cast<std::int32_t>(count) - 1);
    x[count / 2] = 10;
    EXPECT_EQ(kernels_.argmax(x.data(), count), static_cast<std::int32_t>(count / 2));
  }
}

/// Keys and values of a sequence go into blocks that lie anywhere in a pool of NaN, the context in
/// an earlier call than the chunk.
struct AttentionCase {
  AttentionShape shape;
  std::uint32_t context, count;
  bool causal, rotate;
};

class Paged {
 public:
  Paged(const CpuKernels& kernels, const AttentionCase& c, std::mt19937& random)
      : kernels_(kernels),
        case_(c),
        width_((c.shape.heads + 2 * c.shape.kv_heads) * c.shape.head_dim) {
    const std::uint32_t total = c.context + c.count;
    const std::uint32_t blocks = (total + c.shape.block_tokens - 1) / c.shape.block_tokens;
    table_.resize(blocks + 3);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random);
    keys_.assign(table_.size() * c.shape.block_floats(), kNan);
    values_ = keys_;
    original_ = RandomFloats(random, std::size_t{total} * width_);
    rotation_ = RandomFloats(random, std::size_t{total} * c.shape.head_dim);
  }

  std::vector<float> Run() {
    std::vector<float> qkv = original_;
    Append({table_.data(), 0, case_.context}, qkv.data());
    const AttentionChunk chunk{table_.data(), case_.context, case_.count};
    float* rows = qkv.data() + std::size_t{case_.context} * width_;
    Append(chunk, rows);
    std::vector<float> out(std::size_t{case_.count} * case_.shape.heads * case_.shape.head_dim,
                           kNan);
    kernels_.attend(case_.shape, chunk, case_.causal, rows, keys_.data(), values_.data(),
                    out.data());
    return out;
  }

  Row Expected() const {
    const AttentionShape& s = case_.shape;
    const std::size_t dim = s.head_dim, q_dim = s.heads * dim, kv_dim = s.kv_heads * dim;
    std::vector<Row> queries, keys, values;
    for (std::size_t t = 0; t < case_.context + case_.count; ++t) {
      Row row = RowOf(original_, t, width_);
      for (std::size_t i = 0; case_.rotate && i < q_dim + kv_dim; i += 2) {
        const double c = rotation_[t * dim + i % dim], s2 = rotation_[t * dim + i % dim + 1];
        const double a = row[i], b = row[i + 1];
        row[i] = a * c - b * s2;
        row[i + 1] = a * s2 + b * c;
      }
      const auto k = row.begin() + static_cast<std::ptrdiff_t>(q_dim);
      const auto v = k + static_cast<std::ptrdiff_t>(kv_dim);
      queries.emplace_back(row.begin(), k);
      keys.emplace_back(k, v);
      values.emplace_back(v, row.end());
    }
    Row out;
    for (std::size_t t = case_.context; t < case_.context + case_.count; ++t) {
      for (std::size_t head = 0; head < s.heads; ++head) {
        const auto q = queries[t].begin() + static_cast<std::ptrdiff_t>(head * dim);
        const Row query(q, q + static_cast<std::ptrdiff_t>(dim));
        const Row mixed =
            reference::Attend(query, keys, values, head / (s.heads / s.kv_heads) * dim,
                              case_.causal ? t + 1 : queries.size());
        out.insert(out.end(), mixed.begin(), mixed.end());
      }
    }
    return out;
  }

 private:
  void Append(const AttentionChunk& chunk, float* qkv) {
    const float* rotation =
        rotation_.data() + std::size_t{chunk.context_tokens} * case_.shape.head_dim;
    kernels_.rope_append(case_.shape, chunk, qkv, case_.rotate ? rotation : nullptr, keys_.data(),
                         values_.data());
  }

  const CpuKernels& kernels_;
  AttentionCase case_;
  std::uint32_t width_;
  std::vector<std::uint32_t> table_;
  std::vector<float> original_, rotation_, keys_, values_;
};

TEST_P(KernelTable, AttendsOverScatteredBlocks) {
  const AttentionCase cases[] = {
      {{1, 1, 8, 8}, 0, 1, true, true},      {{2, 2, 16, 16}, 0, 37, true, true},
      {{6, 6, 48, 16}, 130, 1, true, true},  {{4, 2, 24, 8}, 61, 9, true, true},
      {{8, 1, 8, 16}, 127, 3, true, true},   {{8, 2, 64, 32}, 128, 5, true, true},
      {{3, 3, 8, 24}, 255, 2, true, true},   {{2, 1, 256, 16}, 40, 7, true, true},
      {{2, 2, 8, 400}, 0, 383, true, false}, {{2, 2, 8, 136}, 0, 129, false, false},
      {{2, 2, 16, 8}, 0, 5, false, false},   {{4, 4, 8, 16}, 20, 30, false, true},
      {{5, 1, 8, 16}, 300, 1, true, true},   {{1, 1, 8, 16}, 1000, 1, true, true},
  };
  for (const AttentionCase& c : cases) {
    Paged paged(kernels_, c, random_);
    EXPECT_LT(RelativeError(paged.Run(), paged.Expected()), 1e-5)
        << c.shape.heads << "/" << c.shape.kv_heads << " heads of " << c.shape.head_dim
        << ", blocks of " << c.shape.block_tokens << ", " << c.count << " after " << c.context;
  }
}

// The softmax alone: values are unit vectors, so that the result is the weights themselves.
TEST_P(KernelTable, SoftmaxStandsLargeScores) {
  constexpr std::uint32_t kTokens = 200, kDim = 8;
  const AttentionShape shape{1, 1, kDim, 8};
  std::vector<std::uint32_t> table(kTokens / 8);
  std::iota(table.begin(), table.end(), 0);
  std::vector<float> keys(kTokens * kDim, kNan), values = keys, out(kTokens * kDim, kNan);
  std::vector<float> qkv(std::size_t{kTokens} * 3 * kDim);
  for (std::size_t t = 0; t < kTokens; ++t) {
    qkv[t * 24] = 100 * std::sqrt(8.0F);
    qkv[t * 24 + 8] = static_cast<float>(t) / 2;  // scores 0, 50, 100, ...: each far above the last
    qkv[t * 24 + 16] = static_cast<float>(t);
  }
  const AttentionChunk chunk{table.data(), 0, kTokens};
  kernels_.rope_append(shape, chunk, qkv.data(), nullptr, keys.data(), values.data());
  kernels_.attend(shape, chunk, true, qkv.data(), keys.data(), values.data(), out.data());
  for (std::size_t t = 0; t < kTokens; ++t) {
    EXPECT_FLOAT_EQ(out[t * kDim], static_cast<float>(t));
    EXPECT_EQ(out[t * kDim + 1], 0);
  }
}

TEST_P(KernelTable, MultipliesPanels) {
  const struct {
    std::uint32_t rows, n, k;
  } cases[] = {{4, 16, 1}, {8, 5, 7}, {12, 40, 300}, {4, 33, 513}};
  for (const auto& [rows, n, k] : cases) {
    const std::vector<float> weights = RandomFloats(random_, std::size_t{n} * k),
                             x = RandomFloats(random_, std::size_t{rows} * k);
    const std::size_t count = (n + kPanelColumns - 1) / kPanelColumns;
    std::vector<float> panels(count * k * kPanelColumns);
    for (std::size_t row = 0; row < n; ++row) {
      for (std::size_t i = 0; i < k; ++i) {
        panels[(row / kPanelColumns * k + i) * kPanelColumns + row % kPanelColumns] =
            weights[row * k + i];
      }
    }
    std::vector<float> y(std::size_t{rows} * n, kNan);
    kernels_.panel_product(x.data(), panels.data(), rows, n, k, y.data());
    Row expected;
    for (std::size_t row = 0; row < rows; ++row) {
      const Row out = reference::Times(weights, RowOf(x, row, k));
      expected.insert(expected.end(), out.begin(), out.end());
    }
    EXPECT_LT(RelativeError(y, expected), 1e-5) << rows << "x" << n << "x" << k;
  }
}

}  // namespace
}  // namespace schedtwin
