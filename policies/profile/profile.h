// Profile: a device model as data. It says how long a step takes by what it does (tables and fitted
// factors), how much memory there is, where the numbers came from and how far they are off.
// Profiles are Protobuf text files (profile.proto has the fields and their units); some ship inside
// the library. Loaded once per run by sim, by calibration and by the CLI; a StepTimeModel is then
// compiled from it. A plain value without Protobuf types, owned by who loads it; safe to share
// between threads once loaded.
#ifndef SCHEDTWIN_POLICIES_PROFILE_PROFILE_H_
#define SCHEDTWIN_POLICIES_PROFILE_PROFILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policies/api/request.h"

namespace schedtwin {

/// The name used in files and by the CLI: "one-shot" or "decoder".
std::string_view ModelKindName(ModelKind kind);

/// One measured point: a whole step's time at `count` tokens (decoder) or units (one-shot).
struct StepPoint {
  std::uint32_t count = 0;
  double step_ns = 0;
  friend bool operator==(const StepPoint&, const StepPoint&) = default;
};

/// Time of one prompt chunk's attention in one layer, on a grid. Row-major: all chunks of the first
/// context, then of the next.
struct PrefillTable {
  std::vector<std::uint32_t> context_tokens;  ///< already in the cache; ascending, from 0
  std::vector<std::uint32_t> chunk_tokens;    ///< computed now; ascending, from 1
  std::vector<double> layer_ns;  ///< context_tokens.size() * chunk_tokens.size() values
  double launch_ns = 0;  ///< part of each value; a step pays it once, however many its chunks
  friend bool operator==(const PrefillTable&, const PrefillTable&) = default;
};

/// How far one part of the model is from its source; `method` says on which rows.
struct FitError {
  std::string part;    ///< "linear", "decode attention", ...
  std::string method;  ///< which rows, and whether the model was built from them
  std::uint64_t rows = 0;
  double mape_percent = 0;  ///< mean of |model - source| / source
  double p95_percent = 0;
  double max_percent = 0;
  double bias_percent = 0;  ///< of the sums: model / source - 1; 0 where nobody measured it
  friend bool operator==(const FitError&, const FitError&) = default;
};

/// Where numbers came from.
struct ProfileSource {
  std::string what;
  std::string file;    ///< repository:path
  std::string commit;  ///< empty where the source does not say
  std::string licence;
  friend bool operator==(const ProfileSource&, const ProfileSource&) = default;
};

/// A way for bytes: so long until the first, and then so many a second.
struct ProfileLink {
  std::uint64_t latency_ns = 0;
  std::uint64_t bytes_per_second = 0;  ///< 0: there is no such way
  friend bool operator==(const ProfileLink&, const ProfileLink&) = default;
};

struct Profile {
  std::string name;
  std::string summary;  ///< one line for listings
  std::string model;
  std::string device;
  std::string precision;
  ModelKind kind = ModelKind::kDecoder;
  std::uint64_t hash = 0;  ///< XXH64 of the text it was loaded from; 0 when made in code

  // Limits. 0: none.
  std::uint32_t max_model_len_tokens = 0;
  std::uint32_t max_sequences = 0;  ///< decoder: requests in one step
  std::uint32_t max_units = 0;      ///< one-shot: units in one launch
  std::uint32_t kv_blocks = 0;
  std::uint32_t block_tokens = 0;
  std::uint64_t block_bytes = 0;    ///< KV of one block
  std::uint32_t host_blocks = 0;    ///< of the host tier; 0: nothing is swapped
  std::uint64_t weights_bytes = 0;  ///< of the model; 0: loads take no time
  ProfileLink host_link;            ///< between the device and its host tier, each direction
  ProfileLink peer_link;            ///< from another device into this one
  ProfileLink load_link;            ///< from where weights are kept

  // Step time.
  double host_overhead_ns = 0;   ///< every step
  std::uint32_t layers = 0;      ///< decoder: what the per-layer numbers are multiplied by
  std::uint32_t tile = 1;        ///< counts are padded up to a multiple of it: a power of two
  std::vector<StepPoint> steps;  ///< ascending multiples of `tile`, the first at `tile` itself
  double floor_ns = 0;           ///< a non-empty step's table part is never below this
  double decode_base_ns = 0;     ///< decode attention, one layer, if the step decodes at all
  double decode_ns_per_context_token = 0;
  double decode_ns_per_sequence = 0;
  PrefillTable prefill;
  std::vector<StepPoint> head;  ///< LM head, by rows that sample; at the same tile; may be empty

  std::vector<FitError> fit;
  std::vector<ProfileSource> sources;
  std::vector<std::string> gaps;  ///< what is known to be missing
  friend bool operator==(const Profile&, const Profile&) = default;
};

/// Loads a shipped profile by name, or a file by path (what contains '/' or ends in ".textproto").
/// The error is one line: what is wrong, where (file:line:column for syntax), and how to mend it.
/// NotFound: no such name or file; InvalidArgument: not a valid profile.
absl::StatusOr<Profile> LoadProfile(std::string_view name_or_path);

/// Parses and checks one profile; `where` names the text in errors.
absl::StatusOr<Profile> ParseProfile(std::string_view text, std::string_view where);

/// Says in one line what is wrong with a profile. OK: a StepTimeModel can be built from it.
absl::Status ValidateProfile(const Profile& profile);

/// Names of the profiles inside the library, in alphabetical order. Lives as long as the program.
std::span<const std::string_view> ShippedProfiles();

/// The file text of a shipped profile; empty if there is none of that name.
std::string_view ShippedProfileText(std::string_view name);

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PROFILE_PROFILE_H_
