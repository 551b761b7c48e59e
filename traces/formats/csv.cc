#include "traces/formats/csv.h"

#include <algorithm>

#include "traces/formats/number.h"

namespace schedtwin {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list;
}

}  // namespace

bool SplitCsv(std::string_view line, std::vector<std::string_view>* fields, std::string* unquoted) {
  fields->clear();
  unquoted->clear();
  unquoted->reserve(line.size());  // fields point into it
  for (;;) {
    if (!line.starts_with('"')) {
      const std::size_t comma = line.find(',');
      fields->push_back(line.substr(0, comma));
      if (comma == std::string_view::npos) return true;
      line.remove_prefix(comma + 1);
      continue;
    }
    const std::size_t begin = unquoted->size();
    for (line.remove_prefix(1);; line.remove_prefix(1)) {
      if (line.empty()) return false;
      if (line.front() == '"') {
        line.remove_prefix(1);
        if (!line.starts_with('"')) break;
      }
      *unquoted += line.front();
    }
    fields->push_back(std::string_view(*unquoted).substr(begin));
    if (line.empty()) return true;
    if (line.front() != ',') return false;
    line.remove_prefix(1);
  }
}

bool HeaderHas(std::string_view head, std::initializer_list<std::string_view> columns) {
  std::vector<std::string_view> fields;
  std::string unquoted;
  if (!SplitCsv(head.substr(0, head.find_first_of("\r\n")), &fields, &unquoted)) return false;
  return std::all_of(columns.begin(), columns.end(), [&](std::string_view column) {
    return std::find(fields.begin(), fields.end(), column) != fields.end();
  });
}

absl::Status CsvTable::Open(std::string_view format,
                            std::initializer_list<std::string_view> columns) {
  text_->Next(&line_);
  if (!SplitCsv(line_, &fields_, &unquoted_)) Fail("found a quote that is not closed");
  names_.assign(fields_.begin(), fields_.end());
  columns_ = std::to_string(names_.size()) + " columns";
  for (const std::string_view column : columns) {
    std::size_t at = 0;
    if (status_.ok() && !Find(column, &at)) {
      Fail("found no column " + Quoted(column) + " in the header " + Quoted(line_) + "; format " +
           std::string(format) + " needs it; mend the header, or name another --format");
    }
  }
  return status_;
}

bool CsvTable::Find(std::string_view name, std::size_t* at) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return false;
  *at = places_.size();
  places_.push_back(static_cast<std::size_t>(found - names_.begin()));
  return true;
}

bool CsvTable::Fail(std::string_view message) {
  if (status_.ok()) status_ = LineError(text_->path(), text_->number(), message);
  return false;
}

bool CsvTable::Next() {
  if (!text_->NextUnlessBlank(columns_, &line_, &status_)) return false;
  if (!SplitCsv(line_, &fields_, &unquoted_)) {
    return Fail("found a quote that is not closed, or text behind one, in " + Quoted(line_) +
                "; mend or remove the row");
  }
  if (fields_.size() == names_.size()) return true;
  return Fail("found " + std::to_string(fields_.size()) +
              (fields_.size() == 1 ? " column" : " columns") + " in " + Quoted(line_) +
              "; expected " + std::to_string(names_.size()) + " (" + Listed(names_) +
              "); mend or remove the row");
}

absl::Status CsvTable::Whole(std::size_t column, std::uint64_t most, std::uint64_t* out) const {
  if (ParseWhole(field(column), most, out)) return absl::OkStatus();
  const bool negative = field(column).starts_with('-');
  return Mistake(column, std::string(negative ? ", a negative number" : "") +
                             "; expected an integer from 0 to " + std::to_string(most) +
                             "; mend or remove the row");
}

absl::Status CsvTable::Mistake(std::size_t column, std::string_view what) const {
  return LineError(text_->path(), text_->number(),
                   names_[places_[column]] + " is " + Quoted(field(column)) + std::string(what));
}

}  // namespace schedtwin
