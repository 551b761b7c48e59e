// schedtwin calibrate: measures a device of this machine, and writes a profile of it.
#include "exec/calibrate.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "exec/cpu_models.h"
#include "exec/device_probe.h"
#include "exec/execute.h"
#include "experiments/cli/fit_report.h"
#include "experiments/cli/flags.h"
#include "experiments/cli/output.h"
#include "experiments/cli/program.h"
#include "experiments/cli/run_flags.h"
#include "experiments/cli/watch.h"
#include "experiments/host.h"
#include "experiments/text.h"
#include "kernels/cpu/linear.h"
#include "kernels/model_shapes.h"
#include "policies/profile/profile_text.h"

namespace schedtwin::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kMostBudget = Duration::Seconds(3600);

Flags CalibrateFlags() {
  Flags flags(
      "calibrate --model NAME -o FILE [FLAG...]",
      "Measures how long the steps of a model take on this machine, and writes a profile for "
      "`sim`,\n"
      "`sweep` and `exec --profile`: random weights and inputs, steps of some hundred shapes in\n"
      "shuffled rounds, over the same threads and messages as a real run. Mixed steps that the "
      "fit\n"
      "has not seen say how far it is off. Keep the machine quiet meanwhile.",
      {"schedtwin calibrate --model llama-15m -o llama-15m.textproto",
       "schedtwin calibrate --model encoder-mini --budget 10s -o encoder.textproto",
       "schedtwin sim --profile ./llama-15m.textproto --length-scale 0.1 --duration 60s"});
  flags.Arguments(0, 0);
  flags.Value("world", "NAME", "what to measure: cpu (the default)");
  flags.Value("model", "NAME", Cat("the model: ", Join(CpuModels(), ", ")));
  flags.Value("output", "FILE", "or -o FILE: the profile to write; replaced if it is there");
  flags.Value("budget", "D", "how long to measure (default 40s)");
  flags.Value("seed", "N", "of weights, inputs and the order of steps (default 1)");
  AddJsonFlag(&flags);
  return flags;
}

struct Wanted {
  std::string model, path;
  DeviceInfo device;
  Duration budget = CalibrateOptions().budget;
  std::uint64_t seed = 1;
};

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::StatusOr<Wanted> ReadFlags(const Flags& flags) {
  Wanted out;
  if (const std::string world = flags.value_or("world", "cpu"); world != "cpu") {
    return Invalid(Cat("--world: cannot measure '", world, "'; known are cpu"));
  }
  if (!flags.given("model")) {
    return Invalid(Cat("--model is missing; it is one of ", Join(CpuModels(), ", ")));
  }
  out.model = *flags.value("model");
  const absl::StatusOr<DeviceInfo> device = CpuDeviceInfo(out.model);
  if (!device.ok()) return Invalid(Cat("--model: ", std::string(device.status().message())));
  out.device = *device;
  if (!flags.given("output")) return Invalid("-o FILE is missing: where to write the profile");
  out.path = *flags.value("output");
  if (const auto text = flags.value("budget"); text.has_value()) {
    if (!ParseDuration(*text, &out.budget) || out.budget < Duration::Seconds(1) ||
        out.budget > kMostBudget) {
      return Invalid(Cat("--budget cannot be '", *text, "'; it is from 1s to 60min"));
    }
  }
  if (const auto text = flags.value("seed"); text.has_value()) {
    const std::optional<std::int64_t> seed = ParseInteger(*text);
    if (!seed.has_value() || *seed < 0) {
      return Invalid(Cat("--seed cannot be '", *text, "'; it is an integer from 0"));
    }
    out.seed = static_cast<std::uint64_t>(*seed);
  }
  return out;
}

