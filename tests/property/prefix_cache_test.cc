// The books of a pool whose blocks are found by their text, against a model that keeps them in the
// plainest way: lists that are searched and copied. Whatever is taken, shared, named, given back,
// fenced, pinned, evicted or undone, both agree on every table, on what is found, and on the order
// in which blocks will be handed out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "policies/api/rng.h"
#include "policies/runtime/digest.h"
#include "policies/runtime/kv_pool.h"

namespace schedtwin {
namespace {

constexpr std::uint32_t kBlocks = 24, kRequests = 6, kTexts = 4, kTextBlocks = 6;

using List = std::vector<std::uint32_t>;
using Hashes = std::vector<std::uint64_t>;

bool Has(const List& list, std::uint32_t block) {
  return std::find(list.begin(), list.end(), block) != list.end();
}

/// Of a text, its first `blocks` blocks. Texts 0 and 1 begin with the same two, and so do 2 and 3.
Hashes TextOf(std::uint32_t text, std::uint32_t blocks) {
  Hashes hashes;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    hashes.push_back(HashWords({i < 2 ? text / 2 : text + 100, i}));
  }
  return hashes;
}

struct Model {
  std::map<std::uint32_t, List> tables;  ///< of requests that own something
  std::map<std::uint32_t, std::uint64_t> names;
  std::map<std::uint64_t, List> named;  ///< in the order they got the name
  List free;                            ///< the next to be handed out first
  std::vector<std::pair<std::uint64_t, std::uint32_t>> fenced;
  std::map<std::uint64_t, std::vector<List>> pinnings;
  std::uint64_t submitted = 0, ended = 0;

  Model() {
    for (std::uint32_t i = 0; i < kBlocks; ++i) free.push_back(i);
  }

  bool Owned(std::uint32_t block) const {
    return std::any_of(tables.begin(), tables.end(),
                       [&](const auto& table) { return Has(table.second, block); });
  }
  bool Pinned(std::uint32_t block) const {
    for (const auto& [name, lists] : pinnings) {
      for (const List& list : lists) {
        if (Has(list, block)) return true;
      }
    }
    return false;
  }
  bool Fenced(std::uint32_t block) const {
    return std::any_of(fenced.begin(), fenced.end(),
                       [&](const auto& fence) { return fence.second == block; });
  }
  void Unname(std::uint32_t block) {
    const auto name = names.find(block);
    if (name == names.end()) return;
    std::erase(named[name->second], block);
    if (named[name->second].empty()) named.erase(name->second);
    names.erase(name);
  }
  void Take(std::uint32_t request, std::uint32_t blocks) {
    for (; blocks > 0; --blocks) {
      Unname(free.front());
      tables[request].push_back(free.front());
      free.erase(free.begin());
    }
  }
  void Name(std::uint32_t request, const Hashes& hashes) {
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const std::uint32_t block = tables[request][i];
      if (names.contains(block)) continue;
      names[block] = hashes[i];
      named[hashes[i]].push_back(block);
    }
  }
  void Give(std::uint32_t request, const Hashes& hashes) {
    if (!tables.contains(request)) return;
    Name(request, hashes);
    const List table = tables[request];
    tables.erase(request);
    for (auto block = table.rbegin(); block != table.rend(); ++block) {
      if (Owned(*block)) continue;
      if (submitted > ended) {
        fenced.emplace_back(submitted, *block);
      } else if (!Pinned(*block)) {
        free.push_back(*block);
      }
    }
  }
  void EndStep() {
    ++ended;
    while (!fenced.empty() && fenced.front().first <= ended) {
      if (!Pinned(fenced.front().second)) free.push_back(fenced.front().second);
      fenced.erase(fenced.begin());
    }
  }
  List Find(const Hashes& hashes, std::uint32_t spoken_for) const {
    const std::size_t gone = std::min<std::size_t>(spoken_for, free.size());
    const List oldest(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(gone));
    List found;
    for (const std::uint64_t hash : hashes) {
      if (!named.contains(hash)) return found;
      const List& same = named.at(hash);
      const auto at = std::find_if(same.begin(), same.end(),
                                   [&](std::uint32_t block) { return !Has(oldest, block); });
      if (at == same.end()) return found;
      found.push_back(*at);
    }
    return found;
  }
  void Adopt(std::uint32_t request, const List& blocks) {
    for (const std::uint32_t block : blocks) {
      std::erase(free, block);
      std::erase_if(fenced, [&](const auto& fence) { return fence.second == block; });
    }
    tables[request] = blocks;
  }
  std::uint32_t Cached() const {
    return static_cast<std::uint32_t>(std::count_if(
        free.begin(), free.end(), [&](std::uint32_t block) { return names.contains(block); }));
  }
  void Evict(std::uint32_t blocks) {
    for (const std::uint32_t block : free) {
      if (blocks == 0) return;
      blocks -= names.contains(block);
      Unname(block);
    }
  }
  bool Pin(const Hashes& hashes) {
    const List found = Find(hashes, 0);
    if (found.empty()) return false;
    for (const std::uint32_t block : found) std::erase(free, block);
    pinnings[hashes[found.size() - 1]].push_back(found);
    return true;
  }
  bool Unpin(const Hashes& hashes) {
    for (std::size_t i = hashes.size(); i > 0; --i) {
      if (!pinnings.contains(hashes[i - 1])) continue;
      std::vector<List>& lists = pinnings[hashes[i - 1]];
      const List blocks = lists.back();
      lists.pop_back();
      if (lists.empty()) pinnings.erase(hashes[i - 1]);
      for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
        if (!Pinned(*block) && !Owned(*block) && !Fenced(*block)) free.push_back(*block);
      }
      return true;
    }
    return false;
  }
};

