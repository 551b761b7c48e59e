// CsvTable: comma-separated text with a header, whose columns are asked for by name, wherever they
// stand. Fields may be in double quotes ("" inside stands for one); a field does not go over a line
// end. Every row has as many fields as the header. One pass, one thread; holds views into the line
// that was read last.
#ifndef SCHEDTWIN_TRACES_FORMATS_CSV_H_
#define SCHEDTWIN_TRACES_FORMATS_CSV_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "traces/text.h"

namespace schedtwin {

/// Splits a line at its commas; false: a quote that is not closed, or text behind one. What quotes
/// hold is written to `unquoted`, which the fields may point into.
bool SplitCsv(std::string_view line, std::vector<std::string_view>* fields, std::string* unquoted);

/// True if the first line of `head` has all of these columns.
bool HeaderHas(std::string_view head, std::initializer_list<std::string_view> columns);

class CsvTable {
 public:
  /// `text` outlives this.
  explicit CsvTable(TextReader* text) : text_(text) {}

  /// Reads the header; an error unless it has every one of `columns`, which are then columns 0, 1,
  /// ... of this. `format` names the reader in errors.
  absl::Status Open(std::string_view format, std::initializer_list<std::string_view> columns);
  /// True if there is one of this name; then it is column `*at`.
  bool Find(std::string_view name, std::size_t* at);

  /// The next row. False at the end, and when status() says why not. Empty lines may end a file,
  /// and are an error elsewhere.
  bool Next();
  const absl::Status& status() const { return status_; }

  /// Of the row. REQUIRES: `column` was asked for.
  std::string_view field(std::size_t column) const { return fields_[places_[column]]; }
  /// A whole number from 0 to `most`; an error that names column, value and range else.
  absl::Status Whole(std::size_t column, std::uint64_t most, std::uint64_t* out) const;
  /// An error at this row and column: what is wrong, and how to mend it.
  absl::Status Mistake(std::size_t column, std::string_view what) const;

 private:
  bool Fail(std::string_view message);

  TextReader* text_;
  std::string_view line_;
  std::vector<std::string> names_;   ///< of the header
  std::string columns_;              ///< how many, in words
  std::vector<std::size_t> places_;  ///< by column: index of the field
  std::vector<std::string_view> fields_;
  std::string unquoted_;
  absl::Status status_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_CSV_H_
