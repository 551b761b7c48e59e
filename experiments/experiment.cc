#include "experiments/experiment.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "experiments/experiment.pb.h"
#include "experiments/fault_text.h"
#include "experiments/text.h"

namespace schedtwin {
namespace {

namespace pb = google::protobuf;

constexpr std::string_view kPaths[] = {
    "trace.source",
    "trace.format",
    "trace.rate_scale",
    "trace.length_scale",
    "trace.limit",
    "trace.duration",
    "trace.deadline",
    "trace.patience",
    "model",
    "profile",
    "devices",
    "policy.name",
    "slo.ttft",
    "slo.tpot",
    "slo.e2e",
    "seed",
    "record",
    "world",
    "wait",
    "queue_depth",
    "kv_blocks",
    "host_blocks",
    "devices_at_start",
    "fault",
    "report_interval",
    "report_delay",
    "prefix_cache",
    "isolate_tenants",
    "oracle",
    "length_predictor",
    "decision_cost",
    "tie_seed",
};

// Of which a value has commas of its own, so that it is never split into a list.
constexpr std::string_view kWholePaths[] = {"trace.source", "fault", "length_predictor"};

// What `--set` and axes may call a path besides its full name.
std::string_view FullPath(std::string_view path) {
  if (path == "trace") return "trace.source";
  if (path == "policy") return "policy.name";
  return path;
}

bool IsParameter(std::string_view path) {
  return path.starts_with("policy.") && path.size() > 7 && path != "policy.name";
}

absl::Status CheckPath(std::string_view path, std::string_view where) {
  const bool known = std::find(std::begin(kPaths), std::end(kPaths), path) != std::end(kPaths);
  if (known || IsParameter(path)) return absl::OkStatus();
  std::string mend = DidYouMean(path, kPaths);
  // "max_num_seqs" alone is most likely a parameter without its prefix.
  if (!Nearest(path, kPaths).has_value()) {
    mend = path.find('.') == std::string_view::npos
               ? Cat("; a parameter of the policy is written policy.", path)
               : Cat(mend, ", policy.PARAMETER");
  }
  return absl::InvalidArgumentError(Cat(where, ": there is no field '", path, "'", mend));
}

// Keeps the first error, in this project's words.
class Errors : public pb::io::ErrorCollector {
 public:
  explicit Errors(std::string path) : path_(std::move(path)) {}

  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!first_.empty()) return;
    first_ = Cat(path_, ":", line + 1, ":", column + 1, ": ", Mended(message));
  }

  const std::string& first() const { return first_; }

 private:
  // Gives 'Message type "schedtwin.proto.Trace" has no field named "rate_scal".' the nearest name.
  static std::string Mended(const std::string& message) {
    const std::vector<std::string_view> parts = Split(message, '"');
    if (parts.size() != 5 || parts[2] != " has no field named ") return message;
    const pb::Descriptor* type =
        pb::DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(parts[1]));
    if (type == nullptr) return message;
    std::vector<std::string_view> names;
    names.reserve(static_cast<std::size_t>(type->field_count()));
    for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
    return Cat("there is no field '", parts[3], "' in ", type->name(), DidYouMean(parts[3], names));
  }

  std::string path_;
  std::string first_;
};

// Without an exponent, which ratios do not take: the text printer writes 0.00001 as 1e-05, and what
// it wrote must read back.
std::string Digits(double value) {
  std::array<char, 400> buffer;  // 1e308 fits
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), result.ptr};
}

std::string ScalarText(const pb::Message& message, const pb::FieldDescriptor* field) {
  const pb::Reflection* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return Cat(reflection->GetUInt32(message, field));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return Cat(reflection->GetUInt64(message, field));
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field) ? "true" : "false";
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return Digits(reflection->GetDouble(message, field));
    default:
      return reflection->GetString(message, field);
  }
}

// Walks the message tree; `places` tells where each field was written.
class Flattener {
 public:
  Flattener(std::string file, Experiment* out, std::vector<Axis>* axes)
      : file_(std::move(file)), out_(out), axes_(axes) {}

  absl::Status Walk(const pb::Message& message, const pb::TextFormat::ParseInfoTree* places,
                    const std::string& prefix) {
    std::vector<const pb::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const pb::FieldDescriptor* field : fields) {
      const absl::Status status = field->is_repeated() ? Repeated(message, field, places)
                                                       : Single(message, field, places, prefix);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  std::string Where(const pb::TextFormat::ParseInfoTree* places, const pb::FieldDescriptor* field,
                    int index) const {
    return Cat(file_, ":", places->GetLocation(field, index).line + 1);
  }

  absl::Status Single(const pb::Message& message, const pb::FieldDescriptor* field,
                      const pb::TextFormat::ParseInfoTree* places, const std::string& prefix) {
    const std::string path = prefix + field->name();
    if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      return Walk(message.GetReflection()->GetMessage(message, field),
                  places->GetTreeForNested(field, -1), path + ".");
    }
    return out_->Set(path, ScalarText(message, field), Where(places, field, -1));
  }

