// How a device is measured. Machines are noisy: neighbours take their share of caches and memory
// for seconds, and a step in a hundred is cut in two by something else. So all shapes are measured
// in rounds, each round in an order of its own, and a slow stretch falls on all of them alike. Of a
// shape's times the mean of those below three times their median is taken: what takes longer in a
// real run is a sum of times, which the mean gives and a median or minimum does not (half of the
// times of a busy machine lie well above its median); beyond three times the median lie the few
// that a longer measurement would not have again.
//
// The shapes are as large as the budget allows: a first run of each, in ascending size, warms up
// and tells what five rounds would cost.
#include "exec/calibrate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "exec/probe_fit.h"
#include "exec/probe_shapes.h"
#include "exec/profile_errors.h"
#include "exec/wall_clock.h"
#include "policies/api/rng.h"

namespace schedtwin {
namespace {

constexpr std::size_t kFewestRounds = 3;
constexpr std::size_t kWantedRounds = 5;
constexpr std::size_t kMostRounds = 31;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// The mean of what is below three times the median.
double RobustMean(const std::vector<double>& values) {
  const double limit = 3 * Median(values);
  double sum = 0;
  double count = 0;
  for (const double value : values) {
    if (value > limit) continue;
    sum += value;
    ++count;
  }
  return sum / count;
}

/// One shape and what was measured of it.
struct Measured {
  ProbeShape shape;
  double spent_ns = 0;
  std::vector<double> wall_ns;
  std::vector<double> cpu_ns;  ///< empty where the probe does not tell
  std::vector<double> overhead_ns;
};

absl::Status CheckOptions(const DeviceInfo& info, const CalibrateOptions& options) {
  const auto wrong = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("calibration: ", parts...));
  };
  if (options.name.empty() || options.model.empty())
    return wrong("the profile needs a name and a model");
  if (!std::has_single_bit(options.tile)) {
    return wrong("the tile is ", options.tile, "; it must be a power of two");
  }
  if (options.budget <= Duration()) return wrong("the budget must be above zero");
  if (info.kind != ModelKind::kDecoder) return absl::OkStatus();
  if (options.layers == 0) return wrong("a decoder has at least one layer");
  if (info.total_blocks == 0 || info.block_tokens == 0) return wrong("the device has no KV blocks");
  return absl::OkStatus();
}

class Session {
 public:
  Session(StepProbe& probe, const CalibrateOptions& options)
      : probe_(probe), options_(options), info_(probe.info()), start_ns_(now_ns()) {}

  absl::StatusOr<Profile> Run() {
    absl::Status status = CheckOptions(info_, options_);
    if (status.ok()) status = ChooseShapes();
    if (status.ok()) status = RunRounds();
    if (!status.ok()) return status;
    return MakeProfile();
  }

 private:
  double budget_ns() const { return static_cast<double>(options_.budget.ns()); }
  std::int64_t now_ns() const { return options_.now_ns ? options_.now_ns() : clock_.Now().ns(); }
  double elapsed_ns() const { return static_cast<double>(now_ns() - start_ns_); }
  bool decoder() const { return info_.kind == ModelKind::kDecoder; }

  absl::Status ChooseShapes();
  absl::Status WarmUp(const std::vector<ProbeShape>& shapes, std::vector<double>* costs);
  absl::Status SetShapes(std::uint32_t most_tokens);
  absl::Status RunRounds();
  absl::Status RunRound(std::size_t round);
  /// One run of `shape`; what it cost, all told.
  absl::StatusOr<double> RunOnce(const ProbeShape& shape, ProbeTimes* times);
  void Report(double fraction) const {
    if (options_.progress) options_.progress(std::clamp(fraction, 0.0, 1.0));
  }

  absl::StatusOr<Profile> MakeProfile() const;
  void FillFixed(Profile* profile) const;
  std::vector<MeasuredStep> MeasuredSteps() const;
  std::string HowMeasured() const;

  StepProbe& probe_;
  const CalibrateOptions& options_;
  const DeviceInfo info_;
  const WallClock clock_;
  const std::int64_t start_ns_;
  ProbeGrid grid_;
  std::vector<Measured> all_;  ///< the fitted ones, then those held out
  std::size_t fitted_ = 0;
  std::size_t rounds_ = 0;
};

absl::StatusOr<double> Session::RunOnce(const ProbeShape& shape, ProbeTimes* times) {
  if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
    return absl::CancelledError("calibration was interrupted");
  }
  const std::int64_t start_ns = now_ns();
  const absl::StatusOr<ProbeTimes> answer = probe_.Run(shape.entries, shape.padding_tokens);
  const auto cost = static_cast<double>(now_ns() - start_ns);
  if (!answer.ok()) {
    return absl::Status(
        answer.status().code(),
        absl::StrCat("calibration: a step of ", shape.Text(), ": ", answer.status().message()));
  }
  if (answer->wall_ns <= 0) {
    return absl::InternalError(absl::StrCat("calibration: a step of ", shape.Text(),
                                            " was said to take ", answer->wall_ns, " ns"));
  }
  *times = *answer;
  return cost;
}

