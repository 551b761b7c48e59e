// Holds the shipped profiles to the data they come from: the tables are what the sources say, and
// the stated errors are what the model's predictions give against rows that it was not built from.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/profile/profile.h"
#include "policies/profile/step_time.h"
#include "tests/support/data.h"

namespace schedtwin {
namespace {

bool HasData() { return std::ifstream(DataFile("published-figures.csv")).good(); }

constexpr char kNoData[] = "the public data is not here; set SCHEDTWIN_DATA to its folder";
constexpr char kVidurMlp[] = "vidur/profiling/compute/a100/meta-llama/Meta-Llama-3-8B/mlp.csv";
constexpr char kVidurParity[] = "vidur/parity/predictions_8b_a100/";

using Row = std::vector<std::string>;

Row SplitRow(const std::string& line) {
  Row row;
  std::stringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  return row;
}

std::vector<Row> ReadCsv(const std::string& file) {
  std::vector<Row> rows;
  std::ifstream in(DataFile(file));
  for (std::string line; std::getline(in, line);) rows.push_back(SplitRow(line));
  return rows;
}

/// Numeric rows of a gzipped CSV of at most three columns, header left out.
std::vector<std::array<double, 3>> ReadGzip(const std::string& file) {
  std::vector<std::array<double, 3>> rows;
  std::FILE* pipe = ::popen(("gzip -dc '" + DataFile(file) + "'").c_str(), "r");
  if (pipe == nullptr) return rows;
  std::array<char, 256> line = {};
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    std::array<double, 3> row = {};
    if (std::sscanf(line.data(), "%lf,%lf,%lf", &row[0], &row[1], &row[2]) == 3) {
      rows.push_back(row);
    }
  }
  ::pclose(pipe);
  return rows;
}

std::size_t Column(const Row& header, const std::string& name) {
  const auto at = std::find(header.begin(), header.end(), name);
  EXPECT_NE(at, header.end()) << name;
  return static_cast<std::size_t>(at - header.begin());
}

/// Relative errors of a model, and their statistics: percentiles interpolate linearly.
class Errors {
 public:
  void Add(double model, double measured) {
    errors_.push_back(std::abs(model - measured) / measured);
  }
  void ExpectStated(const Profile& profile, std::string_view part) {
    std::sort(errors_.begin(), errors_.end());
    ASSERT_FALSE(errors_.empty()) << part;
    double sum = 0;
    for (const double e : errors_) sum += e;
    const double place = 0.95 * static_cast<double>(errors_.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double above = errors_[std::min(below + 1, errors_.size() - 1)];
    const double p95 = errors_[below] + (above - errors_[below]) * (place - std::floor(place));
    for (const FitError& fit : profile.fit) {
      if (fit.part != part) continue;
      EXPECT_EQ(fit.rows, errors_.size()) << part;
      EXPECT_NEAR(fit.mape_percent, 100 * sum / static_cast<double>(errors_.size()), 0.006) << part;
      EXPECT_NEAR(fit.p95_percent, 100 * p95, 0.006) << part;
      EXPECT_NEAR(fit.max_percent, 100 * errors_.back(), 0.006) << part;
      return;
    }
    ADD_FAILURE() << "no fit stated for " << part;
  }

 private:
  std::vector<double> errors_;
};

Profile Shipped(const std::string& name) {
  absl::StatusOr<Profile> profile = LoadProfile(name);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return profile.ok() ? *profile : Profile();
}

/// Whole-step time of the linear layers in ns, by token count.
std::map<std::uint32_t, double> MeasuredLinear(std::uint32_t layers) {
  constexpr std::array<const char*, 9> kOps = {"attn_pre_proj",
                                               "attn_post_proj",
                                               "attn_rope",
                                               "mlp_up_proj",
                                               "mlp_down_proj",
                                               "mlp_act",
                                               "input_layernorm",
                                               "post_attention_layernorm",
                                               "add"};
  const std::vector<Row> rows = ReadCsv(kVidurMlp);
  const auto median = [&](const Row& row, const std::string& op) {
    return std::stod(row[Column(rows[0], "time_stats." + op + ".median")]);
  };
  std::map<std::uint32_t, std::pair<double, int>> sums;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row[Column(rows[0], "num_tensor_parallel_workers")] != "1") continue;
    double layer_ms = 0;
    for (const char* op : kOps) layer_ms += median(row, op);
    auto& [sum, count] =
        sums[static_cast<std::uint32_t>(std::stoul(row[Column(rows[0], "num_tokens")]))];
    sum += layers * layer_ms + median(row, "emb");
    ++count;
  }
  std::map<std::uint32_t, double> measured;
  for (const auto& [tokens, sum] : sums) measured[tokens] = sum.first / sum.second * 1e6;
  return measured;
}

