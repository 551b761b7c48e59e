// Flags: one command's flags and arguments: declared, parsed, explained. A thin wrapper over
// Boost.Program_options, whose exceptions end here as one-line errors with the nearest valid name.
// Values stay text; whoever uses them parses them strictly. Long flags only ("--limit 5",
// "--limit=5"; but -h for --help and -o for --output), no abbreviations: a script that works today
// works after the next flag was added.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_FLAGS_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_FLAGS_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace schedtwin::cli {

class Flags {
 public:
  /// `usage` is what follows "schedtwin ", `about` says what the command does, `examples` are
  /// lines.
  Flags(std::string usage, std::string about, std::vector<std::string> examples);

  /// "--name VALUE", once.
  Flags& Value(std::string name, std::string value_name, std::string help);
  /// "--name VALUE", as often as wanted.
  Flags& List(std::string name, std::string value_name, std::string help);
  /// "--name" alone.
  Flags& Switch(std::string name, std::string help);
  /// At most `max` arguments that are no flags, at least `min`.
  Flags& Arguments(std::size_t min, std::size_t max);

  /// Parses what follows the command's name. With --help nothing else is asked for.
  absl::Status Parse(std::span<const std::string> words);

  bool help_wanted() const { return given("help"); }
  std::string HelpText() const;

  bool given(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::optional<std::string> value(std::string_view name) const;
  std::string value_or(std::string_view name, std::string_view fallback) const;
  std::vector<std::string> list(std::string_view name) const;
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  enum class Kind : std::uint8_t { kValue, kList, kSwitch };
  struct Flag {
    std::string name, value_name, help;
    Kind kind;
  };
  absl::Status CheckArguments() const;
  std::vector<std::string_view> Names() const;

  std::string usage_, about_;
  std::vector<std::string> examples_;
  std::vector<Flag> flags_;
  std::size_t min_arguments_ = 0, max_arguments_ = 0;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> arguments_;
};

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_FLAGS_H_