/// Runs shapes in ascending size until a fifth of the budget is gone; costs of those it has run.
absl::Status Session::WarmUp(const std::vector<ProbeShape>& shapes, std::vector<double>* costs) {
  for (const ProbeShape& shape : shapes) {
    ProbeTimes times;
    absl::StatusOr<double> cost = RunOnce(shape, &times);
    // Again if it is cheap: the first run of a shape may prepare things.
    if (cost.ok() && *cost < budget_ns() / 2000) cost = RunOnce(shape, &times);
    if (!cost.ok()) return cost.status();
    costs->push_back(*cost);
    Report(elapsed_ns() / budget_ns());
    if (elapsed_ns() > budget_ns() / 5) break;
  }
  return absl::OkStatus();
}

absl::Status Session::ChooseShapes() {
  const std::uint32_t most = MostProbeTokens(info_);
  const ProbeGrid largest = GridOf(info_, options_.tile, most);
  if (largest.body.empty() || largest.body[0] != options_.tile || most < options_.tile ||
      (decoder() && (largest.head.empty() || largest.head[0] != options_.tile))) {
    return absl::InvalidArgumentError(
        absl::StrCat("calibration: the device holds less than a tile of ", options_.tile));
  }
  std::vector<ProbeShape> shapes = FittedShapes(info_, largest);
  std::stable_sort(shapes.begin(), shapes.end(), [](const ProbeShape& a, const ProbeShape& b) {
    return a.tokens() < b.tokens();
  });
  std::vector<double> costs;
  if (const absl::Status status = WarmUp(shapes, &costs); !status.ok()) return status;
  // The largest size at which five rounds of all shapes up to it fit into what is left, the steps
  // held out taken to cost as much as a sixth of the others.
  const double left_ns = budget_ns() - elapsed_ns();
  std::uint32_t chosen = shapes[0].tokens();
  double round_ns = 0;
  double chosen_ns = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    round_ns += costs[i] * 7 / 6;
    const bool whole = i + 1 == shapes.size() || shapes[i + 1].tokens() > shapes[i].tokens();
    if (!whole || (i + 1 == costs.size() && i + 1 < shapes.size())) continue;
    if (chosen_ns > 0 && round_ns * static_cast<double>(kWantedRounds) > left_ns) break;
    chosen = shapes[i].tokens();
    chosen_ns = round_ns;
  }
  if (chosen_ns == 0 || chosen_ns * static_cast<double>(kFewestRounds) > 2 * left_ns) {
    return absl::DeadlineExceededError(absl::StrCat(
        "calibration: the budget of ", options_.budget.ns() / 1'000'000,
        " ms is too short for three rounds of the smallest steps; give it several times more"));
  }
  return SetShapes(std::max(chosen, options_.tile));
}

absl::Status Session::SetShapes(std::uint32_t most_tokens) {
  grid_ = GridOf(info_, options_.tile, most_tokens);
  for (ProbeShape& shape : FittedShapes(info_, grid_)) all_.push_back({std::move(shape)});
  fitted_ = all_.size();
  for (ProbeShape& shape : HeldOutShapes(info_, grid_, options_.seed)) {
    all_.push_back({std::move(shape)});
    ProbeTimes warm;
    const absl::StatusOr<double> cost = RunOnce(all_.back().shape, &warm);
    if (!cost.ok()) return cost.status();
  }
  return absl::OkStatus();
}

absl::Status Session::RunRounds() {
  for (; rounds_ < kMostRounds; ++rounds_) {
    if (rounds_ >= kFewestRounds && elapsed_ns() >= budget_ns()) break;
    if (const absl::Status status = RunRound(rounds_); !status.ok()) return status;
  }
  Report(1);
  return absl::OkStatus();
}

absl::Status Session::RunRound(std::size_t round) {
  std::vector<std::size_t> order(all_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng(options_.seed, "calibration order", round);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.Below(static_cast<std::uint32_t>(i))]);
  }
  const double share_ns = 4 * budget_ns() / static_cast<double>(all_.size());
  for (const std::size_t i : order) {
    Measured& measured = all_[i];
    if (round >= kFewestRounds && elapsed_ns() >= budget_ns()) break;
    if (round >= kWantedRounds && measured.spent_ns > share_ns) continue;  // long: a few will do
    ProbeTimes times;
    const absl::StatusOr<double> cost = RunOnce(measured.shape, &times);
    if (!cost.ok()) return cost.status();
    measured.spent_ns += *cost;
    measured.wall_ns.push_back(static_cast<double>(times.wall_ns));
    if (times.cpu_ns > 0) measured.cpu_ns.push_back(static_cast<double>(times.cpu_ns));
    measured.overhead_ns.push_back(
        static_cast<double>(std::max<std::int64_t>(0, times.round_trip_ns - times.wall_ns)));
    Report(std::max(elapsed_ns() / budget_ns(),
                    static_cast<double>(round) / static_cast<double>(kMostRounds)));
  }
  return absl::OkStatus();
}

