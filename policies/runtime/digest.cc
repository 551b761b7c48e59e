#include "policies/runtime/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace schedtwin {

struct WordDigest::State {
  XXH64_state_t xxh;
};

WordDigest::WordDigest() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh, 0); }
WordDigest::~WordDigest() = default;

void WordDigest::Flush() {
  XXH64_update(&state_->xxh, buffer_.data(), used_ * sizeof(std::uint64_t));
  used_ = 0;
}

std::uint64_t WordDigest::value() {
  Flush();
  return XXH64_digest(&state_->xxh);
}

std::uint64_t HashWords(std::initializer_list<std::uint64_t> words) {
  return XXH64(words.begin(), words.size() * sizeof(std::uint64_t), 0);
}

std::string DigestText(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

}  // namespace schedtwin