  absl::Status Repeated(const pb::Message& message, const pb::FieldDescriptor* field,
                        const pb::TextFormat::ParseInfoTree* places) {
    const pb::Reflection* reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      const pb::Message& item = reflection->GetRepeatedMessage(message, field, i);
      const std::string where = Where(places, field, i);
      absl::Status status;
      if (field->name() == "param") {
        status = Param(static_cast<const proto::Policy::Param&>(item), where);
      } else if (field->name() == "fault") {
        status = AddFault(static_cast<const proto::Fault&>(item), where);
      } else {
        status = AddAxis(static_cast<const proto::Axis&>(item), where);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Param(const proto::Policy::Param& param, const std::string& where) {
    if (!param.has_name() || !param.has_value() || param.name() == "name") {
      return absl::InvalidArgumentError(
          Cat(where, ": a param needs a name and a value: param { name: \"x\" value: \"1\" }"));
    }
    const std::string path = "policy." + param.name();
    if (const Setting* first = out_->Find(path); first != nullptr) {
      return absl::InvalidArgumentError(Cat(where, ": parameter '", param.name(),
                                            "' is given twice, first at ", first->where,
                                            "; once is enough"));
    }
    return out_->Set(path, param.value(), where);
  }

  // All faults are one setting, whose place is that of the first.
  absl::Status AddFault(const proto::Fault& fault, const std::string& where) {
    if (!fault.has_device() || !fault.has_at()) {
      return absl::InvalidArgumentError(
          Cat(where, ": a fault needs a device and a time: fault { device: 0 at: \"10s\" }"));
    }
    const std::string text =
        JoinFault({Cat(fault.device()), fault.at(), fault.until(), fault.loses()});
    const Setting* first = out_->Find("fault");
    if (first == nullptr) return out_->Set("fault", text, where);
    const Setting before = *first;
    return out_->Set("fault", Cat(before.text, ";", text), before.where);
  }

  absl::Status AddAxis(const proto::Axis& axis, const std::string& where) {
    const std::string path(FullPath(axis.path()));
    const absl::Status status = CheckPath(path, where);
    if (!status.ok()) return status;
    if (axis.values().empty()) {
      return absl::InvalidArgumentError(Cat(where, ": axis '", path, "' has no values"));
    }
    axes_->push_back({path, {axis.values().begin(), axis.values().end()}, where});
    return absl::OkStatus();
  }

  std::string file_;
  Experiment* out_;
  std::vector<Axis>* axes_;
};

void PutFaults(std::string_view text, proto::Experiment* out) {
  for (const FaultText& fault : SplitFaults(text)) {
    proto::Fault* const message = out->add_fault();
    message->set_device(static_cast<std::uint32_t>(ParseInteger(fault.device).value_or(0)));
    message->set_at(fault.at);
    if (!fault.until.empty()) message->set_until(fault.until);
    if (fault.loses) message->set_loses(true);
  }
}

// Puts one setting into the message; a path's last part is the field, the one before its message.
void PutSetting(const Setting& setting, proto::Experiment* out) {
  if (IsParameter(setting.path)) {
    proto::Policy::Param* param = out->mutable_policy()->add_param();
    param->set_name(setting.path.substr(7));
    param->set_value(setting.text);
    return;
  }
  if (setting.path == "fault") return PutFaults(setting.text, out);
  pb::Message* message = out;
  std::string name = setting.path;
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) {
    const auto* outer = message->GetDescriptor()->FindFieldByName(name.substr(0, dot));
    message = message->GetReflection()->MutableMessage(message, outer);
    name = name.substr(dot + 1);
  }
  const pb::FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
  const pb::Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      reflection->SetUInt32(message, field,
                            static_cast<std::uint32_t>(ParseInteger(setting.text).value_or(0)));
      break;
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      reflection->SetUInt64(message, field,
                            static_cast<std::uint64_t>(ParseInteger(setting.text).value_or(0)));
      break;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      reflection->SetBool(message, field, setting.text == "true");
      break;
    case pb::FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      std::from_chars(setting.text.data(), setting.text.data() + setting.text.size(), value);
      reflection->SetDouble(message, field, value);
      break;
    }
    default:
      reflection->SetString(message, field, setting.text);
  }
}