class Twin {
 public:
  explicit Twin(std::uint64_t seed) : rng_(seed, "prefix cache test") {}

  void Act() {
    switch (rng_.Below(8)) {
      case 0:
        pool_.OnStepSubmitted();
        ++model_.submitted;
        return;
      case 1:
        if (model_.ended == model_.submitted) return;
        pool_.OnStepEnded();
        return model_.EndStep();
      case 2:
        return Decide();
      case 3:
        return Transaction();
      case 4:
        return NameSome();
      default:
        return Move(nullptr);
    }
  }

  void Check() {
    pool_.CheckInvariants();
    ASSERT_EQ(pool_.free_blocks(), model_.free.size());
    ASSERT_EQ(pool_.fenced_blocks(), model_.fenced.size());
    ASSERT_EQ(pool_.cached_blocks(), model_.Cached());
    for (std::uint32_t request = 0; request < kRequests; ++request) {
      const auto table = pool_.BlockTable(request);
      const List owned = model_.tables.contains(request) ? model_.tables.at(request) : List();
      ASSERT_EQ(List(table.begin(), table.end()), owned) << request;
    }
    for (std::uint32_t text = 0; text < kTexts; ++text) {
      for (const std::uint32_t spoken_for : {0u, 3u}) {
        const Hashes hashes = TextOf(text, kTextBlocks);
        const List expected = model_.Find(hashes, spoken_for);
        List found;
        const PrefixCache::Prefix prefix = pool_.cache()->Find(hashes, spoken_for, &found);
        ASSERT_EQ(found, expected);
        ASSERT_EQ(prefix.blocks, expected.size());
        ASSERT_EQ(prefix.free_blocks,
                  std::count_if(expected.begin(), expected.end(),
                                [&](std::uint32_t block) { return Has(model_.free, block); }));
      }
    }
    ASSERT_EQ(NextHandedOut(), model_.free);
  }

  std::uint64_t adopted = 0, evicted = 0, pinned = 0;  ///< of a run that had nothing to do

 private:
  struct Done {
    enum { kTake, kGive, kAdopt } what;
    std::uint32_t request;
    std::uint32_t blocks;
  };

  std::uint32_t AnyRequest() { return rng_.Below(kRequests); }
  static std::uint32_t TextOfRequest(std::uint32_t request) { return request % kTexts; }
  /// Names for some of the blocks that the request has.
  Hashes SomeNames(std::uint32_t request) {
    const auto owned = static_cast<std::uint32_t>(pool_.BlockTable(request).size());
    return TextOf(TextOfRequest(request), rng_.Below(std::min(owned, kTextBlocks) + 1));
  }