TEST(ProfileShipped, LlamaLinearLayersAreAsMeasured) {
  if (!HasData()) GTEST_SKIP() << kNoData;
  const Profile profile = Shipped("llama3-8b-a100");
  Profile linear = profile;
  linear.decode_base_ns = linear.decode_ns_per_context_token = 0;
  const StepTimeModel model(linear);
  const std::map<std::uint32_t, double> measured = MeasuredLinear(profile.layers);
  std::set<std::uint32_t> points;
  for (const StepPoint& point : profile.steps) {
    points.insert(point.count);
    ASSERT_TRUE(measured.count(point.count)) << point.count;
    EXPECT_NEAR(point.step_ns, measured.at(point.count), 1) << point.count;
  }
  Errors all, head, low;
  for (const auto& [tokens, ns] : measured) {
    if (points.count(tokens)) continue;
    const auto predicted = static_cast<double>(model.PredictDecode(tokens, 0).ns());
    all.Add(predicted, ns);
    if (tokens <= 64) head.Add(predicted, ns);
    if (tokens > 64 && tokens <= 512) low.Add(predicted, ns);
  }
  all.ExpectStated(profile, "linear");
  head.ExpectStated(profile, "linear, 1 to 64 tokens");
  low.ExpectStated(profile, "linear, 65 to 512 tokens");
}

TEST(ProfileShipped, LlamaDecodeAttentionIsWithinTheStatedError) {
  if (!HasData()) GTEST_SKIP() << kNoData;
  const Profile profile = Shipped("llama3-8b-a100");
  const auto rows = ReadGzip(std::string(kVidurParity) + "attn_decode_predictions.csv.gz");
  Errors all, cached;
  for (const auto& [batch, context, ms] : rows) {
    const double layer_ns =
        profile.decode_base_ns + profile.decode_ns_per_context_token * batch * context;
    all.Add(layer_ns, ms * 1e6);
    if (context > 0) cached.Add(layer_ns, ms * 1e6);
  }
  all.ExpectStated(profile, "decode attention");
  cached.ExpectStated(profile, "decode attention, 64 cached tokens or more");
}

TEST(ProfileShipped, LlamaPrefillAttentionIsWithinTheStatedError) {
  if (!HasData()) GTEST_SKIP() << kNoData;
  const Profile profile = Shipped("llama3-8b-a100");
  const StepTimeModel model(profile);
  const PrefillTable& table = profile.prefill;
  const auto index = [](const std::vector<std::uint32_t>& axis, std::uint32_t value) {
    return static_cast<std::size_t>(std::find(axis.begin(), axis.end(), value) - axis.begin());
  };
  Errors all, small;
  std::size_t grid_points = 0;
  for (const auto& row : ReadGzip(std::string(kVidurParity) + "attn_prefill_predictions.csv.gz")) {
    const auto context = static_cast<std::uint32_t>(row[0]);
    const auto tokens = static_cast<std::uint32_t>(std::lround(std::sqrt(row[1])));
    const std::size_t i = index(table.context_tokens, context);
    const std::size_t j = index(table.chunk_tokens, tokens);
    if (i < table.context_tokens.size() && j < table.chunk_tokens.size()) {
      ++grid_points;
      EXPECT_NEAR(table.layer_ns[i * table.chunk_tokens.size() + j], row[2] * 1e6, 1);
      continue;
    }
    const PrefillChunk chunk{.tokens = tokens, .context_tokens = context};
    StepShape shape;
    shape.prefills = {&chunk, 1};
    const Duration attention = model.Predict(shape) - model.PredictUnits(tokens);
    const double layer_ns = static_cast<double>(attention.ns()) / profile.layers;
    all.Add(layer_ns, row[2] * 1e6);
    if (tokens <= 512) small.Add(layer_ns, row[2] * 1e6);
  }
  EXPECT_EQ(grid_points, table.layer_ns.size());
  all.ExpectStated(profile, "prefill attention");
  small.ExpectStated(profile, "prefill attention, chunks to 512 tokens");
}

