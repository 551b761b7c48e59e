// Digests: 64 bits that stand for everything a run did. XXH64 over little-endian 64-bit words,
// buffered so that a word costs about a nanosecond. Always on. `WordDigest` is sensitive to order;
// `OutcomeDigest` adds the hashes of its requests, so that the order in which requests end at one
// instant does not matter.
#ifndef SCHEDTWIN_POLICIES_RUNTIME_DIGEST_H_
#define SCHEDTWIN_POLICIES_RUNTIME_DIGEST_H_

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "policies/api/time.h"

namespace schedtwin {

static_assert(std::endian::native == std::endian::little,
              "digests are defined on little-endian words");

/// 16 lower-case hex digits.
std::string DigestText(std::uint64_t digest);

/// XXH64 of words in the order they were added.
class WordDigest {
 public:
  WordDigest();
  ~WordDigest();
  WordDigest(const WordDigest&) = delete;
  WordDigest& operator=(const WordDigest&) = delete;

  template <class... Words>
  void Add(Words... words) {
    if (used_ + sizeof...(words) > buffer_.size()) Flush();
    ((buffer_[used_++] = words), ...);
  }
  std::uint64_t value();

 private:
  void Flush();

  struct State;
  std::array<std::uint64_t, 512> buffer_;
  std::size_t used_ = 0;
  std::unique_ptr<State> state_;
};

/// XXH64 of a few words at once.
std::uint64_t HashWords(std::initializer_list<std::uint64_t> words);

/// A token time as one word; the words of a request's tokens are added up, so that a whole range of
/// steps is the difference of two running sums. (SplitMix64's finaliser, Steele et al., OOPSLA'14.)
inline std::uint64_t TokenWord(Time end) {
  std::uint64_t z = static_cast<std::uint64_t>(end.ns()) + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// What happened to each request.
class OutcomeDigest {
 public:
  void AddRequest(std::uint64_t request_hash) {
    sum_ += request_hash;
    ++requests_;
  }
  std::uint64_t value() const { return HashWords({sum_, requests_}); }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t requests_ = 0;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_RUNTIME_DIGEST_H_
