// Experiment: what the user asked for, as text with the place where each piece was written, before
// anything is looked up. Read from a .textproto file, overridden by flags; `run_spec.h` turns it
// into a run. Every field is known by its path ("trace.rate_scale", "policy.max_num_seqs"), so
// files, flags, `--set` and sweep axes share one way in, and an error can name file and line. A
// value; any thread. The Protobuf type stays inside experiment.cc.
#ifndef SCHEDTWIN_EXPERIMENTS_EXPERIMENT_H_
#define SCHEDTWIN_EXPERIMENTS_EXPERIMENT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace schedtwin {

/// One field as it was written.
struct Setting {
  std::string path;   ///< "trace.rate_scale"
  std::string text;   ///< "1.5"
  std::string where;  ///< "--rate-scale" or "burst.textproto:7"
};

/// One dimension of a sweep. In an experiment the values are as written; TakeAxes splits them.
struct Axis {
  std::string path;
  std::vector<std::string> values;
  std::string where;
};

class Experiment {
 public:
  /// Reads a file. The error names file, line and column, and the nearest valid name for an unknown
  /// one.
  static absl::StatusOr<Experiment> FromFile(const std::string& path);
  /// The same for text in memory; `path` names it in errors.
  static absl::StatusOr<Experiment> FromText(std::string_view text, const std::string& path);

  /// Sets or replaces one field. Short forms are "trace" for trace.source and "policy" for
  /// policy.name. Setting a path replaces an axis on it, too: the command line wins over the file.
  absl::Status Set(std::string_view path, std::string_view text, std::string_view where);

  /// The setting of a path, or null.
  const Setting* Find(std::string_view path) const;
  /// Its text, or `fallback`.
  std::string_view TextOr(std::string_view path, std::string_view fallback) const;
  /// The policy's parameters ("policy.x", but not "policy.name"), in the order in which they were
  /// given.
  std::vector<const Setting*> parameters() const;

  const std::vector<Setting>& settings() const { return settings_; }
  const std::vector<Axis>& axes() const { return axes_; }

  /// The settings as an experiment file, without axes. REQUIRES: numbers are numbers.
  std::string ToText() const;

 private:
  std::vector<Setting> settings_;
  std::vector<Axis> axes_;
};

/// All axes of a sweep, split into single values: those of the file, then every setting that holds
/// a list ("64,128" or, of integers, "1..5"). What becomes an axis is taken out of the experiment's
/// settings; a range of one value becomes that value.
absl::StatusOr<std::vector<Axis>> TakeAxes(Experiment* experiment);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_EXPERIMENT_H_