TEST(ProfileShipped, ResnetIsAsPublished) {
  if (!HasData()) GTEST_SKIP() << kNoData;
  const Profile profile = Shipped("resnet50-t4");
  const StepTimeModel model(profile);
  std::map<std::uint32_t, double> published;
  for (const Row& row : ReadCsv("published-figures.csv")) {
    if (row.size() == 10 && row[0] == profile.sources[0].file && row[1] == "T4" &&
        row[3] == "Mixed Precision" && row[7] == "latency_avg") {
      published[static_cast<std::uint32_t>(std::stoul(row[5]))] = std::stod(row[8]) * 1e6;
    }
  }
  ASSERT_EQ(published.size(), profile.steps.size());
  for (const auto& [units, ns] : published) {
    EXPECT_EQ(model.PredictUnits(units).ns(), std::llround(ns)) << units;
  }
  Errors left_out;
  for (std::size_t i = 1; i + 1 < profile.steps.size(); ++i) {
    Profile without = profile;
    without.steps.erase(without.steps.begin() + static_cast<std::ptrdiff_t>(i));
    const StepPoint& point = profile.steps[i];
    left_out.Add(static_cast<double>(StepTimeModel(without).PredictUnits(point.count).ns()),
                 point.step_ns);
  }
  left_out.ExpectStated(profile, "one-shot");
}

TEST(ProfileShipped, EveryProfileLoadsAndSaysWhereItIsFrom) {
  ASSERT_FALSE(ShippedProfiles().empty());
  EXPECT_TRUE(std::is_sorted(ShippedProfiles().begin(), ShippedProfiles().end()));
  for (const std::string_view name : ShippedProfiles()) {
    const Profile profile = Shipped(std::string(name));
    EXPECT_EQ(profile.name, name);
    EXPECT_NE(profile.hash, 0u);
    EXPECT_FALSE(profile.summary.empty());
    EXPECT_FALSE(profile.fit.empty()) << name;
    EXPECT_FALSE(profile.sources.empty()) << name;
    EXPECT_FALSE(profile.gaps.empty()) << name;
  }
}

TEST(ProfileShipped, LlamaHasTheLimitsOfItsMachine) {
  const Profile profile = Shipped("llama3-8b-a100");
  EXPECT_EQ(profile.kind, ModelKind::kDecoder);
  EXPECT_EQ(profile.layers, 32u);
  EXPECT_EQ(profile.kv_blocks, 30208u);
  EXPECT_EQ(profile.block_tokens, 16u);
  EXPECT_EQ(profile.max_model_len_tokens, 8192u);
  // Keys and values of 32 layers, 8 KV heads of 128, two bytes each.
  EXPECT_EQ(profile.block_bytes, 2u * 32 * 8 * 128 * 2 * 16);
  EXPECT_EQ(profile.host_blocks * profile.block_bytes, std::uint64_t{4} << 30);
  // Embedding and head; each layer's attention, MLP and norms; the final norm.
  const std::uint64_t layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096;
  EXPECT_EQ(profile.weights_bytes, 2 * (2 * std::uint64_t{128256} * 4096 + 32 * layer + 4096));
}

TEST(ProfileShipped, LlamaStepTimesByHand) {
  const StepTimeModel model(Shipped("llama3-8b-a100"));
  // 64 tokens: 11,238,000 in the table, 32 * (20,900 + 2.311 * 64,000) for attention.
  EXPECT_EQ(model.PredictDecode(64, 64'000).ns(), 11'238'000 + 668'800 + 4'732'928);
  // One token more is in the next tile of the GEMMs.
  EXPECT_EQ(model.PredictDecode(65, 64'000).ns(), 12'326'000 + 668'800 + 4'732'928);
}

}  // namespace
}  // namespace schedtwin
