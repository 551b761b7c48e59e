// What commands print: text and JSON on standard output, messages and errors on standard error, and
// tables with aligned columns. One thread.
#ifndef SCHEDTWIN_EXPERIMENTS_CLI_OUTPUT_H_
#define SCHEDTWIN_EXPERIMENTS_CLI_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace schedtwin::cli {

void Print(std::string_view text);
/// The one object of --json, on one line.
void PrintJson(const nlohmann::ordered_json& object);
/// False when standard output could not take what was printed.
bool FlushOutput();

/// One line on standard error: a message, or "schedtwin: error: ...". Line ends inside become
/// spaces.
void PrintNote(std::string_view text);
void PrintError(absl::string_view text);

/// Rows of cells, printed with the columns aligned: text to the left, numbers to the right.
class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  explicit Table(std::vector<std::pair<std::string, Align>> columns);

  void Add(std::vector<std::string> cells);
  /// Every line begins with `indent` spaces; columns that are empty all the way down are left out.
  std::string Text(std::size_t indent = 0) const;

 private:
  std::vector<std::pair<std::string, Align>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A number for people, "-" when there is none.
std::string Cell(const std::optional<double>& value);
/// "+12.3%".
std::string PercentCell(const std::optional<double>& fraction);

}  // namespace schedtwin::cli

#endif  // SCHEDTWIN_EXPERIMENTS_CLI_OUTPUT_H_