// ---- What the measurements make ----

double Rounded(double x, double per_unit) { return std::round(x * per_unit) / per_unit; }

/// To what a reader can use: no measurement is good to a hundredth of a nanosecond.
void RoundAll(Profile* profile) {
  const auto round = [](double* ns) { *ns = std::max(0.01, Rounded(*ns, 100)); };
  for (StepPoint& point : profile->steps) round(&point.step_ns);
  for (StepPoint& point : profile->head) round(&point.step_ns);
  for (double& ns : profile->prefill.layer_ns) round(&ns);
  profile->host_overhead_ns = Rounded(profile->host_overhead_ns, 100);
  profile->decode_base_ns = Rounded(profile->decode_base_ns, 100);
  profile->decode_ns_per_sequence = Rounded(profile->decode_ns_per_sequence, 1e4);
  profile->decode_ns_per_context_token = Rounded(profile->decode_ns_per_context_token, 1e7);
}

ProfileLink LinkOf(const Link& link) {
  return {static_cast<std::uint64_t>(link.latency.ns()), link.bytes_per_second};
}

void Session::FillFixed(Profile* profile) const {
  profile->name = options_.name;
  profile->summary = options_.summary;
  profile->model = options_.model;
  profile->device = options_.device;
  profile->precision = options_.precision;
  profile->kind = info_.kind;
  profile->tile = options_.tile;
  if (decoder()) {
    profile->layers = options_.layers;
    profile->max_model_len_tokens = info_.max_model_len_tokens;
    profile->kv_blocks = info_.total_blocks;
    profile->block_tokens = info_.block_tokens;
    profile->block_bytes = info_.block_bytes;
    profile->host_blocks = info_.host_blocks;
    profile->host_link = LinkOf(info_.host_link);
    profile->peer_link = LinkOf(info_.peer_link);
  } else {
    profile->max_units = info_.max_step_tokens;
  }
  profile->load_link = LinkOf(info_.load_link);
  profile->gaps.push_back("links are what the device says of itself, and not measured");
  profile->sources.push_back(
      {HowMeasured(), absl::StrCat("this device: ", options_.device), "", ""});
  if (decoder()) {
    profile->gaps.push_back(
        "the launch part of prefill attention is not measured apart and counts as nothing");
  }
  profile->gaps.push_back("times are means: their scatter is not in the model");
  profile->gaps.push_back(absl::StrCat("steps of more than ", grid_.body.back(),
                                       decoder() ? " tokens" : " units",
                                       " were not measured; the last slopes go on"));
}

std::string Session::HowMeasured() const {
  std::size_t steps = 0;
  std::size_t fewest = kMostRounds;
  for (const Measured& measured : all_) {
    steps += measured.wall_ns.size();
    fewest = std::min(fewest, measured.wall_ns.size());
  }
  return absl::StrCat("calibration: ", steps, " steps of ", all_.size(), " shapes, ", fewest,
                      " to ", rounds_, " times each, order from seed ", options_.seed);
}

std::vector<MeasuredStep> Session::MeasuredSteps() const {
  std::vector<MeasuredStep> steps;
  for (const Measured& measured : all_) {
    const double cpu_ns = measured.cpu_ns.empty() ? 0 : RobustMean(measured.cpu_ns);
    steps.push_back(
        {measured.shape, RobustMean(measured.wall_ns), Median(measured.wall_ns), cpu_ns});
  }
  return steps;
}

absl::StatusOr<Profile> Session::MakeProfile() const {
  Profile profile;
  FillFixed(&profile);
  std::vector<double> overheads;
  std::vector<double> wall_ns;
  std::vector<ProbeShape> shapes;
  for (const Measured& measured : all_) {
    overheads.insert(overheads.end(), measured.overhead_ns.begin(), measured.overhead_ns.end());
    if (wall_ns.size() == fitted_) continue;
    wall_ns.push_back(RobustMean(measured.wall_ns));
    shapes.push_back(measured.shape);
  }
  profile.host_overhead_ns = RobustMean(overheads);
  if (decoder()) {
    FitDecoder(grid_, shapes, wall_ns, &profile);
  } else {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      profile.steps.push_back({shapes[i].tokens(), wall_ns[i]});
    }
  }
  RoundAll(&profile);
  if (const absl::Status status = ValidateProfile(profile); !status.ok()) {
    return absl::InternalError(
        absl::StrCat("calibration made no valid profile: ", status.message()));
  }
  profile.fit = ProfileErrors(profile, MeasuredSteps());
  return profile;
}

}  // namespace

absl::StatusOr<Profile> Calibrate(StepProbe& probe, const CalibrateOptions& options) {
  return Session(probe, options).Run();
}

}  // namespace schedtwin
