// What readers of text share: the lines of a file with their numbers, read in blocks so that memory
// does not grow with the file, its bytes hashed on the way; and errors of one shape. Called by
// reader.cc and the formats. A TextReader belongs to one thread and one pass.
#ifndef SCHEDTWIN_TRACES_TEXT_H_
#define SCHEDTWIN_TRACES_TEXT_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace schedtwin {

/// 'text' in single quotes, fit for one line of an error: control bytes as \xNN, cut after 60
/// bytes.
std::string Quoted(std::string_view text);

/// "path:line: message".
absl::Status LineError(std::string_view path, std::uint64_t line, std::string_view message);

/// Walks lines ended by LF, CRLF or the end of the text. A text that ends in a newline has no empty
/// last line. A byte-order mark at the start is skipped by Head.
class TextReader {
 public:
  /// Errors: no such file, a directory, unreadable; each one line that names the path and the mend.
  static absl::StatusOr<TextReader> OpenFile(const std::string& path);
  /// Reads `text`, which must outlive the reader.
  static TextReader FromText(std::string_view text, std::string path);

  TextReader(TextReader&&) noexcept;
  TextReader& operator=(TextReader&&) noexcept;
  ~TextReader();

  /// The first bytes, at most 4 KiB, without byte-order mark. REQUIRES: Next was not called yet.
  std::string_view Head();

  /// Gives the next line; the view holds until the next call. False at the end, or when status()
  /// says why not.
  bool Next(std::string_view* line) {
    for (;;) {
      const auto left = static_cast<std::size_t>(end_ - next_);
      const void* newline = left == 0 ? nullptr : std::memchr(next_, '\n', left);
      if (newline != nullptr) {
        const char* line_end = static_cast<const char*>(newline);
        Give(line_end, line);
        next_ = line_end + 1;
        return true;
      }
      if (!Refill()) break;
    }
    if (next_ == end_ || !status_.ok()) return false;
    Give(end_, line);
    next_ = end_;
    return true;
  }

  /// As Next, but empty lines may only end the text: one before others is an error of `*status`
  /// that says what was `expected`.
  bool NextUnlessBlank(std::string_view expected, std::string_view* line, absl::Status* status);

  /// Number of the line last given, from 1.
  std::uint64_t number() const { return number_; }
  const std::string& path() const { return path_; }
  /// Size of the file as far as known before reading: a hint.
  std::size_t size_hint() const { return size_hint_; }
  /// A failure to read, or a line too long to be one; not OK is final.
  const absl::Status& status() const { return status_; }

  /// Bytes and XXH64 of what was read so far; after the last line, of the whole file.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t hash() const;

 private:
  struct Input;

  explicit TextReader(std::string path);
  void Give(const char* end, std::string_view* line) {
    if (end != next_ && end[-1] == '\r') --end;
    *line = std::string_view(next_, static_cast<std::size_t>(end - next_));
    ++number_;
  }
  // Adds a block behind what is left; false at the end of the input and after an error.
  bool Refill();
  // Hashes and counts bytes that came in.
  void Take(std::string_view block);

  std::string path_;
  std::unique_ptr<Input> input_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  std::size_t size_hint_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;
  absl::Status status_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_TRACES_TEXT_H_
