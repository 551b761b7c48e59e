#include "experiments/cli/output.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/text.h"

namespace schedtwin::cli {
namespace {

void PrintLine(std::string line) {
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const nlohmann::ordered_json& object) {
  // Bytes that are no UTF-8 (a file's name may hold any) are replaced rather than thrown over.
  Print(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

bool FlushOutput() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

void PrintNote(std::string_view text) { PrintLine(std::string(text)); }

void PrintError(absl::string_view text) { PrintLine("schedtwin: error: " + std::string(text)); }

Table::Table(std::vector<std::pair<std::string, Align>> columns) : columns_(std::move(columns)) {}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Text(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  std::vector<bool> used(columns_.size(), false);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = columns_[c].first.size();
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], row[c].size());
      used[c] = used[c] || !row[c].empty();
    }
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!used[c]) continue;
      const std::string& cell = cell_of(c);
      const std::string pad(widths[c] - cell.size(), ' ');
      line += columns_[c].second == Align::kLeft ? cell + pad : pad + cell;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](std::size_t c) -> const std::string& { return columns_[c].first; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t c) -> const std::string& { return row[c]; });
  }
  return out;
}

std::string Cell(const std::optional<double>& value) {
  return value.has_value() ? Compact(*value) : "-";
}

std::string PercentCell(const std::optional<double>& fraction) {
  if (!fraction.has_value()) return "-";
  return Cat(*fraction >= 0 ? "+" : "", Fixed(*fraction * 100, 1), "%");
}

}  // namespace schedtwin::cli
