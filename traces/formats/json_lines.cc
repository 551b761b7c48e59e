#include "traces/formats/json_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "traces/formats/number.h"

namespace schedtwin {
namespace {

enum class Kind : std::uint8_t { kOther, kNumber, kText, kWholes };

struct Value {
  std::string key;
  Kind kind = Kind::kOther;
  std::string text;  ///< of a number: its digits
  std::vector<std::uint64_t> wholes;
};

}  // namespace

/// What the parser calls: keeps the values of the outermost object.
struct JsonLines::Object {
  using Json = nlohmann::json;

  std::vector<Value> values;  ///< the first `size` are in use; the rest keep their memory
  std::size_t size = 0;
  std::size_t depth = 0;
  std::string mistake;

  const Value* Find(std::string_view key) const {
    for (std::size_t i = 0; i < size; ++i) {
      if (values[i].key == key) return &values[i];
    }
    return nullptr;
  }
  Value& last() { return values[size - 1]; }
  bool Scalar(Kind kind, std::string text) {
    if (depth == 0) return Fail("found no object");
    if (depth == 1) {
      last().kind = kind;
      last().text = std::move(text);
    } else if (depth == 2) {
      last().kind = Kind::kOther;  // an array with something else in it
    }
    return true;
  }
  bool Fail(std::string what) {
    mistake = std::move(what);
    return false;
  }

  // NOLINTBEGIN(readability-identifier-naming): the names that nlohmann::json calls
  bool null() { return Scalar(Kind::kOther, "null"); }
  bool boolean(bool value) { return Scalar(Kind::kOther, value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return Scalar(Kind::kNumber, std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (depth == 2 && last().kind == Kind::kWholes) {
      last().wholes.push_back(value);
      return true;
    }
    return Scalar(Kind::kNumber, std::to_string(value));
  }
  bool number_float(double, const std::string& digits) { return Scalar(Kind::kNumber, digits); }
  bool string(const std::string& value) { return Scalar(Kind::kText, value); }
  bool binary(Json::binary_t&) { return Fail("found binary data"); }
  bool start_object(std::size_t) {
    if (++depth == 2) last().kind = Kind::kOther;
    if (depth == 3) last().kind = Kind::kOther;
    return true;
  }
  bool end_object() {
    --depth;
    return true;
  }
  bool start_array(std::size_t) {
    if (depth == 0) return Fail("found an array, not an object");
    if (depth == 1) last().kind = Kind::kWholes;
    if (depth == 2) last().kind = Kind::kOther;
    ++depth;
    return true;
  }
  bool end_array() {
    --depth;
    return true;
  }
  bool key(const std::string& name) {
    if (depth != 1) return true;
    if (Find(name) != nullptr) return Fail("found the key " + Quoted(name) + " twice");
    if (size == values.size()) values.emplace_back();
    ++size;
    last().key = name;
    last().kind = Kind::kOther;
    last().text = "an object";
    last().wholes.clear();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    return Fail("found no JSON from character " + std::to_string(position) + " on");
  }
  // NOLINTEND(readability-identifier-naming)
};

bool FirstLineHas(std::string_view head, std::initializer_list<std::string_view> keys) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  return line.starts_with('{') && std::all_of(keys.begin(), keys.end(), [&](std::string_view key) {
           return line.find('"' + std::string(key) + '"') != std::string_view::npos;
         });
}

JsonLines::JsonLines(TextReader* text) : text_(text), object_(std::make_unique<Object>()) {}
JsonLines::~JsonLines() = default;

bool JsonLines::Next() {
  std::string_view line;
  if (!text_->NextUnlessBlank("a JSON object", &line, &status_)) return false;
  object_->size = object_->depth = 0;
  object_->mistake.clear();
  if (nlohmann::json::sax_parse(line.begin(), line.end(), object_.get())) return true;
  status_ = LineError(text_->path(), text_->number(),
                      object_->mistake + " in " + Quoted(line) +
                          "; expected one JSON object on each line; mend or remove the line");
  return false;
}

bool JsonLines::has(std::string_view key) const { return object_->Find(key) != nullptr; }

absl::Status JsonLines::Mistake(std::string_view key, std::string_view what) const {
  const Value* value = object_->Find(key);
  if (value == nullptr) {
    return LineError(text_->path(), text_->number(),
                     "found no key " + Quoted(key) + "; mend or remove the line");
  }
  const std::string shown = value->kind == Kind::kWholes
                                ? "an array of " + std::to_string(value->wholes.size())
                                : Quoted(value->text);
  return LineError(text_->path(), text_->number(),
                   std::string(key) + " is " + shown + std::string(what));
}

absl::Status JsonLines::Whole(std::string_view key, std::uint64_t most, std::uint64_t* out) const {
  const Value* value = object_->Find(key);
  if (value != nullptr && value->kind == Kind::kNumber && ParseWhole(value->text, most, out)) {
    return absl::OkStatus();
  }
  const bool negative = value != nullptr && value->text.starts_with('-');
  return Mistake(key, std::string(negative ? ", a negative number" : "") +
                          "; expected an integer from 0 to " + std::to_string(most) +
                          "; mend or remove the line");
}

absl::Status JsonLines::Number(std::string_view key, std::string_view* out) const {
  const Value* value = object_->Find(key);
  if (value == nullptr || value->kind != Kind::kNumber) {
    return Mistake(key, "; expected a number; mend or remove the line");
  }
  *out = value->text;
  return absl::OkStatus();
}

absl::Status JsonLines::Text(std::string_view key, std::string_view* out) const {
  const Value* value = object_->Find(key);
  if (value == nullptr || value->kind != Kind::kText) {
    return Mistake(key, "; expected a string; mend or remove the line");
  }
  *out = value->text;
  return absl::OkStatus();
}

absl::Status JsonLines::Wholes(std::string_view key, std::span<const std::uint64_t>* out) const {
  const Value* value = object_->Find(key);
  if (value == nullptr || value->kind != Kind::kWholes) {
    return Mistake(key, "; expected an array of integers from 0 up; mend or remove the line");
  }
  *out = value->wholes;
  return absl::OkStatus();
}

}  // namespace schedtwin
