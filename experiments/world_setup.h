// WorldSetup: the options of the World in which a RunSpec runs. The one place where they are made:
// simulated runs, real ones and replays all ask here, so that a replay cannot but have the
// conditions of its run. Owns what the options point to. One thread.
#ifndef SCHEDTWIN_EXPERIMENTS_WORLD_SETUP_H_
#define SCHEDTWIN_EXPERIMENTS_WORLD_SETUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/run_spec.h"
#include "policies/runtime/length_predictors.h"
#include "policies/runtime/world.h"

namespace schedtwin {

/// The spec's length predictor; null where it has none. An error says what is wrong with it.
absl::StatusOr<MadeLengthPredictor> LengthPredictorOf(const RunSpec& spec);

class WorldSetup {
 public:
  /// `spec` outlives this. Fails when the trace's view is empty or too long.
  static absl::StatusOr<WorldSetup> Of(const RunSpec& spec);

  /// Refers to this and to the spec; `stop` is left to the caller.
  WorldOptions options() const;

 private:
  explicit WorldSetup(const RunSpec& spec) : spec_(&spec) {}

  const RunSpec* spec_;
  std::unique_ptr<const LengthPredictor> lengths_;
  std::vector<ModelInfo> models_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_WORLD_SETUP_H_
