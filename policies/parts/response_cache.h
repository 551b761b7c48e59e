// ResponseCache: which responses are known, by key: the least recently used goes when it is full,
// and whichever is older than the time to live. A hit is looked up before the queue and ends the
// request as answered from the cache; a response is put in when it is complete. Source: Triton's
// response cache, whose key is a hash of model, version and inputs.
//
// Memory for all of it is set aside at the start, but for a node of the hash map for each response.
// Owned by one policy; deterministic: nothing iterates over the map.
#ifndef SCHEDTWIN_POLICIES_PARTS_RESPONSE_CACHE_H_
#define SCHEDTWIN_POLICIES_PARTS_RESPONSE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policies/api/request.h"
#include "policies/api/time.h"

namespace schedtwin {

/// What two requests must share to have one response: prompt, model, adapter and the most that is
/// to be made. 0: its prompt has text of its own, nobody else can have it.
inline std::uint64_t ResponseKey(const RequestView& request) {
  if (request.content() == 0) return 0;
  std::uint64_t key = request.content();
  for (const std::uint32_t word :
       {request.model().value, request.adapter(), request.max_new_tokens()}) {
    key = (key ^ word) * 0x9e3779b97f4a7c15ull;
    key ^= key >> 32;
  }
  return key == 0 ? 1 : key;
}

class ResponseCache {
 public:
  /// `capacity`: responses; 0: none is kept.
  ResponseCache(std::size_t capacity, Duration time_to_live)
      : time_to_live_(time_to_live), entries_(capacity + 1) {
    places_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) unused_.push_back(i);
  }

  /// True, and the key is the most recently used, if its response is known and not too old.
  bool Lookup(std::uint64_t key, Time now) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    const std::size_t place = found->second;
    if (now - entries_[place].made >= time_to_live_) {
      Drop(place);
      return false;
    }
    Unlink(place);
    LinkFirst(place);
    return true;
  }
  /// The response was made now; also if it was known before.
  void Insert(std::uint64_t key, Time now) {
    if (const auto found = places_.find(key); found != places_.end()) Drop(found->second);
    if (unused_.empty() && places_.empty()) return;
    if (unused_.empty()) Drop(entries_[kEnds].previous);
    const std::size_t place = unused_.back();
    unused_.pop_back();
    entries_[place].key = key;
    entries_[place].made = now;
    LinkFirst(place);
    places_.emplace(key, place);
  }
  std::size_t size() const { return places_.size(); }

 private:
  static constexpr std::size_t kEnds = 0;  // next: the most recently used; previous: the least
  struct Entry {
    std::uint64_t key = 0;
    Time made;
    std::size_t next = kEnds, previous = kEnds;
  };

  void LinkFirst(std::size_t place) {
    entries_[place].next = entries_[kEnds].next;
    entries_[place].previous = kEnds;
    entries_[entries_[kEnds].next].previous = place;
    entries_[kEnds].next = place;
  }
  void Unlink(std::size_t place) {
    entries_[entries_[place].next].previous = entries_[place].previous;
    entries_[entries_[place].previous].next = entries_[place].next;
  }
  void Drop(std::size_t place) {
    Unlink(place);
    places_.erase(entries_[place].key);
    unused_.push_back(place);
  }

  Duration time_to_live_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> unused_;
  std::unordered_map<std::uint64_t, std::size_t> places_;
};

}  // namespace schedtwin

#endif  // SCHEDTWIN_POLICIES_PARTS_RESPONSE_CACHE_H_