  /// What may be part of a transaction; `done` gets what is to be undone.
  void Move(std::vector<Done>* done) {
    const std::uint32_t request = AnyRequest();
    const auto owned = static_cast<std::uint32_t>(pool_.BlockTable(request).size());
    if (owned > 0 && rng_.Below(2) == 0) {
      const Hashes names = SomeNames(request);
      pool_.Give(request, owned, names);
      model_.Give(request, names);
      if (done != nullptr) done->push_back({Done::kGive, request, owned});
      return;
    }
    if (owned == 0 && rng_.Below(2) == 0) {
      const Hashes hashes = TextOf(TextOfRequest(request), rng_.Below(kTextBlocks + 1));
      const List found = model_.Find(hashes, rng_.Below(3));
      if (found.empty()) return;
      pool_.Adopt(request, found);
      model_.Adopt(request, found);
      ++adopted;
      if (done != nullptr) done->push_back({Done::kAdopt, request, 0});
      return;
    }
    const std::uint32_t blocks = rng_.Below(6);
    const bool fits = blocks <= model_.free.size();
    ASSERT_EQ(pool_.Take(request, blocks), fits);
    if (!fits) return;
    model_.Take(request, blocks);
    if (done != nullptr) done->push_back({Done::kTake, request, blocks});
  }

  void NameSome() {
    const std::uint32_t request = AnyRequest();
    if (pool_.BlockTable(request).empty()) return;
    const Hashes names = SomeNames(request);
    pool_.Name(request, names);
    model_.Name(request, names);
  }

  void Decide() {
    const Hashes hashes = TextOf(rng_.Below(kTexts), rng_.Below(kTextBlocks + 1));
    switch (rng_.Below(3)) {
      case 0: {
        const std::uint32_t blocks = rng_.Below(model_.Cached() + 1);
        pool_.Evict(blocks);
        evicted += blocks;
        return model_.Evict(blocks);
      }
      case 1: {
        if (rng_.Below(3) > 0) return;  // pins must not outgrow what is unpinned
        const bool done = model_.Pin(hashes);
        ASSERT_EQ(pool_.Pin(hashes), done);
        pinned += done;
        return;
      }
      case 2:
        ASSERT_EQ(pool_.Unpin(hashes), model_.Unpin(hashes));
        return;
    }
  }

  /// Does a few things and undoes the last of them, or all.
  void Transaction() {
    pool_.Record(true);
    std::vector<Done> undo;
    std::vector<Model> before;  // each of them
    const std::uint32_t stored = pool_.cache()->stored(), evictions = pool_.cache()->evicted();
    for (std::uint32_t i = rng_.Below(8); i > 0; --i) {
      const Model now = model_;
      Move(&undo);
      if (undo.size() > before.size()) before.push_back(now);
    }
    for (std::size_t kept = rng_.Below(3) == 0 ? undo.size() / 2 : 0; undo.size() > kept;) {
      const Done done = undo.back();
      undo.pop_back();
      switch (done.what) {
        case Done::kTake:
          pool_.UndoTake(done.request, done.blocks);
          break;
        case Done::kGive:
          pool_.UndoGive(done.request, done.blocks);
          break;
        case Done::kAdopt:
          pool_.UndoAdopt(done.request);
          break;
      }
      model_ = before.back();
      before.pop_back();
    }
    if (undo.empty()) {
      ASSERT_EQ(pool_.cache()->stored(), stored);
      ASSERT_EQ(pool_.cache()->evicted(), evictions);
    }
    pool_.Record(false);
  }

  List NextHandedOut() {
    pool_.Record(true);
    const std::uint32_t all = pool_.free_blocks();
    EXPECT_TRUE(pool_.Take(kRequests, all));
    const auto table = pool_.BlockTable(kRequests);
    const List blocks(table.begin(), table.end());
    pool_.UndoTake(kRequests, all);
    pool_.Record(false);
    return blocks;
  }

  Rng rng_;
  KvPool pool_{kBlocks, 16, KvBooks::kCached};
  Model model_;
};

TEST(PrefixCacheProperty, AgreesWithAPlainModel) {
  std::uint64_t adopted = 0, evicted = 0, pinned = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Twin twin(seed);
    for (int i = 0; i < 1'500; ++i) {
      twin.Act();
      if (!testing::Test::HasFatalFailure()) twin.Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    adopted += twin.adopted;
    evicted += twin.evicted;
    pinned += twin.pinned;
  }
  EXPECT_GT(adopted, 1'000u);
  EXPECT_GT(evicted, 1'000u);
  EXPECT_GT(pinned, 100u);
}

}  // namespace
}  // namespace schedtwin
