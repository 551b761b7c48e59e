#include "experiments/cli/flags.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

namespace po = boost::program_options;

// The name of a flag as Boost tells it, without dashes and without "=value".
std::string BareName(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  return name.substr(0, name.find('='));
}

// What Boost calls arguments that are no flags; a user can type it, too.
constexpr char kArgument[] = "argument";

absl::Status UnknownFlag(std::string_view name, const std::vector<std::string_view>& names) {
  std::string mend = "; `--help` lists the flags";
  if (const auto found = Nearest(name, names); found.has_value()) {
    mend = Cat("; did you mean '--", *found, "'?");
  }
  return absl::InvalidArgumentError(Cat("unknown flag '--", name, "'", mend));
}

// Boost's exceptions end here.
absl::StatusOr<std::vector<po::option>> ParseWords(std::span<const std::string> words,
                                                   po::options_description known,
                                                   const std::vector<std::string_view>& names) {
  known.add_options()(kArgument, po::value<std::vector<std::string>>(), "");
  po::positional_options_description positional;
  positional.add(kArgument, -1);
  std::vector<std::string> args(words.begin(), words.end());
  std::replace(args.begin(), args.end(), std::string("-h"), std::string("--help"));
  if (std::find(names.begin(), names.end(), "output") != names.end()) {
    std::replace(args.begin(), args.end(), std::string("-o"), std::string("--output"));
  }
  try {
    using namespace po::command_line_style;  // NOLINT
    return po::command_line_parser(args)
        .options(known)
        .positional(positional)
        .style(allow_long | long_allow_adjacent | long_allow_next)
        .run()
        .options;
  } catch (const po::unknown_option& error) {
    return UnknownFlag(BareName(error.get_option_name()), names);
  } catch (const po::invalid_command_line_syntax& error) {
    const std::string name = BareName(error.get_option_name());
    const bool missing = error.kind() == po::invalid_syntax::missing_parameter ||
                         error.kind() == po::invalid_syntax::empty_adjacent_parameter;
    return absl::InvalidArgumentError(Cat("flag '--", name,
                                          missing ? "' needs a value" : "' takes no value",
                                          "; `--help` tells more"));
  } catch (const po::error& error) {
    return absl::InvalidArgumentError(Cat(std::string(error.what()), "; `--help` tells more"));
  }
}

void AppendWrapped(std::string* out, std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 100;
  std::size_t column = indent;
  bool first = true;
  for (const std::string_view word : Split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      *out += "\n" + std::string(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) *out += ' ';
    *out += word;
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  *out += '\n';
}

}  // namespace

Flags::Flags(std::string usage, std::string about, std::vector<std::string> examples)
    : usage_(std::move(usage)), about_(std::move(about)), examples_(std::move(examples)) {}

Flags& Flags::Value(std::string name, std::string value_name, std::string help) {
  flags_.push_back({std::move(name), std::move(value_name), std::move(help), Kind::kValue});
  return *this;
}

Flags& Flags::List(std::string name, std::string value_name, std::string help) {
  flags_.push_back({std::move(name), std::move(value_name), std::move(help), Kind::kList});
  return *this;
}

Flags& Flags::Switch(std::string name, std::string help) {
  flags_.push_back({std::move(name), "", std::move(help), Kind::kSwitch});
  return *this;
}

Flags& Flags::Arguments(std::size_t min, std::size_t max) {
  min_arguments_ = min;
  max_arguments_ = max;
  return *this;
}

std::vector<std::string_view> Flags::Names() const {
  std::vector<std::string_view> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.name);
  return names;
}

absl::Status Flags::CheckArguments() const {
  for (const std::string& argument : arguments_) {
    if (!argument.starts_with('-') || argument == "-") continue;
    return absl::InvalidArgumentError(Cat("unknown flag '", argument, "'",
                                          DidYouMean(BareName(argument), Names()),
                                          "; flags begin with two dashes"));
  }
  if (arguments_.size() > max_arguments_) {
    return absl::InvalidArgumentError(
        Cat("unexpected argument '", arguments_[max_arguments_], "'; usage: schedtwin ", usage_));
  }
  if (arguments_.size() < min_arguments_) {
    return absl::InvalidArgumentError(Cat("an argument is missing; usage: schedtwin ", usage_));
  }
  return absl::OkStatus();
}

absl::Status Flags::Parse(std::span<const std::string> words) {
  po::options_description known;
  known.add_options()("help", "");
  for (const Flag& flag : flags_) {
    if (flag.kind == Kind::kSwitch) {
      known.add_options()(flag.name.c_str(), "");
    } else {
      known.add_options()(flag.name.c_str(), po::value<std::string>(), "");
    }
  }
  const absl::StatusOr<std::vector<po::option>> options = ParseWords(words, known, Names());
  if (!options.ok()) return options.status();
  for (const po::option& option : *options) {
    if (option.position_key >= 0) {
      arguments_.insert(arguments_.end(), option.value.begin(), option.value.end());
      continue;
    }
    if (option.string_key == kArgument) return UnknownFlag(option.string_key, Names());
    // "--db --json" is a value forgotten; one that does begin so is written --db=--json.
    if (option.original_tokens.size() > 1 && option.original_tokens[1].starts_with("--")) {
      return absl::InvalidArgumentError(Cat("flag '--", option.string_key, "' needs a value, but '",
                                            option.original_tokens[1],
                                            "' follows; `--help` tells more"));
    }
    std::vector<std::string>& values = values_[option.string_key];
    values.insert(values.end(), option.value.begin(), option.value.end());
  }
  for (const Flag& flag : flags_) {
    if (flag.kind == Kind::kValue && list(flag.name).size() > 1) {
      return absl::InvalidArgumentError(
          Cat("flag '--", flag.name, "' is given twice; once is enough"));
    }
  }
  return help_wanted() ? absl::OkStatus() : CheckArguments();
}

std::string Flags::HelpText() const {
  std::string out = Cat("usage: schedtwin ", usage_, "\n\n", about_, "\n");
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Flag& flag : flags_) {
    rows.emplace_back(Cat("--", flag.name, flag.value_name.empty() ? "" : " ", flag.value_name),
                      flag.help);
  }
  rows.emplace_back("--help", "this text");
  std::size_t width = 0;
  for (const auto& [flag, help] : rows) width = std::max(width, flag.size());
  out += "\nFlags:\n";
  for (const auto& [flag, help] : rows) {
    out += "  " + flag + std::string(width - flag.size() + 2, ' ');
    AppendWrapped(&out, help, width + 4);
  }
  if (!examples_.empty()) {
    out += "\nExamples:\n";
    for (const std::string& example : examples_) out += "  " + example + "\n";
  }
  return out;
}

std::optional<std::string> Flags::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

std::string Flags::value_or(std::string_view name, std::string_view fallback) const {
  return value(name).value_or(std::string(fallback));
}

std::vector<std::string> Flags::list(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace schedtwin::cli