// Adds the value, or all of "1..5" where it is a range between integers.
absl::Status AddValue(std::string_view text, Axis* axis) {
  constexpr std::uint64_t kMostValues = 1'000'000;
  const std::size_t dots = text.find("..");
  std::optional<std::int64_t> first, last;
  if (dots != std::string_view::npos) {
    first = ParseInteger(text.substr(0, dots));
    last = ParseInteger(text.substr(dots + 2));
  }
  if (!first.has_value() || !last.has_value()) {
    axis->values.emplace_back(text);
    return absl::OkStatus();
  }
  // Unsigned, for the difference may be more than 63 bits hold.
  const std::uint64_t span = static_cast<std::uint64_t>(*last) - static_cast<std::uint64_t>(*first);
  if (*last < *first || span >= kMostValues) {
    return absl::InvalidArgumentError(Cat(
        axis->where, ": range '", text, "' must ascend and hold at most ", kMostValues, " values"));
  }
  for (std::uint64_t i = 0; i <= span; ++i) {
    axis->values.push_back(Cat(*first + static_cast<std::int64_t>(i)));
  }
  return absl::OkStatus();
}

absl::Status SplitValues(const std::vector<std::string>& texts, Axis* axis) {
  for (const std::string& text : texts) {
    const auto same = [&](std::string_view path) { return path == axis->path; };
    if (std::any_of(std::begin(kWholePaths), std::end(kWholePaths), same)) {
      axis->values.push_back(text);
      continue;
    }
    for (const std::string_view part : Split(text, ',')) {
      const std::string_view value = Trim(part);
      if (value.empty()) {
        return absl::InvalidArgumentError(
            Cat(axis->where, ": empty value in the list '", text, "'"));
      }
      const absl::Status status = AddValue(value, axis);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Experiment> Experiment::FromFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(Cat("experiment ", path, " is a folder; give a .textproto file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(Cat("cannot read experiment ", path, ": ",
                                   static_cast<const char*>(std::strerror(errno)),
                                   "; give a .textproto file, or use flags alone"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return FromText(text, path);
}

absl::StatusOr<Experiment> Experiment::FromText(std::string_view text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Errors errors(path);
  pb::TextFormat::ParseInfoTree places;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&places);
  proto::Experiment message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    return absl::InvalidArgumentError(errors.first().empty() ? Cat(path, ": not an experiment file")
                                                             : errors.first());
  }
  Experiment out;
  // Axes are gathered apart: Set would drop an axis that a setting further down names, too.
  std::vector<Axis> axes;
  const absl::Status status = Flattener(path, &out, &axes).Walk(message, &places, "");
  if (!status.ok()) return status;
  out.axes_ = std::move(axes);
  return out;
}

absl::Status Experiment::Set(std::string_view path, std::string_view text, std::string_view where) {
  const std::string full(FullPath(path));
  const absl::Status status = CheckPath(full, where);
  if (!status.ok()) return status;
  const auto same = [&](const auto& item) { return item.path == full; };
  axes_.erase(std::remove_if(axes_.begin(), axes_.end(), same), axes_.end());
  const Setting setting = {full, std::string(text), std::string(where)};
  const auto found = std::find_if(settings_.begin(), settings_.end(), same);
  if (found != settings_.end()) {
    *found = setting;
  } else {
    settings_.push_back(setting);
  }
  return absl::OkStatus();
}

const Setting* Experiment::Find(std::string_view path) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Setting& s) { return s.path == path; });
  return found == settings_.end() ? nullptr : &*found;
}

std::string_view Experiment::TextOr(std::string_view path, std::string_view fallback) const {
  const Setting* setting = Find(path);
  return setting == nullptr ? fallback : std::string_view(setting->text);
}

std::vector<const Setting*> Experiment::parameters() const {
  std::vector<const Setting*> out;
  for (const Setting& setting : settings_) {
    if (IsParameter(setting.path)) out.push_back(&setting);
  }
  return out;
}

std::string Experiment::ToText() const {
  proto::Experiment message;
  for (const Setting& setting : settings_) PutSetting(setting, &message);
  std::string text;
  pb::TextFormat::PrintToString(message, &text);
  return text;
}

absl::StatusOr<std::vector<Axis>> TakeAxes(Experiment* experiment) {
  std::vector<Axis> axes;
  for (const Axis& written : experiment->axes()) {
    Axis axis = {written.path, {}, written.where};
    const absl::Status status = SplitValues(written.values, &axis);
    if (!status.ok()) return status;
    axes.push_back(std::move(axis));
  }
  Experiment rest;
  for (const Setting& setting : experiment->settings()) {
    Axis axis = {setting.path, {}, setting.where};
    const absl::Status status = SplitValues({setting.text}, &axis);
    if (!status.ok()) return status;
    if (axis.values.size() > 1) {
      axes.push_back(std::move(axis));
    } else if (const absl::Status set = rest.Set(setting.path, axis.values[0], setting.where);
               !set.ok()) {
      return set;
    }
  }
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const auto same = [&](const Axis& axis) { return axis.path == axes[i].path; };
    if (std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      return absl::InvalidArgumentError(
          Cat(axes[i].where, ": there is another axis on '", axes[i].path, "'; join their values"));
    }
  }
  *experiment = std::move(rest);
  return axes;
}

}  // namespace schedtwin
