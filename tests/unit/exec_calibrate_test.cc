// Calibrate: against a probe that answers from a known model, with and without noise, the profile
// must predict what that model takes; it must ask for nothing that the device cannot hold, keep to
// its budget, and say how far it is off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/calibrate.h"
#include "exec/probe_shapes.h"
#include "policies/api/rng.h"
#include "policies/profile/profile.h"
#include "policies/profile/profile_text.h"
#include "policies/profile/step_time.h"

namespace schedtwin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kLayers = 6;

/// A small decoder: a bend and a jump in the body, every chunk and every decode with a part of its
/// own, attention that grows with its work.
Profile TrueDecoder(std::uint32_t tile = 8) {
  Profile p;
  p.name = p.model = "true";
  p.layers = static_cast<std::uint32_t>(kLayers);
  p.kv_blocks = 2048;
  p.block_tokens = 16;
  p.tile = tile;
  for (std::uint32_t n = tile; n <= 2048 || p.steps.empty(); n += tile) {
    p.steps.push_back({n, 200'000.0 + 12'000.0 * n + (n > 64 ? 150'000 : 0)});
  }
  p.head = {{tile, 100'000.0 + 9'000.0 * tile}, {4096, 100'000.0 + 9'000.0 * 4096}};
  p.decode_base_ns = 2'000;
  p.decode_ns_per_sequence = 900;
  p.decode_ns_per_context_token = 14;
  p.prefill.context_tokens = {0, 1024};
  p.prefill.chunk_tokens = {1, 16, 64, 128, 256, 512, 1024};
  for (const double context : {0.0, 1024.0}) {
    for (const double s : p.prefill.chunk_tokens) {
      p.prefill.layer_ns.push_back(3'000 + 6 * s * (context + s / 2));
    }
  }
  EXPECT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  return p;
}

Profile TrueOneShot() {
  Profile p;
  p.name = p.model = "true";
  p.kind = ModelKind::kOneShot;
  p.steps = {{1, 900'000}, {4, 1'500'000}, {64, 21'000'000}};
  EXPECT_TRUE(ValidateProfile(p).ok()) << ValidateProfile(p);
  return p;
}

DeviceInfo InfoOf(const Profile& profile) {
  DeviceInfo info;
  info.kind = profile.kind;
  info.max_model_len_tokens = profile.kind == ModelKind::kDecoder ? 2048 : 0;
  info.max_step_tokens = profile.kind == ModelKind::kDecoder ? 0 : 48;
  info.total_blocks = profile.kv_blocks;
  info.block_tokens = profile.block_tokens;
  return info;
}

/// Answers from a model; complains of steps that the device cannot hold.
class ModelProbe final : public StepProbe {
 public:
  ModelProbe(const Profile& profile, const DeviceInfo& info) : model(profile), info_(info) {}
  explicit ModelProbe(const Profile& profile) : ModelProbe(profile, InfoOf(profile)) {}

  DeviceInfo info() const override { return info_; }
  absl::StatusOr<ProbeTimes> Run(std::span<const ProbeEntry> entries,
                                 std::uint32_t padding_tokens) override {
    ++runs;
    CheckFits(entries, padding_tokens);
    if (on_run) {
      if (absl::Status status = on_run(entries, padding_tokens); !status.ok()) return status;
    }
    double ns = TrueNs(entries, padding_tokens) * (1 + noise * rng_.Normal());
    const auto cpu = static_cast<std::int64_t>(0.9 * ns);
    if (rng_.Uniform() < outliers) ns *= 5;
    const auto wall = static_cast<std::int64_t>(ns);
    return ProbeTimes{wall, measures_cpu ? cpu : -1, wall + overhead_ns};
  }
  double TrueNs(std::span<const ProbeEntry> entries, std::uint32_t padding_tokens) const {
    if (instead) return instead(entries, padding_tokens);
    StepShape shape;
    shape.padding_tokens = padding_tokens;
    std::vector<PrefillChunk> chunks;
    for (const ProbeEntry& entry : entries) {
      if (info_.kind == ModelKind::kOneShot) {
        shape.units += entry.tokens;
      } else if (entry.decode) {
        ++shape.decode_tokens;
        shape.decode_context_tokens += entry.context_tokens + 1;
      } else {
        chunks.push_back({entry.tokens, entry.context_tokens, entry.samples});
      }
    }
    shape.prefills = chunks;
    return static_cast<double>(model.Predict(shape).ns());
  }

  StepTimeModel model;
  double noise = 0;
  double outliers = 0;
  std::int64_t overhead_ns = 25'000;
  bool measures_cpu = true;
  std::function<absl::Status(std::span<const ProbeEntry>, std::uint32_t)> on_run;
  std::function<double(std::span<const ProbeEntry>, std::uint32_t)>
      instead;  ///< of the model, if set
  int runs = 0;

 private:
  void CheckFits(std::span<const ProbeEntry> entries, std::uint32_t padding_tokens) const {
    EXPECT_FALSE(entries.empty());
    EXPECT_TRUE(padding_tokens == 0 || info_.kind == ModelKind::kDecoder);
    std::uint64_t tokens = padding_tokens;
    std::uint64_t blocks = 0;
    for (const ProbeEntry& entry : entries) {
      EXPECT_GT(entry.tokens, 0u);
      if (entry.decode) {
        EXPECT_TRUE(entry.samples && entry.tokens == 1);
      }
      tokens += entry.tokens;
      const std::uint32_t cached = entry.context_tokens + entry.tokens;
      if (info_.max_model_len_tokens > 0) {
        EXPECT_LE(cached, info_.max_model_len_tokens);
      }
      if (info_.block_tokens > 0) blocks += (cached + info_.block_tokens - 1) / info_.block_tokens;
    }
    if (info_.max_step_tokens > 0) {
      EXPECT_LE(tokens, info_.max_step_tokens);
    }
    if (info_.total_blocks > 0) {
      EXPECT_LE(blocks, info_.total_blocks);
    }
  }

  DeviceInfo info_;
  Rng rng_{7, "noise of a probe"};
};

CalibrateOptions Options(const Profile& truth) {
  CalibrateOptions options;
  options.name = "calibrated";
  options.model = "m";
  options.device = "d";
  options.precision = "f32";
  options.layers = truth.layers;
  options.tile = truth.tile;
  return options;
}

/// A step of the test's own making: nothing of how Calibrate draws its steps.
std::vector<ProbeEntry> RandomStep(Rng* rng) {
  std::vector<ProbeEntry> entries;
  for (std::uint32_t k = rng->Below(3); k > 0; --k) {
    const std::uint32_t tokens = 1 + rng->Below(600);
    entries.push_back({.tokens = tokens,
                       .context_tokens = rng->Below(2) * rng->Below(1400),
                       .samples = rng->Below(2) == 0});
  }
  for (std::uint32_t k = entries.empty() ? 1 + rng->Below(96) : rng->Below(96); k > 0; --k) {
    entries.push_back(
        {.tokens = 1, .context_tokens = rng->Below(1500), .decode = true, .samples = true});
  }
  return entries;
}

struct Off {
  double mean_percent = 0;
  double bias_percent = 0;
};

/// How far `profile` is from what the probe's model takes, over 200 steps.
Off OffBy(const Profile& profile, const ModelProbe& probe) {
  ModelProbe calibrated(profile);
  Off off;
  double predicted = 0;
  double truth = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Rng rng(11, "steps of a test", i);
    const std::vector<ProbeEntry> step = RandomStep(&rng);
    const std::uint32_t padding_tokens = rng.Below(3) == 0 ? rng.Below(600) : 0;
    const double is = calibrated.TrueNs(step, padding_tokens);
    const double should =
        probe.TrueNs(step, padding_tokens) + static_cast<double>(probe.overhead_ns);
    off.mean_percent += std::fabs(is / should - 1) / 2;  // of 200, in percent
    predicted += is;
    truth += should;
  }
  off.bias_percent = 100 * (predicted / truth - 1);
  return off;
}

const FitError& FitOf(const Profile& profile, const std::string& part) {
  for (const FitError& fit : profile.fit) {
    if (fit.part == part) return fit;
  }
  ADD_FAILURE() << "no fit of " << part;
  static const FitError none;
  return none;
}

void ExpectReadsBack(const Profile& profile) {
  const absl::StatusOr<Profile> read = ParseProfile(ProfileText(profile, "calibrated"), "text");
  ASSERT_TRUE(read.ok()) << read.status();
  Profile same = *read;
  same.hash = 0;
  EXPECT_TRUE(same == profile);
}

TEST(Calibrate, FindsTheModelWithoutNoise) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
  ASSERT_TRUE(profile.ok()) << profile.status();
  const Off off = OffBy(*profile, probe);
  EXPECT_LT(off.mean_percent, 0.5);
  EXPECT_LT(std::fabs(off.bias_percent), 0.5);
  EXPECT_EQ(profile->host_overhead_ns, 25'000);
  EXPECT_EQ(profile->name, "calibrated");
  EXPECT_EQ(profile->kv_blocks, 2048u);
  EXPECT_EQ(profile->max_model_len_tokens, 2048u);
  const FitError& held_out = FitOf(*profile, "step");
  EXPECT_EQ(held_out.rows, 16u);
  EXPECT_LT(held_out.mape_percent, 0.5);
  EXPECT_THAT(held_out.method, HasSubstr("held out: mixed steps"));
  // The parts themselves are found, not only their sums.
  EXPECT_NEAR(profile->decode_ns_per_context_token, 14, 0.1);
  EXPECT_NEAR(profile->decode_base_ns, 2'000, 400);
  EXPECT_NEAR(profile->decode_ns_per_sequence, 900, 200);
  EXPECT_NEAR(profile->head.front().step_ns, 172'000, 5'000);
  EXPECT_NEAR(profile->steps.front().step_ns, 296'000, 10'000);
  ExpectReadsBack(*profile);
}

TEST(Calibrate, IsNotLedAstrayByNoise) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  probe.noise = 0.03;
  probe.outliers = 0.02;
  const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
  ASSERT_TRUE(profile.ok()) << profile.status();
  const Off off = OffBy(*profile, probe);
  EXPECT_LT(off.mean_percent, 3);
  EXPECT_LT(std::fabs(off.bias_percent), 1);
  const FitError& held_out = FitOf(*profile, "step");
  EXPECT_LT(held_out.mape_percent, 3);
  EXPECT_LT(std::fabs(held_out.bias_percent), 1.5);
  EXPECT_GT(held_out.max_percent, 0);
  EXPECT_LT(FitOf(*profile, "step, medians").mape_percent, 3);
  EXPECT_LT(FitOf(*profile, "steps for the body").mape_percent, 1);
  EXPECT_LT(FitOf(*profile, "steps for the LM head").mape_percent, 1);
  EXPECT_LT(FitOf(*profile, "steps for the decode attention").mape_percent, 1.5);
  EXPECT_LT(FitOf(*profile, "steps for the prefill attention").mape_percent, 1);
  // Thread CPU time is nine tenths of wall time, and has no outliers.
  const FitError& cpu = FitOf(*profile, "step, thread CPU time");
  EXPECT_NEAR(cpu.bias_percent, 11, 2);
  EXPECT_THAT(cpu.method, HasSubstr("wall time is 1.11"));
  const PrefillTable& prefill = profile->prefill;
  const std::size_t width = prefill.chunk_tokens.size();
  for (std::size_t i = 0; i < prefill.layer_ns.size(); ++i) {
    EXPECT_GT(prefill.layer_ns[i], 0);
    if (i % width > 0) {
      EXPECT_GE(prefill.layer_ns[i], prefill.layer_ns[i - 1]);
    }
    if (i >= width) {
      EXPECT_GE(prefill.layer_ns[i], prefill.layer_ns[i - width]);
    }
  }
  ExpectReadsBack(*profile);
}

TEST(Calibrate, WithoutCpuTimesSaysNothingOfThem) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  probe.measures_cpu = false;
  const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
  ASSERT_TRUE(profile.ok()) << profile.status();
  for (const FitError& fit : profile->fit) EXPECT_NE(fit.part, "step, thread CPU time");
}

struct Limits {
  std::uint32_t model_len, blocks, block_tokens, step_tokens, tile;
};

// What does not fit fails in the probe.
TEST(Calibrate, AsksForNothingThatTheDeviceCannotHold) {
  const Limits all[] = {{256, 64, 16, 0, 8}, {2048, 40, 16, 0, 8},    {1024, 4096, 16, 128, 8},
                        {100, 30, 4, 24, 1}, {8192, 2048, 16, 0, 4},  {0, 512, 16, 0, 64},
                        {0, 100, 1, 0, 2},   {2048, 2048, 16, 0, 16}, {777, 333, 7, 501, 32}};
  for (const Limits& limits : all) {
    SCOPED_TRACE(limits.model_len * 1000 + limits.tile);
    const Profile truth = TrueDecoder(limits.tile);
    DeviceInfo info;
    info.max_model_len_tokens = limits.model_len;
    info.total_blocks = limits.blocks;
    info.block_tokens = limits.block_tokens;
    info.max_step_tokens = limits.step_tokens;
    ModelProbe probe(truth, info);
    const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_LT(FitOf(*profile, "step").mape_percent, 2);
    EXPECT_GE(FitOf(*profile, "step").rows, 10u);
    ExpectReadsBack(*profile);
  }
}

TEST(Calibrate, DevicesTooSmallToTellAreRefused) {
  const Profile truth = TrueDecoder();
  DeviceInfo info = InfoOf(truth);
  info.total_blocks = 0;
  ModelProbe none(truth, info);
  EXPECT_THAT(std::string(Calibrate(none, Options(truth)).status().message()),
              HasSubstr("no KV blocks"));
  info.total_blocks = 3;  // no eight requests fit, as the LM head's first point wants
  ModelProbe few(truth, info);
  EXPECT_THAT(std::string(Calibrate(few, Options(truth)).status().message()),
              HasSubstr("holds less than a tile of 8"));
  EXPECT_EQ(none.runs + few.runs, 0);
}

TEST(Calibrate, OptionsAreChecked) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  const auto refused = [&](auto spoil) {
    CalibrateOptions options = Options(truth);
    spoil(&options);
    const absl::Status status = Calibrate(probe, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  };
  refused([](CalibrateOptions* o) { o->name.clear(); });
  refused([](CalibrateOptions* o) { o->model.clear(); });
  refused([](CalibrateOptions* o) { o->layers = 0; });
  refused([](CalibrateOptions* o) { o->tile = 12; });
  refused([](CalibrateOptions* o) { o->budget = Duration(); });
  EXPECT_EQ(probe.runs, 0);
}

TEST(Calibrate, ErrorsComeBackWithTheirStep) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  probe.on_run = [](std::span<const ProbeEntry> entries, std::uint32_t) {
    if (entries.size() == 8 && entries[0].decode && entries[0].context_tokens == 127) {
      return absl::ResourceExhaustedError("out of memory");
    }
    return absl::OkStatus();
  };
  const absl::Status status = Calibrate(probe, Options(truth)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("a step of 8 decoding at 127"), HasSubstr("out of memory")));
}

TEST(Calibrate, StopsWhenTold) {
  const Profile truth = TrueDecoder();
  std::atomic<bool> stop = true;
  CalibrateOptions options = Options(truth);
  options.stop = &stop;
  ModelProbe probe(truth);
  EXPECT_EQ(Calibrate(probe, options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(probe.runs, 0);
  stop = false;
  probe.on_run = [&](std::span<const ProbeEntry>, std::uint32_t) {
    if (probe.runs == 1000) stop = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(Calibrate(probe, options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(probe.runs, 1000);
}

/// A device that is no table: memory-bound at first, a jump at every 48 tokens, attention by blocks
/// and slower for small chunks.
double RoughNs(std::span<const ProbeEntry> entries, std::uint32_t padding_tokens) {
  const auto up = [](double x, double step) { return std::ceil(x / step) * step; };
  const auto gemm = [](double memory_ns, double compute_ns) {
    return std::sqrt(memory_ns * memory_ns + compute_ns * compute_ns);
  };
  double tokens = padding_tokens;
  double rows = 0;
  double attention_ns = 0;
  for (const ProbeEntry& entry : entries) {
    const double s = entry.tokens;
    const double pairs = s * up(entry.context_tokens + s, 16) - s * (s - 1) / 2;
    const double speed = 0.35 + 0.65 * s / (s + 24);
    attention_ns += kLayers * (3'400 + 7.2 * pairs / speed);
    tokens += s;
    rows += entry.samples ? 1 : 0;
  }
  const double padded = (up(tokens, 8) + up(tokens, 48)) / 2;
  return 60'000 + gemm(700'000, 75'000 * padded) + 400 * tokens +
         (rows > 0 ? 15'000 + gemm(900'000, 90'000 * up(rows, 8)) : 0) + attention_ns;
}

TEST(Calibrate, DevicesThatAreNoTables) {
  const Profile truth = TrueDecoder();
  ModelProbe probe(truth);
  probe.instead = RoughNs;
  probe.noise = 0.03;
  probe.outliers = 0.02;
  const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_LT(FitOf(*profile, "step").mape_percent, 3);
  const Off off = OffBy(*profile, probe);
  EXPECT_LT(off.mean_percent, 3);
  EXPECT_LT(std::fabs(off.bias_percent), 1);
}

/// A probe on a clock of its own: a step takes as long as it says.
struct TimedRun {
  explicit TimedRun(Duration budget) : options(Options(truth)), probe(truth) {
    options.budget = budget;
    options.now_ns = [this] { return now_ns; };
    options.progress = [this](double fraction) { progress.push_back(fraction); };
    probe.on_run = [this](std::span<const ProbeEntry> entries, std::uint32_t padding_tokens) {
      now_ns += static_cast<std::int64_t>(probe.TrueNs(entries, padding_tokens));
      std::uint32_t tokens = padding_tokens;
      for (const ProbeEntry& entry : entries) tokens += entry.tokens;
      ++runs_by_tokens[tokens];
      return absl::OkStatus();
    };
  }

  Profile truth = TrueDecoder();
  CalibrateOptions options;
  ModelProbe probe;
  std::int64_t now_ns = 1'000'000;
  std::vector<double> progress;
  std::map<std::uint32_t, int> runs_by_tokens;
};

// The larger the steps, the longer they take: what does not fit into the budget is left out.
TEST(Calibrate, KeepsToItsBudget) {
  std::uint32_t largest = 0;
  for (const std::int64_t budget_ms : {200, 1000, 3000, 20'000, 40'000}) {
    SCOPED_TRACE(budget_ms);
    TimedRun run(Duration::Millis(budget_ms));
    const absl::StatusOr<Profile> profile = Calibrate(run.probe, run.options);
    ASSERT_TRUE(profile.ok()) << profile.status();
    const double took_ms = static_cast<double>(run.now_ns - 1'000'000) / 1e6;
    EXPECT_LT(took_ms, 1.15 * static_cast<double>(budget_ms));
    EXPECT_GE(profile->steps.back().count, largest) << "more time, larger steps";
    largest = profile->steps.back().count;
    EXPECT_LT(FitOf(*profile, "step").mape_percent, 3);
    EXPECT_TRUE(std::is_sorted(run.progress.begin(), run.progress.end()));
    ASSERT_FALSE(run.progress.empty());
    EXPECT_EQ(run.progress.back(), 1);
  }
  EXPECT_EQ(largest, 2048u);
}

TEST(Calibrate, LongStepsAreFew) {
  TimedRun run(Duration::Seconds(8));
  ASSERT_TRUE(Calibrate(run.probe, run.options).ok());
  EXPECT_GE(run.runs_by_tokens[2048], 5);
  EXPECT_LE(run.runs_by_tokens[2048], 20) << "a quarter of a second of 8";
  EXPECT_GE(run.runs_by_tokens[8], 31);
}

TEST(Calibrate, SaysSoIfTheBudgetIsFarTooShort) {
  TimedRun run(Duration::Millis(10));
  const absl::Status status = Calibrate(run.probe, run.options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("budget of 10 ms is too short"));
}

TEST(Calibrate, OneShotModels) {
  const Profile truth = TrueOneShot();
  for (const bool noisy : {false, true}) {
    ModelProbe probe(truth);
    probe.noise = noisy ? 0.03 : 0;
    probe.outliers = noisy ? 0.02 : 0;
    const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->kind, ModelKind::kOneShot);
    EXPECT_EQ(profile->max_units, 48u);
    EXPECT_EQ(profile->steps.back().count, 48u);
    const StepTimeModel model(*profile);
    for (std::uint32_t units = 1; units <= 48; ++units) {
      const double should = static_cast<double>(probe.model.PredictUnits(units).ns()) + 25'000;
      EXPECT_NEAR(static_cast<double>(model.PredictUnits(units).ns()) / should, 1,
                  noisy ? 0.03 : 1e-4)
          << units;
    }
    const FitError& held_out = FitOf(*profile, "step");
    EXPECT_GE(held_out.rows, 5u);
    EXPECT_LT(held_out.mape_percent, noisy ? 3 : 0.01);
    EXPECT_THAT(held_out.method, HasSubstr("sizes between the points"));
    ExpectReadsBack(*profile);
  }
}

TEST(Calibrate, OneShotOfOneUnit) {
  const Profile truth = TrueOneShot();
  DeviceInfo info = InfoOf(truth);
  info.max_step_tokens = 1;
  ModelProbe probe(truth, info);
  const absl::StatusOr<Profile> profile = Calibrate(probe, Options(truth));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(profile->steps, ElementsAre(StepPoint{1, 900'000}));
  for (const FitError& fit : profile->fit) EXPECT_NE(fit.part, "step") << "nothing lies between";
}

TEST(ProbeShapes, AreSaidInWords) {
  const ProbeEntry chunk = {.tokens = 16};
  const ProbeEntry decode = {.tokens = 1, .context_tokens = 512, .decode = true};
  EXPECT_EQ((ProbeShape{ProbePart::kHeldOut, {chunk, decode, chunk}}).Text(),
            "2 of 16 at 0 + 1 decoding at 512");
}

}  // namespace
}  // namespace schedtwin
