#include "traces/text.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace schedtwin {
namespace {

constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;  // small enough to stay in cache
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string Why() { return std::generic_category().message(errno); }

}  // namespace

struct TextReader::Input {
  ~Input() {
    if (file >= 0) close(file);
  }
  int file = -1;  // none: all text is there from the start
  std::string buffer;
  XXH64_state_t hash;
};

TextReader::TextReader(std::string path) : path_(std::move(path)), input_(new Input) {
  XXH64_reset(&input_->hash, 0);
}
TextReader::TextReader(TextReader&&) noexcept = default;
TextReader& TextReader::operator=(TextReader&&) noexcept = default;
TextReader::~TextReader() = default;

absl::StatusOr<TextReader> TextReader::OpenFile(const std::string& path) {
  TextReader reader(path);
  reader.input_->file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (reader.input_->file < 0 && errno == ENOENT) {
    return absl::NotFoundError("trace " + Quoted(path) +
                               " does not exist; check the path, or use a built-in trace such as "
                               "synth:azure_conv");
  }
  if (reader.input_->file < 0) {
    return absl::InvalidArgumentError("trace " + Quoted(path) + " cannot be opened: " + Why() +
                                      "; check the path and its permissions");
  }
  struct stat info = {};
  if (fstat(reader.input_->file, &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError("trace " + Quoted(path) +
                                        " is a directory; name a file inside it");
    }
    reader.size_hint_ = static_cast<std::size_t>(info.st_size);
  }
  reader.input_->buffer.resize(kBlockBytes);
  reader.next_ = reader.end_ = reader.input_->buffer.data();
  return reader;
}

TextReader TextReader::FromText(std::string_view text, std::string path) {
  TextReader reader(std::move(path));
  reader.size_hint_ = text.size();
  reader.next_ = text.data();
  reader.end_ = text.data() + text.size();
  reader.Take(text);
  return reader;
}

std::string_view TextReader::Head() {
  while (static_cast<std::size_t>(end_ - next_) < kHeadBytes && Refill()) {
  }
  const std::string_view text(next_, static_cast<std::size_t>(end_ - next_));
  if (text.starts_with(kByteOrderMark)) next_ += kByteOrderMark.size();
  return {next_, std::min(static_cast<std::size_t>(end_ - next_), kHeadBytes)};
}

bool TextReader::NextUnlessBlank(std::string_view expected, std::string_view* line,
                                 absl::Status* status) {
  if (!Next(line)) return false;
  if (!line->empty()) return true;
  const std::uint64_t blank = number();
  while (Next(line)) {
    if (line->empty()) continue;
    *status =
        LineError(path_, blank,
                  "found an empty line; expected " + std::string(expected) + "; remove the line");
    break;
  }
  return false;
}

void TextReader::Take(std::string_view block) {
  XXH64_update(&input_->hash, block.data(), block.size());
  bytes_ += block.size();
}

bool TextReader::Refill() {
  if (input_->file < 0 || !status_.ok()) return false;
  std::string& buffer = input_->buffer;
  const auto left = static_cast<std::size_t>(end_ - next_);
  if (left > kLongestLine) {
    status_ = LineError(path_, number_ + 1,
                        "the line is longer than 64 MiB; this is no trace, or its line "
                        "ends are missing");
    return false;
  }
  std::memmove(buffer.data(), next_, left);
  if (buffer.size() < left + kBlockBytes) buffer.resize(2 * left + kBlockBytes);
  ssize_t got = 0;
  do {
    got = read(input_->file, buffer.data() + left, buffer.size() - left);
  } while (got < 0 && errno == EINTR);
  next_ = buffer.data();
  end_ = next_ + left + (got > 0 ? got : 0);
  if (got < 0) {
    status_ = absl::InvalidArgumentError("trace " + Quoted(path_) + " cannot be read: " + Why() +
                                         "; check the file and its disk");
  }
  if (got > 0) Take({next_ + left, static_cast<std::size_t>(got)});
  return got > 0;
}

std::uint64_t TextReader::hash() const { return XXH64_digest(&input_->hash); }

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

absl::Status LineError(std::string_view path, std::uint64_t line, std::string_view message) {
  return absl::InvalidArgumentError(std::string(path) + ":" + std::to_string(line) + ": " +
                                    std::string(message));
}

}  // namespace schedtwin