// Written beside its place and moved there, so that the file is the old one or the new one. Opened
// before anything is measured: a place that cannot be written to is told at once.
class NewFile {
 public:
  static absl::StatusOr<NewFile> Open(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      return Invalid(Cat("-o ", path, ": is a folder; name a file"));
    }
    NewFile file(path);
    file.stream_.open(file.draft_, std::ios::binary | std::ios::trunc);
    if (!file.stream_) {
      return Invalid(Cat("-o ", path, ": cannot be written (",
                         std::generic_category().message(errno), "); name another file"));
    }
    return file;
  }
  ~NewFile() {
    if (!draft_.empty()) std::remove(draft_.c_str());
  }
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        draft_(std::exchange(other.draft_, "")),
        stream_(std::move(other.stream_)) {}
  NewFile& operator=(NewFile&&) = delete;

  absl::Status Write(const std::string& text) {
    stream_ << text;
    stream_.close();
    std::error_code error;
    if (stream_) std::filesystem::rename(draft_, path_, error);
    if (!stream_ || error) {
      return absl::InternalError(Cat(
          "-o ", path_, ": writing failed: ", error ? error.message() : std::string("disk full?")));
    }
    draft_.clear();
    return absl::OkStatus();
  }

 private:
  explicit NewFile(const std::string& path)
      : path_(path), draft_(Cat(path, ".", getpid(), ".part")) {}

  std::string path_, draft_;
  std::ofstream stream_;
};

CalibrateOptions OptionsFor(const Wanted& wanted) {
  const ModelShape& shape = *FindModelShape(wanted.model);
  const bool one_shot = wanted.device.kind == ModelKind::kOneShot;
  CalibrateOptions options;
  options.name = std::filesystem::path(wanted.path).stem().string();
  options.summary = Cat(wanted.model, " on the processor it was measured on, float32, one thread");
  options.model = wanted.model;
  options.device = Cat(HostText(), "; ", CpuBackend());
  options.precision = "f32";
  options.layers = shape.layers;
  options.tile = one_shot ? 1 : kRowTile;
  options.budget = wanted.budget;
  options.seed = wanted.seed;
  return options;
}

absl::Status RunCalibrate(const Flags& flags) {
  const absl::StatusOr<Wanted> wanted = ReadFlags(flags);
  if (!wanted.ok()) return wanted.status();
  const Interrupt interrupt;
  absl::StatusOr<NewFile> file = NewFile::Open(wanted->path);
  if (!file.ok()) return file.status();
  CalibrateOptions options = OptionsFor(*wanted);
  const absl::StatusOr<std::unique_ptr<DeviceProbe>> probe =
      DeviceProbe::Start(CpuStepRunner(wanted->model, wanted->seed), DefaultWait(1));
  if (!probe.ok()) return probe.status();
  absl::StatusOr<Profile> profile;
  {
    Progress progress("calibrate", "per mille", 1000);
    options.stop = interrupt.flag();
    options.progress = [counter = progress.counter()](double fraction) {
      if (counter != nullptr)
        counter->store(static_cast<std::uint64_t>(std::lround(1000 * fraction)));
    };
    profile = Calibrate(**probe, options);
  }
  if (interrupt.raised()) return absl::CancelledError("interrupted; no profile was written");
  if (!profile.ok()) return profile.status();
  const absl::Status status = file->Write(ProfileText(
      *profile, Cat("Made by schedtwin calibrate --model ", wanted->model, " (", Version(), ").")));
  if (!status.ok()) return status;
  if (flags.given("json")) {
    PrintJson(Json{{"profile", wanted->path},
                   {"model", profile->model},
                   {"device", profile->device},
                   {"host_overhead_ns", profile->host_overhead_ns},
                   {"fit", FitJson(*profile)}});
  } else {
    Print(Cat("profile ", wanted->path, ": ", profile->model, " on ", profile->device, "\n",
              FitText(*profile), "  host overhead ", Compact(profile->host_overhead_ns / 1e3),
              " us a step\n"));
  }
  return absl::OkStatus();
}

}  // namespace

const Command kCalibrate = {"calibrate", "measure a device of this machine and write its profile",
                            CalibrateFlags, RunCalibrate};

}  // namespace schedtwin::cli
