// JsonLines: a file with one JSON object on each line, of which the formats read top-level numbers,
// strings and arrays of whole numbers by key. Numbers keep the digits they were written with. One
// pass, one thread; what it gives holds until the next line.
#ifndef SCHEDTWIN_TRACES_FORMATS_JSON_LINES_H_
#define SCHEDTWIN_TRACES_FORMATS_JSON_LINES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "traces/text.h"

namespace schedtwin {

/// True if the first line of `head` holds all of these keys: by their text alone, since the line
/// may be longer than the head.
bool FirstLineHas(std::string_view head, std::initializer_list<std::string_view> keys);

class JsonLines {
 public:
  /// `text` outlives this.
  explicit JsonLines(TextReader* text);
  ~JsonLines();

  /// The next object. False at the end, and when status() says why not: not JSON, not an object, a
  /// key twice, an empty line before others.
  bool Next();
  const absl::Status& status() const { return status_; }

  bool has(std::string_view key) const;
  // Each an error, "path:line: ...", if the key is missing or holds something else.
  absl::Status Whole(std::string_view key, std::uint64_t most, std::uint64_t* out) const;
  /// The digits of a number.
  absl::Status Number(std::string_view key, std::string_view* out) const;
  absl::Status Text(std::string_view key, std::string_view* out) const;
  /// An array of whole numbers.
  absl::Status Wholes(std::string_view key, std::span<const std::uint64_t>* out) const;
  /// An error about this key's value, which is shown.
  absl::Status Mistake(std::string_view key, std::string_view what) const;

 private:
  struct Object;

  TextReader* text_;
  std::unique_ptr<Object> object_;
  absl::Status status_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_FORMATS_JSON_LINES_H_
