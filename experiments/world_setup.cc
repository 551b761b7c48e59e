#include "experiments/world_setup.h"

#include <cstdint>
#include <utility>

namespace schedtwin {

absl::StatusOr<MadeLengthPredictor> LengthPredictorOf(const RunSpec& spec) {
  if (spec.options.length_predictor.empty()) return MadeLengthPredictor();
  const absl::StatusOr<std::unique_ptr<TraceSource>> source =
      TraceSource::Create(spec.trace, spec.view);
  if (!source.ok()) return source.status();
  std::vector<std::uint32_t> lengths;
  for (const TraceRow& row : (*source)->Rows()) lengths.push_back(row.output_tokens);
  MadeLengthPredictor made = MakeLengthPredictor(
      spec.options.length_predictor, static_cast<std::uint64_t>(spec.seed), std::move(lengths));
  if (made.predictor == nullptr) return absl::InvalidArgumentError(made.error);
  return made;
}

absl::StatusOr<WorldSetup> WorldSetup::Of(const RunSpec& spec) {
  absl::StatusOr<MadeLengthPredictor> made = LengthPredictorOf(spec);
  if (!made.ok()) return made.status();
  WorldSetup setup(spec);
  setup.lengths_ = std::move(made->predictor);
  // A real device loads what there is; what it takes is not asked of a profile.
  const bool simulated = spec.world == WorldKind::kSim;
  if (simulated && spec.profile->profile.weights_bytes > 0) {
    setup.models_.push_back({spec.model, spec.profile->profile.weights_bytes});
  }
  return setup;
}

WorldOptions WorldSetup::options() const {
  const RunOptions& from = spec_->options;
  WorldOptions out;
  out.seed = static_cast<std::uint64_t>(spec_->seed);
  out.tie_seed = from.tie_seed;
  out.identify_blocks = spec_->world != WorldKind::kSim;  // real memory has real blocks
  out.prefix_cache = from.prefix_cache;
  out.isolate_tenants = from.isolate_tenants;
  out.lengths = lengths_.get();
  out.deadlines_cancel = spec_->view.deadline != Duration::Infinite();
  out.decision_cost.fixed = from.decision_cost;
  if (from.measured_decisions != nullptr) out.decision_cost.measured = *from.measured_decisions;
  out.report_interval = from.report_interval;
  out.report_delay = from.report_delay;
  out.faults = from.faults;
  out.models = models_;
  out.devices_at_start = from.devices_at_start;
  return out;
}

}  // namespace schedtwin
